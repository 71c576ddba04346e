"""LangChain's own integration tests, offline, on the real model."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest
from langchain_tests.integration_tests import EmbeddingsIntegrationTests

import onnx_embeddings
from langchain_onnx_embeddings import OnnxEmbeddings

if TYPE_CHECKING:
    from langchain_core.embeddings import Embeddings


@pytest.mark.weights
@pytest.mark.usefixtures("minilm", "no_sockets")
class TestOnnxEmbeddingsIntegration(EmbeddingsIntegrationTests):
    @property
    def embeddings_class(self) -> type[Embeddings]:
        return OnnxEmbeddings

    @property
    def embedding_model_params(self) -> dict[str, Any]:
        # A property can't take the fixture `minilm`, which has fetched the model by now.
        return {
            "model": os.environ.get("ONNX_EMBEDDINGS_TEST_MODEL", onnx_embeddings.DEFAULT_MODEL)
        }
