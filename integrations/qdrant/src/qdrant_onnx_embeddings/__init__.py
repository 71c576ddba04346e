"""Qdrant points and queries from texts, embedded on your own machine by onnx-embeddings."""

from __future__ import annotations

from qdrant_onnx_embeddings.collection import (
    acheck_collection,
    aopen_collection,
    check_collection,
    open_collection,
)
from qdrant_onnx_embeddings.embedder import OnnxEmbedder
from qdrant_onnx_embeddings.points import point_id
from qdrant_onnx_embeddings.upload import upload_texts

__version__ = "0.1.0"

__all__ = [
    "OnnxEmbedder",
    "__version__",
    "acheck_collection",
    "aopen_collection",
    "check_collection",
    "open_collection",
    "point_id",
    "upload_texts",
]
