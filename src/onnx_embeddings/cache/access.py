"""A database that may be locked, damaged, removed or full, for whoever can do without it."""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from onnx_embeddings.cache.database import (
    FILE,
    Busy,
    Database,
    connect,
    is_damage,
    patiently,
    reason,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Result = TypeVar("Result")

logger = logging.getLogger(__name__)

_REST_S = 30.0  # without the database, after it failed


class Access:
    """The database of a folder, for all threads of a process.

    A damaged one is moved aside and begun anew, as is one whose files were removed or replaced.
    One that fails otherwise is left alone for a while.

    Attributes:
        folder: where it lies; nothing else does.
        failures: how many times it was done without.
    """

    def __init__(self, folder: Path, limit: int) -> None:
        """Hold a folder; nothing is read yet.

        Args:
            folder: is made if it does not exist.
            limit: bytes that the database may take.
        """
        self.folder = folder
        self.failures = 0
        self._limit = limit
        self._lock = threading.RLock()
        self._counting = threading.Lock()
        self._database: Database | None = None
        self._identity: tuple[int, int, int] | None = None
        self._resting_until = {"read": 0.0, "write": 0.0}
        self._said = False

    def open(self) -> None:
        """Open the database now.

        Raises:
            OSError: the folder can't be made or used.
            sqlite3.Error: the database can't be.
        """
        try:
            self._opened()
        except (OSError, sqlite3.Error, Busy):
            self._rest("read")
            self._rest("write")
            self._said = True
            raise

    def attempt(self, what: str, work: Callable[[Database], Result], otherwise: Result) -> Result:
        """Do something with the database, or do without: counted, and the first time logged.

        Args:
            what: ``"read"`` or ``"write"``: when one fails, the other may go on.
            work: with the database.
            otherwise: the result where there is none.
        """
        if time.monotonic() < self._resting_until[what]:
            self._count()
            return otherwise
        try:
            return patiently(lambda: self._mended(work))
        except (OSError, sqlite3.Error, Busy) as error:
            self._rest(what)
            logger.log(
                logging.DEBUG if self._said else logging.WARNING,
                "cache of vectors %s can't be used for now, going on without: %s",
                self.folder,
                reason(error),
            )
            self._said = True
            return otherwise

    def close_here(self) -> None:
        """Close the connection of this thread; it opens again when it is needed."""
        database = self._database
        if database is not None:
            database.close()

    def bytes_on_disk(self) -> int:
        """What the files of the database take."""
        return sum(_size(file) for file in self._files())

    def _rest(self, what: str) -> None:
        self._resting_until[what] = time.monotonic() + _REST_S
        self._count()

    def _count(self) -> None:
        with self._counting:
            self.failures += 1

    def _mended(self, work: Callable[[Database], Result]) -> Result:
        database = self._opened()
        try:
            return work(database)
        except Exception as error:
            if not is_damage(error):
                raise
            with self._lock:
                if database is self._database:
                    self._set_aside(error)
            return work(self._opened())

    def _opened(self) -> Database:
        database = self._database
        if database is not None and self._identity == _identity(self.folder):
            return database
        with self._lock:
            if self._database is not None and self._identity != _identity(self.folder):
                logger.warning("%s was removed or replaced: begun anew", self.folder)
                self.close_here()
                self._database = None
            return self._database or self._made()

    def _made(self) -> Database:
        if os.path.expandvars(self.folder) != str(self.folder):
            raise OSError("the name of the folder holds what reads as a variable")
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):
            # For the user only: from a vector its text can be guessed.
            self.folder.mkdir(mode=0o700)
        try:
            database = patiently(lambda: connect(self.folder, self._limit))
        except Exception as error:
            if not (is_damage(error) or (self.folder / FILE).is_dir()):
                raise
            self._set_aside(error)
            database = patiently(lambda: connect(self.folder, self._limit))
        self._database, self._identity = database, _identity(self.folder)
        return database

    def _set_aside(self, error: Exception) -> None:
        """Move a damaged database out of the way; one that was moved before is replaced."""
        aside = self.folder / "damaged"
        logger.warning("%s is damaged (%s): moved to %s", self.folder / FILE, str(error), aside)
        self.close_here()
        self._database = None
        aside.mkdir(exist_ok=True)
        # The log before the database: a new database must never meet an old log.
        for file in self._files():
            target = aside / file.name
            if target.is_dir():
                target.rename(aside / f"{file.name}.{time.time_ns()}")
            with suppress(FileNotFoundError):
                file.replace(target)

    def _files(self) -> list[Path]:
        return [self.folder / f"{FILE}{suffix}" for suffix in ("-wal", "-shm", "")]


def _identity(folder: Path) -> tuple[int, int, int] | None:
    try:
        status = os.stat(folder / FILE)  # noqa: PTH116  for every text, so the faster way
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_mode


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return 0
