"""The handle that people hold: texts in, vectors out."""

from __future__ import annotations

import os
import threading
import weakref
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

from onnx_embeddings import text
from onnx_embeddings.config import EngineConfig
from onnx_embeddings.embedding import Embedding
from onnx_embeddings.errors import ClosedError, SettingError
from onnx_embeddings.request import ModelRequest
from onnx_embeddings.runtime.threads import available_processors
from onnx_embeddings.scheduler import LaneLimit, process_scheduler
from onnx_embeddings.shared import Lease, lease, release
from onnx_embeddings.stats import Counters, EngineStats

if TYPE_CHECKING:
    from collections.abc import Iterable
    from contextlib import AbstractContextManager
    from pathlib import Path

    from tqdm import tqdm

    from onnx_embeddings.arrays import Lengths, Vectors
    from onnx_embeddings.cache import VectorCache
    from onnx_embeddings.spec import ModelSpec


class Engine:
    """Texts in, vectors out, by one model.

    A light handle: to make one costs nothing, `open` or the first text loads the model. It may be
    used by many threads at a time, pickles as its request, deep-copies to itself, and opens again
    in a forked process.
    """

    def __init__(self, request: ModelRequest, config: EngineConfig | None = None) -> None:
        """Hold a request; nothing is read and nothing is loaded yet.

        Args:
            request: the model, and how it is used.
            config: how the engine works; never changes a vector.

        Raises:
            SettingError: one of them is something else.
        """
        if not isinstance(request, ModelRequest):
            raise SettingError("request", request, "must be a ModelRequest; load() takes names")
        if not isinstance(config, EngineConfig | None):
            raise SettingError("config", config, "must be an EngineConfig")
        self._request = request.absolute()
        self._given = (config or EngineConfig()).absolute()
        self._lock = threading.Lock()
        self._lease: Lease | None = None
        self._cache: VectorCache | None = None
        self._config = self._given
        self._limit = LaneLimit(1)
        self._give_back: weakref.finalize[[str, int], Engine] | None = None
        self._counters = Counters()
        self._closed = False
        _engines.add(self)

    @property
    def request(self) -> ModelRequest:
        """What was asked for."""
        return self._request

    @property
    def config(self) -> EngineConfig:
        """How the engine works; once open, with all defaults filled in."""
        return self._config

    @property
    def spec(self) -> ModelSpec:
        """What the request resolved to."""
        return self._opened().spec

    @property
    def path(self) -> Path:
        """The folder that holds the model."""
        return self._opened().path

    @property
    def cache(self) -> VectorCache | None:
        """The cache of vectors: its ``stats()``, its ``clear()``; None without one.

        Raises:
            CacheError: its folder was named and can't be used.
        """
        self._opened()
        return self._cache

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    def open(self) -> Self:
        """Load the model now.

        Raises:
            CacheError: the folder for cached vectors was named and can't be used.
            ModelError: the model can't be found, fetched, read or loaded.
            SettingError: the model does not have what is asked for.
        """
        self._opened()
        return self

    def embed_documents(self, texts: Iterable[str], *, progress: bool = False) -> Vectors:
        """(N, D) float32, C order: the vectors of texts that are to be found.

        Args:
            texts: any iterable of strings; empty and blank ones are embedded as the model does.
            progress: show a bar on the standard error stream.

        Returns:
            Unit length if `spec.normalize`; row i belongs to text i; (0, D) for no texts. A text
            without a single token (only where a model adds no special tokens) gets zeros.

        Raises:
            InputError: an item is no valid text, or too long where `long_text` is ``"error"``.
            InferenceError: the runtime failed.
            ClosedError: the engine was closed.
            CacheError, ModelError: this text opens the engine, and `open` raises.
        """
        return self._embed(texts, self._opened().spec.document_prompt, progress=progress)

    def embed_queries(self, texts: Iterable[str], *, progress: bool = False) -> Vectors:
        """(N, D) float32, C order: the vectors of texts to search with.

        Differs from `embed_documents` only in the prompt, for models that have one. Arguments,
        result and errors are the same.
        """
        return self._embed(texts, self._opened().spec.query_prompt, progress=progress)

    def count_tokens(self, texts: Iterable[str]) -> Lengths:
        """(N,) int64: tokens of each text, special tokens included, without prompt and uncut.

        Raises:
            InputError: an item is no valid text.
            ClosedError: the engine was closed.
        """
        items = text.checked(texts)
        encoder = self._opened().encoder
        with process_scheduler().busy():
            return encoder.count(items)

    def stats(self) -> EngineStats:
        """What this engine has done so far."""
        return self._counters.read()

    def close(self) -> None:
        """Give the model back; the last engine of a model frees its memory. May be repeated."""
        with self._lock:
            self._closed = True
            self._lease = None
            if self._cache is not None:
                self._cache.close_idle()
            self._cache = None
            if self._give_back is not None:
                self._give_back()

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Engine({self._request!r}, {self._given!r})"

    def __reduce__(self) -> tuple[type[Engine], tuple[ModelRequest, EngineConfig]]:
        return Engine, (self._request, self._given)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def _opened(self) -> Lease:
        held = self._lease
        if held is not None:
            return held
        with self._lock:
            if self._closed:
                raise ClosedError(self._request.model)
            if self._lease is None:
                config = self._given.resolved()
                lanes = config.lanes or available_processors()
                self._config, self._limit = replace(config, lanes=lanes), LaneLimit(lanes)
                self._cache = _cache(self._config)
                opened = lease(self._request, self._config)
                # An engine that is dropped without close() gives its model back too.
                self._give_back = weakref.finalize(self, release, opened.key, os.getpid())
                self._lease = opened
            return self._lease

    def _forked(self) -> None:
        """Forget, in a forked child, what only the parent may use; a lock may even be held."""
        self._lock = threading.Lock()
        self._counters = Counters()
        self._lease = None
        self._cache = None
        self._give_back = None

    def _embed(self, texts: Iterable[str], prompt: str, *, progress: bool) -> Vectors:
        items = text.checked(texts)
        run = Embedding(
            self._opened(),
            self._config,
            limit=self._limit,
            counters=self._counters,
            cache=self._cache,
            prompt=prompt,
        )
        with _bar(len(items)) if progress else nullcontext() as bar:
            return run.embed(items, bar)


_engines: weakref.WeakSet[Engine] = weakref.WeakSet()


def _after_fork() -> None:
    for engine in list(_engines):
        engine._forked()  # noqa: SLF001


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _cache(config: EngineConfig) -> VectorCache | None:
    if config.cache is None:
        return None
    from onnx_embeddings.cache import open_cache

    return open_cache(config)


def _bar(total: int) -> AbstractContextManager[tqdm[Any]]:
    from tqdm import tqdm

    return tqdm(total=total, desc="Embedding", unit=" texts", smoothing=0)
