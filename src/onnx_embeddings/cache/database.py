"""The table that cached vectors lie in: diskcache's, of which this takes less than it offers.

The one door to diskcache. Nothing is pickled and nothing lies in files beside the database.
"""

from __future__ import annotations

import random
import sqlite3
import time
from contextlib import closing
from typing import TYPE_CHECKING, Any, TypeVar

import diskcache

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    Result = TypeVar("Result")

FILE = "cache.db"
"""The name of the database, as diskcache has it."""

_CHUNK = 500  # keys in one statement; SQLite before 3.32 takes 999
_PATIENCE_S = 5.0  # for others who write; a window of texts is written in a few hundredths
_LARGEST_LOG = 2**23  # bytes of the write-ahead log, beside the database
_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR}
_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}

Busy = diskcache.Timeout
"""Raised at once while somebody else writes."""


class BytesOnly(diskcache.Disk):  # type: ignore[misc]  # untyped
    """Keys and values are bytes and lie in the database: no pickle, no file, either way."""

    def put(self, key: object) -> tuple[Any, bool]:  # noqa: D102
        if type(key) is not bytes:
            raise TypeError(f"{type(key).__name__} is no key")
        return sqlite3.Binary(key), True

    def get(self, key: object, raw: object) -> bytes:  # noqa: D102
        if not raw or type(key) is not bytes:
            raise TypeError("not a key of ours")
        return key

    def store(self, value: object, read: object, **_: object) -> tuple[int, int, None, Any]:  # noqa: D102
        if type(value) is not bytes or read:
            raise TypeError(f"{type(value).__name__} is no value")
        return 0, diskcache.core.MODE_RAW, None, sqlite3.Binary(value)

    def fetch(self, mode: object, filename: object, value: object, read: object) -> bytes:  # noqa: D102
        if mode != diskcache.core.MODE_RAW or filename or read or type(value) is not bytes:
            raise TypeError("not a value of ours")
        return value

    def remove(self, file_path: object) -> None:
        """Nothing of ours lies in files; a name that a row has is somebody's trap."""


class Database(diskcache.Cache):  # type: ignore[misc]  # untyped
    """diskcache's table, with many keys to a statement: one by one costs five times as much."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        try:
            super().__init__(*arguments, **settings)
        except BaseException:
            self.close()  # a connection is in a cycle, so it would stay open until it is collected
            raise

    def read(self, keys: Sequence[bytes]) -> dict[bytes, tuple[int, bytes]]:
        """Key -> (row, value) of those that are there; any kind of foreign value is ``b""``."""
        found = {}
        for chunk in _chunks(keys):
            marks = ",".join("?" * len(chunk))
            query = f"SELECT key, rowid, mode, filename, value FROM Cache WHERE raw = 1 AND key IN ({marks})"  # noqa: E501, S608  marks only
            for key, row, mode, filename, value in self._sql(query, chunk):
                try:
                    found[key] = row, self._disk.fetch(mode, filename, value, read=False)
                except TypeError:
                    found[key] = row, b""
        return found

    def touch(self, rows: Sequence[int]) -> bool:
        """Note that these rows are the ones used last; False if somebody else writes just now."""
        now = time.time()
        try:
            with self.transact():
                for chunk in _chunks(rows):
                    marks = ",".join("?" * len(chunk))
                    query = f"UPDATE Cache SET access_time = ? WHERE rowid IN ({marks})"  # noqa: S608
                    self._sql(query, (now, *chunk))
        except diskcache.Timeout:
            return False
        return True

    def write(self, values: Sequence[tuple[bytes, bytes]]) -> None:
        """Keep values, then make room if they are too many."""
        with self.transact():
            for key, value in values:
                self.set(key, value)
        if self.volume() > self.size_limit:
            self.cull()

    def rows(self) -> int:
        """How many values there are."""
        return len(self)

    def empty(self) -> None:
        """Delete all rows."""
        with self.transact():
            self._sql("DELETE FROM Cache")
        self._sql("PRAGMA wal_checkpoint(TRUNCATE)")  # the log, too, gives its room back


def connect(folder: Path, limit: int) -> Database:
    """Open the database of a folder, and make it if it is not there."""
    # diskcache waits up to a minute for a lock at each of its first statements: ask once before.
    first = sqlite3.connect(folder / FILE, timeout=_PATIENCE_S, isolation_level=None)
    with closing(first):
        first.execute("BEGIN IMMEDIATE")
        first.execute("ROLLBACK")
    return Database(
        str(folder),
        timeout=0,
        disk=BytesOnly,
        size_limit=limit,
        cull_limit=0,  # its culling at each value looks at a size that is old within a transaction
        eviction_policy="least-recently-used",
        statistics=0,
        tag_index=0,
        sqlite_mmap_size=0,  # a mapped file that somebody cuts kills the process
        sqlite_cache_size=1024,  # pages of 4 KiB, for each thread
        sqlite_journal_size_limit=_LARGEST_LOG,
    )


def patiently(work: Callable[[], Result]) -> Result:
    """Try again while somebody else writes."""
    deadline = time.monotonic() + _PATIENCE_S
    pause = 0.001
    while True:
        try:
            return work()
        except (diskcache.Timeout, sqlite3.OperationalError) as error:
            busy = isinstance(error, diskcache.Timeout) or _code(error) in _BUSY
            if not busy or time.monotonic() > deadline:
                raise
        time.sleep(pause * random.uniform(0.5, 1))  # noqa: S311  no secret
        pause = min(2 * pause, 0.05)


def _code(error: sqlite3.Error) -> int:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def is_damage(error: Exception) -> bool:
    """Whether an error says that the database is not one of ours, or not any more."""
    if isinstance(error, sqlite3.Error):
        return _code(error) in _DAMAGED
    # Settings of another shape, which diskcache trusts, break it in many ways.
    return not isinstance(error, OSError | MemoryError | diskcache.Timeout)


def reason(error: Exception) -> str:
    """What an error says, for people."""
    return "somebody else writes to it" if isinstance(error, diskcache.Timeout) else str(error)


def _chunks(items: Sequence[Any]) -> list[Sequence[Any]]:
    return [items[first : first + _CHUNK] for first in range(0, len(items), _CHUNK)]
