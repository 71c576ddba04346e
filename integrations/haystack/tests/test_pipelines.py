"""In Haystack's pipelines: indexing and query, synchronous and not, sharing and closing."""

from __future__ import annotations

import copy
import gc
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import haystack
import pytest
from haystack import Document, Pipeline
from haystack.components.retrievers.in_memory import InMemoryEmbeddingRetriever
from haystack.components.writers import DocumentWriter
from haystack.document_stores.in_memory import InMemoryDocumentStore

import onnx_embeddings
from haystack_integrations.components.embedders.onnx_embeddings import (
    OnnxDocumentEmbedder,
    OnnxTextEmbedder,
)
from onnx_embeddings.shared import loaded_models
from onnx_embeddings.testing import write_tiny_model

pytestmark = pytest.mark.usefixtures("no_sockets")

TEXTS = ["a cat sits", "the blue bird flies", "one two three"]
AsyncPipeline = getattr(haystack, "AsyncPipeline", Pipeline)  # Haystack 3 has one class for both


def index(model: str, store: InMemoryDocumentStore) -> Pipeline:
    pipeline = Pipeline()
    embedder = OnnxDocumentEmbedder(model, document_prompt="", progress_bar=False)
    pipeline.add_component("embedder", embedder)
    pipeline.add_component("writer", DocumentWriter(store))
    pipeline.connect("embedder.documents", "writer.documents")
    return pipeline


def search(model: str, store: InMemoryDocumentStore, kind: Any = Pipeline) -> Any:
    pipeline = kind()
    pipeline.add_component("embedder", OnnxTextEmbedder(model, query_prompt=""))
    pipeline.add_component("retriever", InMemoryEmbeddingRetriever(store, top_k=1))
    pipeline.connect("embedder.embedding", "retriever.query_embedding")
    return pipeline


@pytest.fixture
def store(tiny: str) -> InMemoryDocumentStore:
    store = InMemoryDocumentStore(embedding_similarity_function="cosine")
    index(tiny, store).run({"embedder": {"documents": [Document(content=it) for it in TEXTS]}})
    return store


def best(result: dict[str, Any]) -> Document:
    (document,) = result["retriever"]["documents"]
    assert isinstance(document, Document)
    return document


def test_a_query_finds_the_nearest_document(tiny: str, store: InMemoryDocumentStore) -> None:
    assert store.count_documents() == len(TEXTS)

    found = best(search(tiny, store).run({"embedder": {"text": TEXTS[1]}}))

    assert found.content == TEXTS[1]
    assert found.score == pytest.approx(1, abs=1e-5)


async def test_an_async_pipeline_finds_the_same(tiny: str, store: InMemoryDocumentStore) -> None:
    pipeline = search(tiny, store, AsyncPipeline)

    for text in TEXTS:
        result = await pipeline.run_async({"embedder": {"text": text}})
        assert best(result).content == text


@pytest.mark.skipif(AsyncPipeline is not Pipeline, reason="Haystack 2 warms up on the event loop")
async def test_an_async_pipeline_loads_in_a_thread(
    tiny: str, store: InMemoryDocumentStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[int] = []
    load = onnx_embeddings.load

    def watched(*arguments: Any, **options: Any) -> Any:
        threads.append(threading.get_ident())
        return load(*arguments, **options)

    monkeypatch.setattr(onnx_embeddings, "load", watched)
    await search(tiny, store).run_async({"embedder": {"text": "a cat"}})

    assert len(threads) == 1
    assert threading.get_ident() not in threads


def test_runs_at_the_same_time(tiny: str, store: InMemoryDocumentStore) -> None:
    pipeline = search(tiny, store)

    def ask(number: int) -> bool:
        text = TEXTS[number % 3]
        return best(pipeline.run({"embedder": {"text": text}})).content == text

    with ThreadPoolExecutor(6) as pool:
        assert all(pool.map(ask, range(24)))


def test_pipelines_share_the_model_and_no_component(tmp_path: Any) -> None:
    folder = str(write_tiny_model(tmp_path / "own", seed=14))
    store = InMemoryDocumentStore()
    gc.collect()
    before = loaded_models()

    alone = Pipeline()
    alone.add_component("embedder", OnnxTextEmbedder(folder))
    pipelines = [index(folder, store), search(folder, store), alone, copy.deepcopy(alone)]
    for pipeline in pipelines:
        pipeline.warm_up()

    assert loaded_models() == before + 1
    with pytest.raises(Exception, match="already been added in another Pipeline"):
        Pipeline().add_component("embedder", pipelines[0].get_component("embedder"))


def test_the_meta_of_an_empty_run_reaches_the_next_component(tiny: str) -> None:
    result = index(tiny, InMemoryDocumentStore()).run(
        {"embedder": {"documents": []}}, include_outputs_from={"embedder"}
    )
    assert result["embedder"] == {"documents": [], "meta": {"model": tiny}}


def test_telemetry_of_haystack_is_off_in_these_tests() -> None:
    from haystack.telemetry import _telemetry

    assert _telemetry.telemetry is None


@pytest.mark.skipif(not hasattr(Pipeline, "close"), reason="Haystack 2 does not close pipelines")
async def test_closing_a_pipeline_gives_the_model_back(tmp_path: Any) -> None:
    folder = str(write_tiny_model(tmp_path / "own", seed=15))
    gc.collect()
    before = loaded_models()
    pipeline = search(folder, InMemoryDocumentStore())

    for close in (pipeline.close, pipeline.close_async):
        await pipeline.warm_up_async()
        assert loaded_models() == before + 1
        closed = close()
        if closed is not None:
            await closed
        assert loaded_models() == before
