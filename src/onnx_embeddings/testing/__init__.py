"""For tests: a tiny real model, and the contract that every adapter must pass.

>>> from pathlib import Path
>>> from tempfile import mkdtemp
>>> import onnx_embeddings
>>> from onnx_embeddings.testing import write_tiny_model
>>> folder = write_tiny_model(Path(mkdtemp()) / "model")
>>> with onnx_embeddings.load(folder) as engine:
...     engine.embed_documents(["a text"]).shape
(1, 32)
"""

from __future__ import annotations

from onnx_embeddings.testing.contract import check_adapter, check_import
from onnx_embeddings.testing.tiny_model import TINY_CONFIG, write_tiny_model

__all__ = ["TINY_CONFIG", "check_adapter", "check_import", "write_tiny_model"]
