"""Haystack embedders that compute on your own machine, with onnx-embeddings."""

from __future__ import annotations

from haystack_integrations.components.embedders.onnx_embeddings.document_embedder import (
    OnnxDocumentEmbedder,
)
from haystack_integrations.components.embedders.onnx_embeddings.text_embedder import (
    OnnxTextEmbedder,
)

__version__ = "0.1.0"

__all__ = ["OnnxDocumentEmbedder", "OnnxTextEmbedder", "__version__"]
