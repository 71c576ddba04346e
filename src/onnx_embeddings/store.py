"""The folder on disk that keeps models: whole and verified, or not there at all."""

from __future__ import annotations

import errno
import hashlib
import logging
import os
import re
import secrets
import shutil
from contextlib import contextmanager, suppress
from itertools import count
from typing import TYPE_CHECKING

from onnx_embeddings.errors import OnnxEmbeddingsError, StoreError
from onnx_embeddings.memory import Memory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

logger = logging.getLogger(__name__)

_LONGEST_WAIT_S = 10.0  # for what takes a moment
_PATIENCE_S = 2.0  # a small model is compiled within this, without a word
# What some network file systems say to whoever wants a lock.
_NO_LOCKS = frozenset({errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP})


class Store(Memory):
    """Keeps models, downloaded and compiled, and what is known of the content of files.

    Attributes:
        home: the folder of all this; made when something is first written.
        models: downloaded models, ``<org>--<name>/<revision>/``.
        compiled: models as the runtime reads them, ``<name>-<key>/``.
    """

    def __init__(self, home: Path) -> None:
        super().__init__(home)
        self.home = home
        self.models = home / "models"
        self.compiled = home / "compiled"
        self._locks = home / "locks"

    def publish(self, folder: Path, write: Callable[[Path], None]) -> Path:
        """A folder that exists with all that `write` puts in it, or not at all.

        An existing folder is returned at once, untouched, so a read-only store serves what it has.
        Otherwise one writer, of all threads and processes, fills a temporary folder beside it that
        is renamed when everything is on the disk. Whatever `write` raises passes through, and
        nothing stays behind.

        Args:
            folder: where the result must lie; a new content takes a new name.
            write: called with an empty folder, to fill it.

        Raises:
            StoreError: the disk is full, may not be written, or fails otherwise.
        """
        try:
            if not folder.is_dir():
                with self.locked(folder) as alone:
                    if not folder.is_dir():
                        _write_and_rename(folder, write, alone=alone)
        except OnnxEmbeddingsError:
            raise  # some are OSErrors too, but they already say what they mean
        except OSError as error:
            raise StoreError(folder, str(error)) from error
        return folder

    def remove(self, folder: Path) -> None:
        """Delete a folder; where that is interrupted, what is left has a name that nobody reads.

        One that is gone already is done. Waits for who makes it.

        Raises:
            StoreError: it can't be deleted.
        """
        gone = folder.with_name(f".tmp-{secrets.token_hex(4)}-{folder.name}")
        try:
            with self.locked(folder):
                folder.rename(gone)
                shutil.rmtree(gone)
        except FileNotFoundError:
            return
        except OSError as error:
            raise StoreError(folder, str(error), "close the programs that use it") from error

    def copies(self, folder: Path) -> list[Path]:
        """The folders that `next_copy` gave for this one, those that are there."""
        return self._copies(folder)[:-1]

    def next_copy(self, folder: Path) -> Path:
        """The folder for a new copy.

        One that is damaged may be in use, so the next does not replace it but has another name.
        """
        return self._copies(folder)[-1]

    def _copies(self, folder: Path) -> list[Path]:
        places = [folder]
        for number in count(2):
            if not places[-1].is_dir():
                break
            places.append(folder.with_name(f"{folder.name}-{number}"))
        return places

    @contextmanager
    def locked(self, folder: Path) -> Iterator[bool]:
        """Hold the one lock of a folder, between threads and processes; whether there are locks."""
        from filelock import FileLock, Timeout

        self._locks.mkdir(parents=True, exist_ok=True)
        name = hashlib.sha256(os.fsencode(os.path.realpath(folder))).hexdigest()
        lock = FileLock(self._locks / f"{name}.lock")
        try:
            lock.acquire(timeout=_PATIENCE_S)
        except Timeout:
            logger.warning("waiting for another process or thread that makes %s", folder)
            lock.acquire()
        except (NotImplementedError, OSError) as error:
            if isinstance(error, OSError) and error.errno not in _NO_LOCKS:
                raise
            # Without locks nothing is wrong but that two may do the same work.
            logger.warning("%s can not be locked: %s", self._locks, error)
        try:
            yield lock.is_locked
        finally:
            lock.release()


@contextmanager
def exclusively(lock: Path) -> Iterator[None]:
    """Hold a lock file, between threads and between processes.

    Raises:
        OSError: it can't be made, or somebody holds it for ten seconds.
    """
    from filelock import FileLock

    with FileLock(lock, timeout=_LONGEST_WAIT_S):
        yield


def _write_and_rename(folder: Path, write: Callable[[Path], None], *, alone: bool) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    # Who has the lock is alone: a temporary folder of this name belongs to a writer that died.
    stale = re.compile(rf"\.tmp-[0-9a-f]{{8}}-{re.escape(folder.name)}")
    for sibling in folder.parent.iterdir():
        if alone and stale.fullmatch(sibling.name):
            shutil.rmtree(sibling, ignore_errors=True)
    temporary = folder.with_name(f".tmp-{secrets.token_hex(4)}-{folder.name}")
    temporary.mkdir()
    try:
        write(temporary)
        _sync_tree(temporary)
        try:
            temporary.rename(folder)
        except OSError:
            if alone or not folder.is_dir():
                raise  # else somebody else was first, with the same
        _sync_directory(folder.parent)
    finally:
        # Gone already after the rename; in every other case it is of no use.
        shutil.rmtree(temporary, ignore_errors=True)


def _sync_tree(folder: Path) -> None:
    for root, _, names in os.walk(folder):
        for name in names:
            # Windows flushes only files that are open for writing.
            with open(os.path.join(root, name), "rb+") as stream:  # noqa: PTH118, PTH123
                os.fsync(stream.fileno())
        _sync_directory(root)


def _sync_directory(folder: str | Path) -> None:
    if not hasattr(os, "O_DIRECTORY"):  # Windows has no such thing
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with suppress(OSError):  # some network file systems refuse it for directories
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
