"""LlamaIndex embeddings, computed on your own machine by onnx-embeddings."""

from __future__ import annotations

from llama_index.embeddings.onnx.base import OnnxEmbedding

__version__ = "0.1.0"

__all__ = ["OnnxEmbedding", "__version__"]
