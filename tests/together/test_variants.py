"""`variant="auto"` in all five adapters: the file that it took is what they keep."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

os.environ.setdefault("HAYSTACK_TELEMETRY_ENABLED", "False")  # before it is imported

import pytest
from padded_export import export, write

from chroma_onnx_embeddings import OnnxEmbeddingFunction
from haystack_integrations.components.embedders.onnx_embeddings import OnnxTextEmbedder
from langchain_onnx_embeddings import OnnxEmbeddings
from llama_index.embeddings.onnx import OnnxEmbedding
from onnx_embeddings.testing import write_tiny_model
from qdrant_onnx_embeddings import OnnxEmbedder

if TYPE_CHECKING:
    from pathlib import Path

TAKEN = "onnx/model.onnx"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder: Path = write_tiny_model(tmp_path_factory.mktemp("ready") / "model")
    write(export(folder), folder / TAKEN)
    return str(folder)


def test_the_file_that_auto_took_is_what_adapters_keep(folder: str) -> None:
    langchain = OnnxEmbeddings(model=folder, variant="auto")
    assert langchain.request.variant == "auto"
    langchain.embed_query("the cat")
    assert langchain.variant == langchain.request.variant == TAKEN
    assert langchain.engine.spec.variant == TAKEN

    llama = OnnxEmbedding(model=folder, variant="auto")
    llama.get_query_embedding("the cat")
    assert llama.to_dict()["variant"] == llama.request.variant == TAKEN

    haystack = OnnxTextEmbedder(model=folder, variant="auto")
    haystack.run("the cat")
    assert haystack.to_dict()["init_parameters"]["variant"] == TAKEN

    qdrant = OnnxEmbedder(folder, variant="auto")
    assert qdrant.engine.spec.variant == TAKEN
    assert qdrant.request.variant == TAKEN


def test_chroma_keeps_the_file_from_the_start(folder: str) -> None:
    """It asks for the configuration when a collection is made, before the first text."""
    function = OnnxEmbeddingFunction(model=folder, variant="auto")
    config = json.loads(json.dumps(function.get_config()))
    assert config["variant"] == function.request.variant == TAKEN
    assert OnnxEmbeddingFunction.build_from_config(config).get_config() == config
