"""The handle that people hold: texts in, vectors out."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Sized
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from onnx_embeddings import text
from onnx_embeddings.config import EngineConfig
from onnx_embeddings.embedding import Embedding
from onnx_embeddings.errors import ClosedError, SettingError
from onnx_embeddings.request import ModelRequest
from onnx_embeddings.runtime.threads import available_processors
from onnx_embeddings.scheduler import LaneLimit, process_scheduler
from onnx_embeddings.settings import AUTO_VARIANT
from onnx_embeddings.shared import Lease, lease, release
from onnx_embeddings.stats import Counters, EngineStats

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from tqdm import tqdm

    from onnx_embeddings.arrays import Lengths, Vector, Vectors
    from onnx_embeddings.cache import VectorCache
    from onnx_embeddings.scheduler import Call
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
        self._streams: weakref.WeakSet[Call[Any]] = weakref.WeakSet()
        self._closed = False
        _engines.add(self)

    @property
    def request(self) -> ModelRequest:
        """What was asked for; once open, with the file that ``variant="auto"`` took."""
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

    def iter_documents(
        self, texts: Iterable[str], *, progress: bool = False
    ) -> Generator[Vector, None, None]:
        """(D,) float32 one by one, in order: the vectors that `embed_documents` returns.

        For more texts than should be in memory at a time, of any number. Reads 64 texts, then 256,
        then 1,024 at a time, at most two such windows ahead of the vectors (and up to four times
        as many texts where most are cached or repeated), and computes one window while the
        vectors of the one before it are used. A text repeated within a window is computed once.

        Ends by itself or with its ``close()``; then, as when it is thrown away, nothing more is
        started. One thread at a time may take vectors from it; others may use the engine.

        Args:
            texts: as for `embed_documents`; read in the thread that takes the vectors.
            progress: show a bar on the standard error stream.

        Returns:
            An iterator. The engine is opened, and `texts` looked at, before it is returned.

        Raises:
            InputError: `texts` is no iterable of texts; at a text: as in `embed_documents`, after
                the vectors of all texts before it. What `texts` raises comes then, too.
            InferenceError: the runtime failed.
            ClosedError: the engine was closed, or the iterator is used in a forked process.
            CacheError, ModelError: this opens the engine, and `open` raises.
        """
        items = text.each_checked(texts)
        held = self._opened()
        total = len(texts) if isinstance(texts, Sized) else None
        shown = partial(_bar, total) if progress else nullcontext
        return self._vectors(items, held, shown)

    def warm_up(self) -> Self:
        """Make the first text as fast as the thousandth: for servers, before they answer.

        Opens the engine, starts the lanes, runs the model once on each, and finds out how lone
        queries of up to 64 tokens are fastest, for which it loads the model a second time where
        there is more than one lane. That takes as long as about 60 queries (half a second for
        the default model on two processors), and the memory that an engine would take with its
        third query anyway (50 MB more for the default model). Neither `stats` nor the cache know
        of it. May be repeated, which measures again.

        Raises:
            InferenceError: the runtime failed.
            Exception: as `open`.
        """
        held = self._opened()
        # Counters of its own and no cache, so that nobody sees what it embeds.
        Embedding(
            held,
            self._config,
            limit=self._limit,
            counters=Counters(),
            cache=None,
            prompt=held.spec.query_prompt,
        ).warm_up()
        return self

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
        """Give the model back; the last engine of a model frees its memory. May be repeated.

        Streams of `iter_documents` end; it waits for what runs of them.
        """
        with self._lock:
            self._closed = True
            self._lease = None
            if self._cache is not None:
                self._cache.close_idle()
            self._cache = None
            if self._give_back is not None:
                self._give_back()
            streams = list(self._streams)
        for stream in streams:
            stream.fail(ClosedError(self._request.model))

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
                if self._request.variant == AUTO_VARIANT:
                    self._request = replace(self._request, variant=opened.spec.variant)
                self._lease = opened
            return self._lease

    def _forked(self) -> None:
        """Forget, in a forked child, what only the parent may use; a lock may even be held."""
        self._lock = threading.Lock()
        self._counters = Counters()
        self._streams = weakref.WeakSet()
        self._lease = None
        self._cache = None
        self._give_back = None

    def _embed(self, texts: Iterable[str], prompt: str, *, progress: bool) -> Vectors:
        items = text.checked(texts)
        run = self._embedding(self._opened(), prompt)
        with _bar(len(items)) if progress else nullcontext() as bar:
            return run.embed(items, bar)

    def _vectors(
        self,
        texts: Iterator[str],
        held: Lease,
        shown: Callable[[], AbstractContextManager[tqdm[Any] | None]],
    ) -> Generator[Vector, None, None]:
        """The vectors of a stream; to hold it holds the engine."""
        run = self._embedding(held, held.spec.document_prompt)
        call = run.call()
        with self._lock:
            self._still_has(held)
            self._streams.add(call)
        with shown() as bar:
            for vectors in run.stream(call, texts, bar):
                self._still_has(held)  # `texts` may have closed it
                for vector in vectors:
                    # A copy, so that who keeps one vector does not keep those of a whole window.
                    yield vector.copy()
                    self._still_has(held)

    def _still_has(self, held: Lease) -> None:
        """Raise if a stream that began with this can't go on."""
        if self._lease is not held:
            raise ClosedError(self._request.model, forked=not self._closed)

    def _embedding(self, held: Lease, prompt: str) -> Embedding:
        return Embedding(
            held,
            self._config,
            limit=self._limit,
            counters=self._counters,
            cache=self._cache,
            prompt=prompt,
        )


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


def _bar(total: int | None) -> AbstractContextManager[tqdm[Any]]:
    from tqdm import tqdm

    return tqdm(total=total, desc="Embedding", unit=" texts", smoothing=0)
