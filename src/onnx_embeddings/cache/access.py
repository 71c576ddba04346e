"""A database that may be locked, damaged, removed or full, for whoever can do without it."""

from __future__ import annotations

import logging
import os
import shutil
import stat
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from onnx_embeddings.cache.database import FILE, Database, connect
from onnx_embeddings.cache.failures import is_damage, patiently, reason
from onnx_embeddings.cache.forks import apart, close_before
from onnx_embeddings.store import exclusively

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Result = TypeVar("Result")

    Identity = tuple[int, int, int]
    """Device, inode and kind of file: another one, another database."""

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
        self._aside = folder / "damaged"
        self._lock = threading.RLock()
        self._counting = threading.Lock()
        self._database: Database | None = None
        self._identity: Identity | None = None
        self._resting_until: dict[str, float] = {}
        self._said = False
        close_before(self)

    def open(self) -> None:
        """Open the database now.

        Raises:
            Exception: of the operating system or of SQLite: the database can't be opened.
        """
        try:
            with apart():
                self._opened()
        except Exception:
            self._said = True
            for what in ("read", "touch", "write"):
                self._rest(what)
            self._count()
            raise

    def attempt(self, what: str, work: Callable[[Database], Result], otherwise: Result) -> Result:
        """Do something with the database, or do without: counted, and the first time logged.

        Args:
            what: ``"read"``, ``"touch"`` or ``"write"``: when one fails, the others may go on.
            work: with the database.
            otherwise: the result where there is none.
        """
        if time.monotonic() < self._resting_until.get(what, 0):
            self._count()
            return otherwise
        try:
            with apart():
                return patiently(lambda: self._mended(work))
        except Exception as error:  # noqa: BLE001  whatever it is, a cache is no reason to fail
            self._rest(what)
            self._count()
            logger.log(
                logging.DEBUG if self._said else logging.WARNING,
                "cache of vectors %s can't be used for now, going on without: %s",
                self.folder,
                reason(error),
            )
            self._said = True
            return otherwise

    def clear(self) -> None:
        """Begin anew; also if the disk is full, and whatever failed before.

        Raises:
            Exception: of the operating system or of SQLite: it can't be done.
        """
        with apart(), self._lock:
            self._drop()
            try:
                if self.folder.is_dir():
                    with exclusively(self.folder / "lock"):
                        for file in self._files():
                            file.unlink(missing_ok=True)
            except PermissionError:  # where files in use can't be removed
                database = self._opened()
                with database.borrowed():
                    patiently(database.empty)
            shutil.rmtree(self._aside, ignore_errors=True)
            self._opened()
            self._resting_until.clear()

    def close_idle(self) -> None:
        """Close the connections that nobody uses; others open when they are needed."""
        database = self._database
        if database is not None:
            database.close_idle()

    def bytes_on_disk(self) -> int:
        """What all files in the folder take."""
        files = [*self.folder.glob("*"), *self._aside.glob("*")]
        return sum(_size(file) for file in files)

    def _rest(self, what: str) -> None:
        self._resting_until[what] = time.monotonic() + _REST_S

    def _count(self) -> None:
        with self._counting:
            self.failures += 1

    def _mended(self, work: Callable[[Database], Result]) -> Result:
        database = self._opened()
        try:
            with database.borrowed():
                return work(database)
        except Exception as error:
            if not is_damage(error):
                raise
            with self._lock:
                if database is self._database:
                    self._set_aside(error, self._identity)
                    self._drop()
        database = self._opened()
        with database.borrowed():
            return work(database)

    def _opened(self) -> Database:
        database = self._database
        if database is not None and self._identity == _identity(self.folder):
            return database
        with self._lock:
            if self._database is not None and self._identity != _identity(self.folder):
                logger.warning("%s was cleared, removed or replaced: begun anew", self.folder)
                self._drop()
            return self._database or self._made()

    def _made(self) -> Database:
        if os.path.expandvars(self.folder) != str(self.folder):
            raise OSError("the name of the folder holds what reads as a variable")
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):
            # For the user only: from a vector its text can be guessed.
            self.folder.mkdir(mode=0o700)
        found = _identity(self.folder)
        try:
            database = patiently(lambda: connect(self.folder, self._limit))
        except Exception as error:
            if not (is_damage(error) or (self.folder / FILE).is_dir()):
                raise
            self._set_aside(error, found)
            database = patiently(lambda: connect(self.folder, self._limit))
        self._database, self._identity = database, _identity(self.folder)
        return database

    def _drop(self) -> None:
        if self._database is not None:
            self._database.end()
        self._database = None

    def _set_aside(self, error: Exception, found: Identity | None) -> None:
        """Move a damaged database out of the way, unless another process has done it by now.

        One that was moved before is replaced.
        """
        with exclusively(self.folder / "lock"):
            if _identity(self.folder) != found:
                return
            logger.warning(
                "%s is damaged (%s): moved to %s", self.folder / FILE, str(error), self._aside
            )
            shutil.rmtree(self._aside, ignore_errors=True)
            self._aside.mkdir(exist_ok=True)
            # The log before the database: a new database must never meet an old log.
            for file in self._files():
                with suppress(FileNotFoundError):
                    file.replace(self._aside / file.name)

    def _files(self) -> list[Path]:
        return [self.folder / f"{FILE}{suffix}" for suffix in ("-wal", "-shm", "")]


def _identity(folder: Path) -> Identity | None:
    try:
        status = os.stat(folder / FILE)  # noqa: PTH116  for every text, so the faster way
    except OSError:
        return None
    return status.st_dev, status.st_ino, stat.S_IFMT(status.st_mode)


def _size(file: Path) -> int:
    try:
        status = file.stat()
    except OSError:
        return 0
    return status.st_size if stat.S_ISREG(status.st_mode) else 0
