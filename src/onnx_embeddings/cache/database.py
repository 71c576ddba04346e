"""The table that cached vectors lie in: diskcache's, of which this takes less than it offers.

The one door to diskcache. Nothing is pickled and nothing lies in files beside the database.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING, Any

import diskcache

from onnx_embeddings.cache.failures import BusyError, NotOursError, is_busy

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

FILE = "cache.db"
"""The name of the database, as diskcache has it."""

_CHUNK = 500  # keys in one statement; SQLite before 3.32 takes 999
_LARGEST_LOG = 2**23  # bytes of the write-ahead log, beside the database
_MOST_IDLE = 4  # connections that wait for the next who asks
_DELETED_AT_ONCE = 2000

# Set on every connection, whatever the database says of itself.
_PRAGMAS = {
    "auto_vacuum": 1,  # what is deleted gives its room back
    "cache_size": 256,  # pages of 4 KiB
    "journal_mode": "wal",
    "journal_size_limit": _LARGEST_LOG,
    "mmap_size": 0,  # a mapped file that somebody cuts kills the process
    "synchronous": 1,
}
# All that diskcache makes. A database with more in it, a trigger or a setting, is not one of ours.
_TABLES = {
    *(("table", name) for name in ("Settings", "Cache")),
    *(("index", f"Cache_{name}") for name in ("key_raw", "expire_time", "access_time")),
    *(("trigger", f"Settings_count_{name}") for name in ("insert", "delete")),
    *(("trigger", f"Settings_size_{name}") for name in ("insert", "update", "delete")),
    ("index", "sqlite_autoindex_Settings_1"),
}
_SETTINGS = {*diskcache.DEFAULT_SETTINGS, "sqlite_journal_size_limit"}
_SETTINGS |= {"count", "size", "hits", "misses"}


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
    """diskcache's table, with many keys to a statement: one by one costs five times as much.

    Other than diskcache's own, connections belong to no thread: `borrowed` takes one for a while.
    """

    def __init__(self, folder: Path, limit: int) -> None:
        """Open the database of a folder, and make it if it is not there."""
        self._pool = threading.Lock()
        self._idle: list[sqlite3.Connection] = []
        self._ended = False
        try:
            super().__init__(
                str(folder),
                timeout=0,
                disk=BytesOnly,
                size_limit=limit,
                cull_limit=0,  # ours looks at the size once a transaction, when it is right
                eviction_policy="least-recently-used",
                statistics=0,
                tag_index=0,
                **{f"sqlite_{name}": value for name, value in _PRAGMAS.items()},
            )
        finally:
            with suppress(AttributeError):  # interrupted before there was one
                self.close()

    @property
    def _con(self) -> sqlite3.Connection:
        con: sqlite3.Connection | None = getattr(self._local, "con", None)
        if con is None:
            path = f"{self._directory}/{FILE}"
            con = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)
            self._local.con = con
            for name in ("cache_size", "journal_size_limit", "mmap_size", "synchronous"):
                con.execute(f"PRAGMA {name} = {_PRAGMAS[name]}")
        return con

    @contextmanager
    def borrowed(self) -> Iterator[None]:
        """Use a connection in this thread; then it waits for whoever comes next."""
        with self._pool:
            if self._idle:
                self._local.con = self._idle.pop()
        try:
            yield
        finally:
            con = self._local.__dict__.pop("con", None)
            if con is not None and not self._kept(con):
                con.close()

    def _kept(self, con: sqlite3.Connection) -> bool:
        with self._pool:
            keep = not self._ended and len(self._idle) < _MOST_IDLE and not con.in_transaction
            if keep:
                self._idle.append(con)
            return keep

    def close_idle(self) -> None:
        """Close the connections that nobody uses."""
        with self._pool:
            idle, self._idle = self._idle, []
        for con in idle:
            con.close()

    def end(self) -> None:
        """Close all connections, those in use when they are given back."""
        self._ended = True
        self.close_idle()

    @contextmanager
    def _transact(self, retry: object = False, filename: object = None) -> Iterator[Any]:  # noqa: ARG002, FBT002
        # diskcache's own begins outside of its try, so that an interrupt leaves the lock held,
        # takes every error at the beginning for a lock, and rolls back what SQLite, with a full
        # disk, has rolled back itself.
        con = self._con
        if con.in_transaction:
            yield con.execute, _nothing
            return
        try:
            try:
                con.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError as error:
                if is_busy(error):
                    raise BusyError from None
                raise
            yield con.execute, _nothing
            con.execute("COMMIT")
        except BaseException:
            _roll_back(con)
            raise

    def read(self, keys: Sequence[bytes], longest: int) -> dict[bytes, tuple[int, bytes]]:
        """Key -> (row, value) of those that are there; any kind of foreign value is ``b""``."""
        found = {}
        for chunk in _chunks(keys):
            query = (
                "SELECT key, rowid, mode, filename,"  # noqa: S608  marks only
                " CASE WHEN length(value) <= ? THEN value END"
                f" FROM Cache WHERE raw = 1 AND key IN ({_marks(chunk)})"
            )
            for key, row, mode, filename, value in self._sql(query, (longest, *chunk)):
                try:
                    found[key] = row, self._disk.fetch(mode, filename, value, read=False)
                except TypeError:
                    found[key] = row, b""
        return found

    def touch(self, rows: Sequence[int]) -> bool:
        """Note that these rows are the ones used last; False if somebody else writes just now."""
        try:
            with self.transact():
                self._use("rowid", rows)
        except BusyError:
            return False
        return True

    def write(self, values: Sequence[tuple[bytes, bytes]]) -> None:
        """Keep values, in one transaction; then make room, if they are too many."""
        with self.transact():
            for key, value in values:
                self.set(key, value)
            if self._now() > time.time() + 1:  # the clock was set back
                self._use("key", [key for key, _ in values])
        # Bounded, so that a limit that was lowered does not stop one caller for long.
        at_most = _DELETED_AT_ONCE + 2 * len(values)
        while at_most > 0 and (excess := self._excess()):
            number = min(excess, at_most)
            self._delete("SELECT rowid FROM Cache ORDER BY access_time LIMIT ?", number)
            at_most -= number

    def rows(self) -> int:
        """How many values there are."""
        return len(self)

    def empty(self) -> None:
        """Delete all rows, some at a time, so that the log stays small."""
        while self._delete("SELECT rowid FROM Cache LIMIT ?", _DELETED_AT_ONCE):
            pass
        self._sql("PRAGMA wal_checkpoint(TRUNCATE)")  # the log, too, gives its room back

    def _use(self, column: str, values: Sequence[Any]) -> None:
        now = self._now()
        for chunk in _chunks(values):
            query = f"UPDATE Cache SET access_time = ? WHERE {column} IN ({_marks(chunk)})"  # noqa: S608
            self._sql(query, (now, *chunk))

    def _now(self) -> float:
        """The time; later than every note of use, also if the clock was set back."""
        ((newest,),) = self._sql("SELECT max(access_time) FROM Cache").fetchall()
        return max(time.time(), newest or 0.0)

    def _excess(self) -> int:
        """About how many rows are too many."""
        ((pages,),) = self._sql("PRAGMA page_count").fetchall()
        size, rows = pages * self._page_size, len(self)
        return (
            int((size - self.size_limit) * rows / size) + 1
            if size > self.size_limit and rows
            else 0
        )

    def _delete(self, which: str, number: int) -> int:
        with self.transact():
            return int(self._sql(f"DELETE FROM Cache WHERE rowid IN ({which})", (number,)).rowcount)  # noqa: S608


def connect(folder: Path, limit: int) -> Database:
    """Open the database of a folder, and make it if it is not there.

    Raises:
        NotOursError: there is more in it than a cache has.
        sqlite3.Error: somebody else writes, or it can't be opened.
    """
    # diskcache believes what it finds, and waits up to a minute for a lock at each of its first
    # statements: look and ask once before.
    first = sqlite3.connect(folder / FILE, timeout=0, isolation_level=None)
    with closing(first):
        first.execute("BEGIN IMMEDIATE")
        tables = set(first.execute("SELECT type, name FROM sqlite_master"))
        if strange := tables - _TABLES:
            raise NotOursError(f"it holds {sorted(strange)}")
        if ("table", "Settings") in tables:
            settings = {key for (key,) in first.execute("SELECT key FROM Settings")}
            if strange := settings - _SETTINGS:
                raise NotOursError(f"it has settings {sorted(map(str, strange))}")
        first.execute("ROLLBACK")
    return Database(folder, limit)


def _chunks(items: Sequence[Any]) -> list[Sequence[Any]]:
    return [items[first : first + _CHUNK] for first in range(0, len(items), _CHUNK)]


def _marks(items: Sequence[Any]) -> str:
    return ",".join("?" * len(items))


def _nothing(_: object) -> None:
    """What diskcache calls with the name of a file to clean up; there are none."""


def _roll_back(con: sqlite3.Connection) -> None:
    with suppress(sqlite3.ProgrammingError):  # closed: an interrupt came before the end
        if con.in_transaction:
            con.execute("ROLLBACK")
