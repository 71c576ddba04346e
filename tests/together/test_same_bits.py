"""All five adapters in one process, on the real model, without a cache: one session, equal bits."""

from __future__ import annotations

import asyncio
import gc
import os
from typing import TYPE_CHECKING, Any

os.environ.setdefault("HAYSTACK_TELEMETRY_ENABLED", "False")  # before it is imported

import chromadb
import numpy as np
import pytest
from chromadb.config import Settings
from haystack import Document
from haystack.document_stores.in_memory import InMemoryDocumentStore
from langchain_core.documents import Document as LangChainDocument
from langchain_core.vectorstores import InMemoryVectorStore
from llama_index.core import VectorStoreIndex
from llama_index.core.schema import TextNode
from qdrant_client import QdrantClient

import onnx_embeddings
import qdrant_onnx_embeddings as qdrant
from chroma_onnx_embeddings import OnnxEmbeddingFunction, open_collection
from haystack_integrations.components.embedders.onnx_embeddings import (
    OnnxDocumentEmbedder,
    OnnxTextEmbedder,
)
from langchain_onnx_embeddings import OnnxEmbeddings
from llama_index.embeddings.onnx import OnnxEmbedding
from onnx_embeddings import Engine, EngineConfig
from onnx_embeddings.shared import loaded_models

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from onnx_embeddings.arrays import Vectors

pytestmark = pytest.mark.weights

# Prompts that differ, so that no framework can swap queries and documents unnoticed.
PROMPTS = {"query_prompt": "question: ", "document_prompt": "text: "}
WORDS = [
    *("boiler", "train", "night", "cellar", "valve", "router", "paper"),
    *("glass", "key", "soup", "onion", "broth", "cat", "sun"),
]
TEXTS = [
    *(" ".join(WORDS[n % 14] for n in range(s, s + 3 + 7 * s % 80)) for s in range(300)),
    "two lines\nof a text",
    "",
    " \t\n ",
    "the cat sits \U0001f642 in the sun \u2600\ufe0f",
    "Jos\u00e9 and Jose\u0301",
    "\u732b\u304c\u5ea7\u308b",
    "the cat",
    "the cat",
    "a very long text " * 300,
    "question: a text that looks prompted",
]
QUERIES = TEXTS[295:]


@pytest.fixture(scope="module")
def options(models_home: Path) -> dict[str, Any]:
    home = str(models_home)
    return {**PROMPTS, "engine_options": {"cache": None, "home": home}}


@pytest.fixture
def engine(models_home: Path) -> Iterator[Engine]:
    config = EngineConfig(cache=None, home=models_home)
    with onnx_embeddings.load(**PROMPTS, config=config) as made:  # type: ignore[arg-type]
        yield made


class Adapters:
    """One of each, all for the default model."""

    def __init__(self, options: dict[str, Any]) -> None:
        self.langchain = OnnxEmbeddings(**options)
        self.llama = OnnxEmbedding(**options)
        self.chroma = OnnxEmbeddingFunction(**options)
        self.haystack_text = OnnxTextEmbedder(**options)
        self.haystack_documents = OnnxDocumentEmbedder(**options, progress_bar=False)
        self.qdrant = qdrant.OnnxEmbedder(**options)

    def documents(self) -> dict[str, Callable[[list[str]], Any]]:
        """Name -> what embeds documents, as its framework calls it."""
        return {
            "langchain": self.langchain.embed_documents,
            "langchain async": lambda texts: asyncio.run(self.langchain.aembed_documents(texts)),
            "llama": self.llama.get_text_embedding_batch,
            "llama async": lambda texts: asyncio.run(self.llama.aget_text_embedding_batch(texts)),
            "llama nodes": lambda texts: [
                node.embedding for node in self.llama([TextNode(text=text) for text in texts])
            ],
            "chroma": self.chroma,
            "haystack": lambda texts: [
                document.embedding
                for document in self.haystack_documents.run(
                    [Document(content=text) for text in texts]
                )["documents"]
            ],
            "qdrant": lambda texts: [point.vector for point in self.qdrant.points(texts)],
        }

    def queries(self) -> dict[str, Callable[[str], Any]]:
        """Name -> what embeds a query, as its framework calls it."""
        return {
            "langchain": self.langchain.embed_query,
            "llama": self.llama.get_query_embedding,
            "chroma": lambda text: self.chroma.embed_query(input=[text])[0],
            "haystack": lambda text: self.haystack_text.run(text)["embedding"],
            "qdrant": self.qdrant.query_vector,
        }


def differing(found: Any, expected: Vectors) -> int:
    array = np.asarray(found, dtype=np.float64)
    assert array.shape == expected.shape
    return int(np.count_nonzero(array != expected))


