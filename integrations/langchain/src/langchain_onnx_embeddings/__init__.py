"""LangChain embeddings, computed on your own machine by onnx-embeddings."""

from __future__ import annotations

from langchain_onnx_embeddings.embeddings import OnnxEmbeddings

__version__ = "0.1.0"

__all__ = ["OnnxEmbeddings", "__version__"]
