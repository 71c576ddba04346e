"""A Chroma embedding function, computed on your own machine by onnx-embeddings.

To import this registers it, so that Chroma finds it for collections that were made with it.
"""

from __future__ import annotations

from chroma_onnx_embeddings.collection import open_collection
from chroma_onnx_embeddings.embedding_function import OnnxEmbeddingFunction

__version__ = "0.1.0"

__all__ = ["OnnxEmbeddingFunction", "__version__", "open_collection"]