def test_five_adapters_one_session_zero_differing_bits(
    options: dict[str, Any], engine: Engine
) -> None:
    documents, queries = engine.embed_documents(TEXTS), engine.embed_queries(QUERIES)
    adapters = Adapters(options)
    before = loaded_models()
    differ = {
        name: differing(embed(TEXTS), documents) for name, embed in adapters.documents().items()
    }
    for name, embed in adapters.queries().items():
        differ[f"{name} query"] = differing([embed(text) for text in QUERIES], queries)
    assert differ == dict.fromkeys(differ, 0)
    assert len(differ) == 13
    assert loaded_models() == before  # the engine's own session served them all
    assert (documents[-len(QUERIES) :] != queries).any()


@pytest.mark.parametrize("size", [1, 3, 64])
def test_batch_sizes_of_the_frameworks_change_no_bit(
    size: int, options: dict[str, Any], engine: Engine
) -> None:
    texts = TEXTS[270:]
    expected = engine.embed_documents(texts)
    adapters = Adapters(options)
    adapters.llama.embed_batch_size = size
    for name, embed in adapters.documents().items():
        parts = [texts[first : first + size] for first in range(0, len(texts), size)]
        found = [row for part in parts for row in embed(part)]
        assert differing(found, expected) == 0, name
    assert differing(adapters.llama.get_text_embedding_batch(texts), expected) == 0


def test_what_one_has_cached_serves_all(models_home: Path, tmp_path: Path, engine: Engine) -> None:
    expected = engine.embed_documents(TEXTS[:40])
    shared = {"cache": str(tmp_path / "cache"), "home": str(models_home)}
    adapters = Adapters({**PROMPTS, "engine_options": shared})
    for embed in adapters.documents().values():
        assert differing(embed(TEXTS[:40]), expected) == 0
    cache = adapters.langchain.engine.cache
    assert cache is not None
    assert cache.stats().misses == 40
    assert cache.stats().hits == 7 * 40


def test_the_stores_of_five_frameworks_find_the_same_text(
    options: dict[str, Any], tmp_path: Path
) -> None:
    notes = {
        "heating": "The boiler is serviced every October.",
        "water": "The main valve is in the cellar.",
        "bins": "Paper is collected on the first Monday.",
    }
    question = "A pipe has burst, where do I turn the water off?"
    names, texts = list(notes), list(notes.values())
    adapters = Adapters(options)

    documents = [LangChainDocument(text, metadata={"name": name}) for name, text in notes.items()]
    langchain = InMemoryVectorStore.from_documents(documents, adapters.langchain)
    nodes = [TextNode(text=text, id_=name) for name, text in notes.items()]
    llama = VectorStoreIndex(nodes, embed_model=adapters.llama)
    client = chromadb.PersistentClient(
        path=str(tmp_path), settings=Settings(anonymized_telemetry=False)
    )
    chroma = open_collection(client, "notes", adapters.chroma)
    chroma.add(ids=names, documents=texts)
    haystack = InMemoryDocumentStore(embedding_similarity_function="cosine")
    embedded = adapters.haystack_documents.run(
        [Document(content=text, meta={"name": name}) for name, text in notes.items()]
    )
    haystack.write_documents(embedded["documents"])
    local = QdrantClient(":memory:")
    qdrant.open_collection(local, "notes", adapters.qdrant)
    payloads = [{"name": name} for name in names]
    qdrant.upload_texts(local, "notes", adapters.qdrant, texts, payloads=payloads)

    found = {
        "langchain": langchain.similarity_search(question, k=1)[0].metadata["name"],
        "llama": llama.as_retriever(similarity_top_k=1).retrieve(question)[0].node_id,
        "chroma": (chroma.query(query_texts=[question], n_results=1)["ids"] or [[""]])[0][0],
        "haystack": haystack.embedding_retrieval(
            adapters.haystack_text.run(question)["embedding"], top_k=1
        )[0].meta["name"],
        "qdrant": (
            local.query_points("notes", query=adapters.qdrant.query_vector(question), limit=1)
            .points[0]
            .payload
            or {}
        )["name"],
    }
    local.close()
    assert found == dict.fromkeys(found, "water")


def test_the_session_goes_with_the_last_of_them(options: dict[str, Any]) -> None:
    gc.collect()
    before = loaded_models()
    adapters = Adapters(options)
    for embed in adapters.documents().values():
        embed(["the cat"])
    assert loaded_models() == max(before, 1)
    adapters.chroma.engine.close()  # the one that a process keeps
    del adapters, embed
    gc.collect()
    assert loaded_models() == before
