"""Texts to vectors on your own machine: one shared local ONNX engine.

>>> import onnx_embeddings
>>> engine = onnx_embeddings.load()
>>> engine.embed_documents(["a text", "another"]).shape
(2, 384)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from onnx_embeddings import errors
from onnx_embeddings.config import EngineConfig
from onnx_embeddings.errors import OnnxEmbeddingsError
from onnx_embeddings.spec import DEFAULT_MODEL, ModelRequest, ModelSpec, Pooling, Precision

if TYPE_CHECKING:
    from onnx_embeddings.engine import Engine, load

__version__ = "0.1.0"

__all__ = [
    "DEFAULT_MODEL",
    "Engine",
    "EngineConfig",
    "ModelRequest",
    "ModelSpec",
    "OnnxEmbeddingsError",
    "Pooling",
    "Precision",
    "__version__",
    "errors",
    "load",
]

# What needs numpy is imported on first use, so that importing this package costs next to nothing.
_LAZY = {"Engine": "onnx_embeddings.engine", "load": "onnx_embeddings.engine"}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    from importlib import import_module

    value = getattr(import_module(_LAZY[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
