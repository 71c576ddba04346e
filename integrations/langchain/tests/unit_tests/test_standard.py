"""LangChain's own unit tests, with sockets disabled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from langchain_tests.unit_tests import EmbeddingsUnitTests

from langchain_onnx_embeddings import OnnxEmbeddings

if TYPE_CHECKING:
    from langchain_core.embeddings import Embeddings


@pytest.mark.usefixtures("no_sockets")
class TestOnnxEmbeddingsUnit(EmbeddingsUnitTests):
    @property
    def embeddings_class(self) -> type[Embeddings]:
        return OnnxEmbeddings

    @property
    def embedding_model_params(self) -> dict[str, Any]:
        return {"model": "sentence-transformers/all-MiniLM-L6-v2"}
