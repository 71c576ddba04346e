"""The contract of an adapter: what every one must do, whatever framework it is for."""

from __future__ import annotations

import asyncio
import copy
import gc
import pickle
import secrets
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import numpy as np

from onnx_embeddings.config import EngineConfig
from onnx_embeddings.engine import Engine
from onnx_embeddings.errors import InputError, OnnxEmbeddingsError, SettingError
from onnx_embeddings.loading import load
from onnx_embeddings.request import ModelRequest
from onnx_embeddings.shared import loaded_models
from onnx_embeddings.testing.tiny_model import write_tiny_model

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from onnx_embeddings.arrays import Vectors

TEXTS = [
    "a short text",
    "two lines\nof a text",
    "",
    " \t\n ",
    "a short text",
    "the cat sits \U0001f642 in the sun \u2600\ufe0f",
    "Jos\u00e9 and Jose\u0301",
    "NUL\x00inside, \u202ewritten backwards",
    "one two three " * 40,
    "Query: a text that looks prompted",
]
"""Texts that adapters have rewritten, dropped or mixed up."""

_PROMPTS = {"query": "question: ", "document": "text: "}
_FREE = [
    "onnx_embeddings.engine",
    "onnxruntime",
    "tokenizers",
    "huggingface_hub",
    "onnx",
    "safetensors",
    "diskcache",
]
_THREADS = 20

# A value for each setting that changes the vectors of the tiny model.
_OTHER_SETTINGS: dict[str, Any] = {
    "dim": 8,
    "max_tokens": 5,
    "query_prompt": "the query ",
    "document_prompt": "",
}


def check_adapter(  # noqa: PLR0913  an adapter has so many ends
    make: Callable[..., Any],
    *,
    documents: Callable[[Any, Any], Any],
    query: Callable[[Any, Any], Any],
    adocuments: Callable[[Any, Any], Awaitable[Any]] | None = None,
    aquery: Callable[[Any, Any], Awaitable[Any]] | None = None,
    bad_input: tuple[type[Exception], ...] = (InputError, TypeError),
    bad_setting: tuple[type[Exception], ...] = (SettingError, TypeError, ValueError),
) -> None:
    """Raise `AssertionError` unless an adapter keeps the promises of the engine.

    It must give the engine's own bits for documents and queries, in order, with prompts applied
    once; also for no texts, from twenty threads, asynchronously, pickled and copied; refuse what
    is no text; take every field of `ModelRequest` by name, and ``engine_options``; cost nothing
    until the first text; and share one session.

    A tiny model is written into a temporary folder, so this needs no network.

    Args:
        make: the adapter's class, or what makes one: takes the fields of `ModelRequest` and
            ``engine_options`` by name, refuses other names.
        documents: (adapter, list of texts) -> N vectors of D numbers, by the framework's way.
        query: (adapter, text) -> a vector of D numbers.
        adocuments: as `documents`, awaited; None for a framework without it.
        aquery: as `query`, awaited.
        bad_input: what the adapter raises for what is no text.
        bad_setting: what it raises for a setting that does not exist.
    """
    adapter = _Adapter(make, documents, query, bad_input)
    gc.collect()  # engines that nobody holds any more
    before = loaded_models()
    with tempfile.TemporaryDirectory() as folder:
        # A model that no engine of this process has, also if this is not the first check.
        seed = secrets.randbelow(2**31)
        tiny = str(write_tiny_model(Path(folder) / "model", prompts=_PROMPTS, seed=seed))
        _check_construction(make, bad_setting, str(Path(folder) / "missing"))
        made = make(model=tiny, engine_options={"cache": None})
        expected = _Expected(ModelRequest(model=tiny))
        _same(documents(made, TEXTS), expected.documents, "documents")
        for text, row in zip(TEXTS, expected.queries, strict=True):
            _same(query(made, text), row, f"the query {text!r}")
        _check_texts(adapter, made)
        _check_order(adapter, made, expected)
        _check_bad_input(adapter, made)
        _check_threads(adapter, made, expected)
        _check_copies(adapter, made, expected)
        _check_settings(adapter, tiny)
        _check_refusals(adapter, bad_setting, tiny)
        _check_options(adapter, tiny, Path(folder) / "cache")
        _check_async(adocuments, aquery, made, expected)
        models = loaded_models() - before
        _require(models <= 1, f"one model, and {models} are loaded")


