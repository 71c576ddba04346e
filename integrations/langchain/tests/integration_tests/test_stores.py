"""In the stores that people use with LangChain: found again, by the vectors of the engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import chromadb
import pytest
from chromadb.config import Settings
from langchain_chroma import Chroma
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_qdrant import QdrantVectorStore
from langgraph.store.memory import InMemoryStore

from langchain_onnx_embeddings import OnnxEmbeddings

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from langchain_core.vectorstores import VectorStore

TEXTS = [
    "Knead the dough for ten minutes.",
    "The boiler is serviced in October.",
    "We took the night train from Vienna to Rome.",
]


def chroma(embeddings: OnnxEmbeddings, folder: Path) -> VectorStore:
    client = chromadb.PersistentClient(
        path=str(folder), settings=Settings(anonymized_telemetry=False)
    )
    return Chroma.from_texts(TEXTS, embeddings, client=client)


def qdrant(embeddings: OnnxEmbeddings, folder: Path) -> VectorStore:
    return QdrantVectorStore.from_texts(TEXTS, embeddings, path=str(folder), collection_name="c")


def memory(embeddings: OnnxEmbeddings, _folder: Path) -> VectorStore:
    return InMemoryVectorStore.from_texts(TEXTS, embeddings)


@pytest.mark.weights
@pytest.mark.parametrize("store", [memory, chroma, qdrant])
async def test_a_question_finds_its_answer(
    store: Callable[[OnnxEmbeddings, Path], VectorStore], minilm: str, tmp_path: Path
) -> None:
    made = store(OnnxEmbeddings(model=minilm), tmp_path)
    (found,) = made.as_retriever(search_kwargs={"k": 1}).invoke("Who repairs the heating?")
    assert found.page_content == TEXTS[1]
    (found,) = await made.asimilarity_search("a journey", k=1)
    assert found.page_content == TEXTS[2]


@pytest.mark.weights
def test_langgraph_indexes_its_memories_with_it(minilm: str) -> None:
    index: Any = {"embed": OnnxEmbeddings(model=minilm), "dims": 384, "fields": ["$"]}
    store = InMemoryStore(index=index)
    for number, text in enumerate(TEXTS):
        store.put(("memories",), str(number), {"text": text})
    found = store.search(("memories",), query="a journey", limit=1)
    assert found[0].value["text"] == TEXTS[2]
