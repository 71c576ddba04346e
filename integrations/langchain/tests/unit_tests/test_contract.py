"""The contract of all adapters, and where LangChain keeps vectors."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import pytest
from langchain_classic.embeddings import CacheBackedEmbeddings
from langchain_classic.storage import LocalFileStore
from langchain_core.stores import InMemoryByteStore

from langchain_onnx_embeddings import OnnxEmbeddings
from onnx_embeddings import ModelRequest
from onnx_embeddings.testing import check_adapter, check_import, write_tiny_model

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("no_sockets")

TEXTS = [
    "a cat / a dog",
    "",
    "\u732b\u304c\u5ea7\u308b",
    "one two " * 5_000,
    "..",
    "a\nb",
    "NUL\x00",
]


def test_the_adapter_keeps_the_contract() -> None:
    check_adapter(
        OnnxEmbeddings,
        documents=lambda adapter, texts: adapter.embed_documents(texts),
        query=lambda adapter, text: adapter.embed_query(text),
        adocuments=lambda adapter, texts: adapter.aembed_documents(texts),
        aquery=lambda adapter, text: adapter.aembed_query(text),
    )


def test_importing_and_making_one_is_free() -> None:
    check_import(
        "langchain_onnx_embeddings",
        "langchain_onnx_embeddings.OnnxEmbeddings()",
        framework="langchain_core.embeddings",
    )


def cached(embeddings: OnnxEmbeddings, folder: Path) -> CacheBackedEmbeddings:
    return CacheBackedEmbeddings.from_bytes_store(
        embeddings,
        LocalFileStore(folder),
        namespace=embeddings.cache_namespace,
        key_encoder="sha256",
    )


def test_langchains_own_cache_takes_any_text_as_a_file_name(tiny: str, tmp_path: Path) -> None:
    embeddings = OnnxEmbeddings(model=tiny)
    expected = embeddings.embed_documents(TEXTS)
    folder = tmp_path / "store"
    for _ in range(2):
        assert cached(embeddings, folder).embed_documents(TEXTS) == expected
    assert len(list(folder.iterdir())) == len(TEXTS)


OTHER: dict[str, Any] = {
    "dim": 8,
    "max_tokens": 7,
    "long_text": "error",
    "query_prompt": "other ",
    "document_prompt": "other ",
}


def test_the_namespace_changes_with_all_that_changes_a_vector(tiny: str, tmp_path: Path) -> None:
    base = OnnxEmbeddings(model=tiny)
    others = [OnnxEmbeddings(model=tiny, **{name: value}) for name, value in OTHER.items()]
    others.append(OnnxEmbeddings(model=str(write_tiny_model(tmp_path / "other", seed=99))))
    spaces = {made.cache_namespace for made in [base, *others]}
    spaces |= {made.query_cache_namespace for made in [base, *others]}
    assert len(spaces) == 2 * len([base, *others])
    assert set(OTHER) < {field.name for field in dataclasses.fields(ModelRequest)}


def test_the_namespace_does_not_change_with_anything_else(tiny: str, tmp_path: Path) -> None:
    base = OnnxEmbeddings(model=tiny)
    copied = str(write_tiny_model(tmp_path / "copy", prompts=PROMPTS, seed=11))
    for same in (
        OnnxEmbeddings(model=copied),
        OnnxEmbeddings(model=tiny, engine_options={"lanes": 1, "home": str(tmp_path / "home")}),
        OnnxEmbeddings(model=tiny, show_progress=True),
        OnnxEmbeddings(model=tiny, query_prompt=PROMPTS["query"]),
    ):
        assert same.cache_namespace == base.cache_namespace
        assert same.query_cache_namespace == base.query_cache_namespace


PROMPTS = {"query": "question: ", "document": "text: "}


def test_the_namespace_is_safe_in_the_name_of_a_file(tiny: str) -> None:
    for name in (OnnxEmbeddings(model=tiny).cache_namespace,):
        assert name.replace("-", "").isalnum()
        assert name.isascii()
        assert len(name) < 100


def test_queries_and_documents_do_not_meet_in_two_namespaces(tiny: str) -> None:
    embeddings = OnnxEmbeddings(model=tiny)
    store = InMemoryByteStore()
    documents = CacheBackedEmbeddings.from_bytes_store(
        embeddings, store, namespace=embeddings.cache_namespace, key_encoder="sha256"
    )
    queries = CacheBackedEmbeddings.from_bytes_store(
        embeddings,
        InMemoryByteStore(),
        namespace=embeddings.query_cache_namespace,
        query_embedding_cache=store,
        key_encoder="sha256",
    )
    for _ in range(2):
        assert documents.embed_documents(["a cat"]) == embeddings.embed_documents(["a cat"])
        assert queries.embed_query("a cat") == embeddings.embed_query("a cat")
    assert len(list(store.yield_keys())) == 2