def check_import(module: str, make: str, *, framework: str) -> None:
    """Raise `AssertionError` unless importing an adapter and making one is free.

    Free: in a fresh process it does not load the engine, onnxruntime, tokenizers, huggingface_hub,
    onnx, safetensors or diskcache, beyond what the framework itself loads.

    Args:
        module: what to import, ``"langchain_onnx_embeddings"`` for example.
        make: the expression that makes one: ``"langchain_onnx_embeddings.OnnxEmbeddings()"``.
        framework: the framework's own module, ``"langchain_core.embeddings"`` for example.
    """
    code = (
        "import sys\n"
        f"import {framework}\n"
        "before = set(sys.modules)\n"
        f"import {module}\n"
        f"{make}\n"
        f"free = {_FREE!r}\n"
        "print(*[name for name in free if name in sys.modules and name not in before])"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    _require(done.returncode == 0, done.stderr)
    loaded = done.stdout.splitlines()[-1]
    _require(not loaded, f"making one loads {loaded}")


class _Adapter:
    """How an adapter is made and asked."""

    def __init__(
        self,
        make: Callable[..., Any],
        documents: Callable[[Any, Any], Any],
        query: Callable[[Any, Any], Any],
        bad_input: tuple[type[Exception], ...],
    ) -> None:
        self.make = make
        self.documents = documents
        self.query = query
        self.bad_input = bad_input


class _Expected:
    """What the engine gives, without a cache; it is closed again."""

    def __init__(self, request: ModelRequest) -> None:
        with load(request, config=EngineConfig(cache=None)) as engine:
            self.documents = engine.embed_documents(TEXTS)
            self.queries = engine.embed_queries(TEXTS)


def _require(kept: object, broken: str) -> None:
    # No assert statement: python -O would take the contract away.
    if not kept:
        raise AssertionError(broken)


def _same(found: Any, expected: Vectors, what: str) -> None:
    array = np.asarray(found, dtype=np.float64)
    _require(array.shape == expected.shape, f"{what}: shape {array.shape}, not {expected.shape}")
    places = np.argwhere(array != expected).tolist()
    _require(not places, f"{what}: other bits than the engine's, first at {places[:1]}")


def _check_construction(
    make: Callable[..., Any], bad_setting: tuple[type[Exception], ...], missing: str
) -> None:
    make(model=missing)  # needs no disk: a framework may rebuild it where there is no model
    for wrong in ({"no_such_setting": 1}, {"dim": 0}, {"engine_options": {"no_such_option": 1}}):
        try:
            make(**{"model": missing, **wrong})
        except bad_setting:
            continue
        raise AssertionError(f"{wrong} is taken without a word")


def _check_texts(adapter: _Adapter, made: Any) -> None:
    """What reaches the engine are the texts, letter for letter, as documents or as queries."""
    seen: dict[str, list[Any]] = {"embed_documents": [], "embed_queries": []}

    def watched(name: str) -> Callable[..., Any]:
        method = getattr(Engine, name)

        def embed(self: Engine, texts: Any, **options: Any) -> Any:
            items = list(texts)
            seen[name] += items
            return method(self, items, **options)

        return embed

    with (
        patch.object(Engine, "embed_documents", watched("embed_documents")),
        patch.object(Engine, "embed_queries", watched("embed_queries")),
    ):
        adapter.documents(made, TEXTS)
        for text in TEXTS:
            adapter.query(made, text)
    for name, texts in seen.items():
        changed = [pair for pair in zip(TEXTS, texts, strict=False) if pair[0] != pair[1]]
        _require(not changed, f"{name} gets another text than was given: {changed[:1]}")
        _require(len(texts) == len(TEXTS), f"{len(texts)} of {len(TEXTS)} texts reach {name}")


def _check_order(adapter: _Adapter, made: Any, expected: _Expected) -> None:
    _same(adapter.documents(made, TEXTS[::-1]), expected.documents[::-1], "documents backwards")
    many = [TEXTS[index % len(TEXTS)] + " " * (index % 7) for index in range(150)]
    found = adapter.documents(made, many)
    for index in range(0, len(many), 10):
        _same(found[index], np.asarray(adapter.documents(made, [many[index]]))[0], "alone")
    none = adapter.documents(made, [])
    _require(len(none) == 0, f"no texts give {none!r}")


def _check_bad_input(adapter: _Adapter, made: Any) -> None:
    bad_lists: list[Any] = ["a bare text", None, [None], ["a text", None], ["a", 5], [["a"]]]
    for bad in bad_lists:
        _refused(adapter.documents, made, bad, adapter.bad_input)
    bad_texts: list[Any] = [None, 5, ["a text"]]
    for bad in bad_texts:
        _refused(adapter.query, made, bad, adapter.bad_input)


def _refused(
    ask: Callable[[Any, Any], Any], made: Any, bad: object, kinds: tuple[type[Exception], ...]
) -> None:
    try:
        found = ask(made, bad)
    except kinds:
        return
    raise AssertionError(f"{bad!r} is no text, and gives {found!r}")


def _check_threads(adapter: _Adapter, made: Any, expected: _Expected) -> None:
    def ask(number: int) -> None:
        _same(adapter.documents(made, TEXTS), expected.documents, f"documents in thread {number}")
        row = number % len(TEXTS)
        _same(adapter.query(made, TEXTS[row]), expected.queries[row], f"query in thread {number}")

    with ThreadPoolExecutor(_THREADS) as pool:
        list(pool.map(ask, range(2 * _THREADS)))


def _check_copies(adapter: _Adapter, made: Any, expected: _Expected) -> None:
    ways: dict[str, Callable[[Any], Any]] = {
        "pickled": lambda made: pickle.loads(pickle.dumps(made)),  # noqa: S301  our own
        "copied": copy.copy,
        "deep-copied": copy.deepcopy,
    }
    for way, again in ways.items():
        other = again(made)
        _same(adapter.documents(other, TEXTS), expected.documents, f"documents, {way}")
        _same(adapter.query(other, TEXTS[0]), expected.queries[0], f"query, {way}")


def _check_settings(adapter: _Adapter, tiny: str) -> None:
    for field in fields(ModelRequest)[1:]:
        value = _OTHER_SETTINGS.get(field.name, field.default)
        other = adapter.make(
            **{"model": tiny, field.name: value, "engine_options": {"cache": None, "lanes": 1}}
        )
        expected = _Expected(ModelRequest(**{"model": tiny, field.name: value}))
        _same(adapter.documents(other, TEXTS), expected.documents, f"{field.name}={value!r}")
        _same(adapter.query(other, TEXTS[0]), expected.queries[0], f"{field.name}={value!r}")


def _check_refusals(adapter: _Adapter, bad_setting: tuple[type[Exception], ...], tiny: str) -> None:
    """Settings that this model can't have are not thrown away."""
    made = adapter.make(model=tiny, long_text="error", engine_options={"cache": None})
    too_long = ["one two three " * 40]
    _refused(adapter.documents, made, too_long, (InputError, *adapter.bad_input))
    refusals: tuple[type[Exception], ...] = (*bad_setting, OnnxEmbeddingsError)
    wishes = {"revision": "main", "precision": "int3", "variant": "onnx/missing.onnx"}
    for name, value in wishes.items():
        try:
            made = adapter.make(**{"model": tiny, name: value, "engine_options": {"cache": None}})
            adapter.documents(made, ["a text"])
        except refusals:
            continue
        raise AssertionError(f"{name}={value!r} is thrown away")


def _check_options(adapter: _Adapter, tiny: str, folder: Path) -> None:
    made = adapter.make(model=tiny, engine_options={"cache": str(folder)})
    adapter.documents(made, ["a text"])
    _require(folder.is_dir(), "engine_options do not reach the engine")


def _check_async(
    adocuments: Callable[[Any, Any], Awaitable[Any]] | None,
    aquery: Callable[[Any, Any], Awaitable[Any]] | None,
    made: Any,
    expected: _Expected,
) -> None:
    async def ask_documents(adocuments: Callable[[Any, Any], Awaitable[Any]]) -> None:
        many = [adocuments(made, TEXTS) for _ in range(3)]
        for found in await asyncio.gather(*many):
            _same(found, expected.documents, "documents, awaited")

    async def ask_queries(aquery: Callable[[Any, Any], Awaitable[Any]]) -> None:
        found = await asyncio.gather(*[aquery(made, text) for text in TEXTS])
        _same(found, expected.queries, "queries, awaited")

    # In a thread, since a loop may run in this one.
    with ThreadPoolExecutor(1) as pool:
        if adocuments is not None:
            pool.submit(asyncio.run, ask_documents(adocuments)).result()
        if aquery is not None:
            pool.submit(asyncio.run, ask_queries(aquery)).result()
