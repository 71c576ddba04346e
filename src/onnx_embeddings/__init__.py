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
from onnx_embeddings.request import DEFAULT_MODEL, ModelRequest
from onnx_embeddings.spec import ModelSpec, Pooling, Precision, Similarity

if TYPE_CHECKING:
    from onnx_embeddings.catalog import CatalogModel, list_models
    from onnx_embeddings.engine import Engine
    from onnx_embeddings.loading import load, load_shared

__version__ = "0.1.0"

__all__ = [
    "DEFAULT_MODEL",
    "CatalogModel",
    "Engine",
    "EngineConfig",
    "ModelRequest",
    "ModelSpec",
    "OnnxEmbeddingsError",
    "Pooling",
    "Precision",
    "Similarity",
    "__version__",
    "errors",
    "list_models",
    "load",
    "load_shared",
]

# What needs numpy is imported on first use, so that importing this package costs next to nothing.
_LAZY = {
    "CatalogModel": "onnx_embeddings.catalog",
    "Engine": "onnx_embeddings.engine",
    "list_models": "onnx_embeddings.catalog",
    "load": "onnx_embeddings.loading",
    "load_shared": "onnx_embeddings.loading",
}


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
