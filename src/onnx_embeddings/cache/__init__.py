"""Vectors kept on disk: key in, vector out. The least recently used ones go first."""

from __future__ import annotations

import logging
import os
import threading
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from onnx_embeddings.cache.access import Access
from onnx_embeddings.cache.failures import reason
from onnx_embeddings.cache.values import decoded, encoded, size_of
from onnx_embeddings.errors import CacheError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from onnx_embeddings.arrays import Vectors
    from onnx_embeddings.config import EngineConfig

logger = logging.getLogger(__name__)

_FOLDER = "vectors-1"  # within the folder that is asked for, so that nothing else is ever touched
_MOST_NOTES = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheStats:
    """What a cache holds, and what it did for this process since it was opened.

    Attributes:
        folder: where it lies.
        hits: vectors that were found.
        misses: vectors that were not.
        damaged: values that were there and not believed; misses too, and written anew.
        errors: times that the cache could not be read or written, and was done without.
        vectors: how many it holds now, of all models and processes.
        bytes_on_disk: what its files take now.
        bytes_limit: what they may take.
    """

    folder: Path
    hits: int
    misses: int
    damaged: int
    errors: int
    vectors: int
    bytes_on_disk: int
    bytes_limit: int


class VectorCache:
    """A cache that all engines, threads and processes of a user may share.

    Once open it never raises: what can't be read is a miss, what can't be written is not kept, and
    both are counted and, the first time, logged.
    """

    def __init__(self, folder: Path, limit: int) -> None:
        """Hold a folder; nothing is read yet.

        Args:
            folder: where the cache makes a folder of its own.
            limit: bytes that it may take.
        """
        self._access = Access(folder / _FOLDER, limit)
        weakref.finalize(self, self._access.close_idle)
        self._limit = limit
        self._lock = threading.Lock()
        self._used: list[int] = []  # rows whose use could not be noted yet
        self._counts = dict.fromkeys(("hits", "misses", "damaged"), 0)

    @property
    def folder(self) -> Path:
        """Where the cache lies."""
        return self._access.folder

    def open(self) -> None:
        """Open it now, and make it if it is not there.

        Raises:
            CacheError: it can't be.
        """
        try:
            self._access.open()
        except Exception as error:
            raise CacheError(self.folder, reason(error)) from error

    def get_many(self, keys: Sequence[bytes], dim: int) -> tuple[list[int], Vectors]:
        """The vectors that are there, and a note that they were used.

        Args:
            keys: of N vectors, all different.
            dim: numbers of a vector.

        Returns:
            The places, in order, of the M keys that were found, and (M, dim) float32.
        """
        rows: dict[bytes, tuple[int, bytes]] = {}
        longest = size_of(dim)
        rows = self._access.attempt("read", lambda database: database.read(keys, longest), rows)
        values = {key: value for key, (_, value) in rows.items()}
        found, vectors = decoded(keys, values, dim)
        damaged = len(rows) - len(found)
        if damaged:
            level = logging.DEBUG if self._counts["damaged"] else logging.WARNING
            logger.log(level, "%s: %d damaged vectors are computed anew", self.folder, damaged)
        self._count(hits=len(found), misses=len(keys) - len(found), damaged=damaged)
        self._note_use([rows[keys[place]][0] for place in found])
        return found, vectors

    def put_many(self, keys: Sequence[bytes], vectors: Vectors) -> None:
        """Keep vectors, in one transaction.

        Args:
            keys: of N vectors.
            vectors: (N, D) float32, finite.
        """
        values = list(zip(keys, encoded(keys, vectors), strict=True))
        self._access.attempt("write", lambda database: database.write(values), None)

    def clear(self) -> None:
        """Forget all vectors, of all models and for all processes.

        Raises:
            CacheError: they could not be removed.
        """
        try:
            self._access.clear()
        except Exception as error:
            raise CacheError(self.folder, f"can't be cleared: {reason(error)}") from error

    def stats(self) -> CacheStats:
        """What the cache holds and did."""
        vectors = self._access.attempt("read", lambda database: database.rows(), 0)
        with self._lock:
            counts = dict(self._counts)
        return CacheStats(
            folder=self.folder,
            errors=self._access.failures,
            vectors=vectors,
            bytes_on_disk=self._access.bytes_on_disk(),
            bytes_limit=self._limit,
            **counts,
        )

    def close_idle(self) -> None:
        """Close connections that nobody uses just now; others open when they are needed."""
        self._access.close_idle()

    def _note_use(self, rows: list[int]) -> None:
        """Note that rows were used: now, or with the next call if somebody else writes."""
        with self._lock:
            used, self._used = self._used + rows, []
        if not used:
            return
        noted = self._access.attempt(
            "touch", lambda database: database.touch(used), otherwise=False
        )
        if not noted:
            with self._lock:
                self._used = (used + self._used)[-_MOST_NOTES:]

    def _count(self, **counts: int) -> None:
        with self._lock:
            for name, number in counts.items():
                self._counts[name] += number


def open_cache(config: EngineConfig) -> VectorCache | None:
    """The cache that a configuration asks for; those with one folder share it in a process.

    Args:
        config: as `EngineConfig.resolved` returns it.

    Raises:
        CacheError: the folder was named by the user and can't be used.
    """
    if config.cache is None:
        return None
    named = config.cache != "auto"
    folder = Path(config.cache) if named else config.home_path / "vectors"
    with _lock:
        cache = _open.get((folder, config.cache_bytes))
        if cache is None:
            cache = VectorCache(folder, config.cache_bytes)
            try:
                cache.open()
            except CacheError as error:
                if named:
                    raise
                # Engines come and go; one word about a folder is enough.
                level = logging.DEBUG if folder in _warned_of else logging.WARNING
                logger.log(level, "%s", error)
                _warned_of.add(folder)
            _open[folder, config.cache_bytes] = cache
        return cache


_open: weakref.WeakValueDictionary[tuple[Path, int], VectorCache] = weakref.WeakValueDictionary()
_lock = threading.Lock()
_warned_of: set[Path] = set()


def _after_fork() -> None:
    global _open, _lock
    _open, _lock = weakref.WeakValueDictionary(), threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
