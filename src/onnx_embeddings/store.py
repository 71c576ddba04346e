"""The folder on disk that keeps models: whole and verified, or not there at all."""

from __future__ import annotations

import errno
import hashlib
import json
import logging
import os
import re
import secrets
import shutil
from contextlib import contextmanager, suppress
from itertools import count
from typing import TYPE_CHECKING

from onnx_embeddings.errors import ModelFormatError, OnnxEmbeddingsError, StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

logger = logging.getLogger(__name__)

_LONGEST_WAIT_S = 10.0  # for what takes a moment
_PATIENCE_S = 2.0  # a small model is compiled within this, without a word
# What some network file systems say to whoever wants a lock.
_NO_LOCKS = frozenset({errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP})


class Store:
    """Keeps models, downloaded and compiled, and what is known of the content of files.

    Attributes:
        home: the folder of all this; made when something is first written.
        models: downloaded models, ``<org>--<name>/<revision>/``.
        compiled: models as the runtime reads them, ``<name>-<key>/``.
    """

    def __init__(self, home: Path) -> None:
        self.home = home
        self.models = home / "models"
        self.compiled = home / "compiled"
        self._locks = home / "locks"
        self._digests = home / "digests"
        self._answers = home / "answers"
        self._arrivals = home / "arrivals"

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

    def sha256(self, file: Path, *, anew: bool = False) -> str:
        """The sha256 of a file, in hexadecimal; see `digest`."""
        return self.digest(file, "sha256", _sha256, anew=anew)

    def git_blob_id(self, file: Path, *, anew: bool = False) -> str:
        """What git calls a file's content, 40 hexadecimal digits; see `digest`."""
        return self.digest(file, "git blob", _git_blob_id, anew=anew)

    def digest(
        self, file: Path, kind: str, compute: Callable[[Path], str], *, anew: bool = False
    ) -> str:
        """What `compute` makes of the content of a file, in hexadecimal.

        Computed once; afterwards a file with the same real path, size, inode and times of change
        is taken to have the same content. A store that cannot be written costs only the time to
        compute again.

        Args:
            file: what to read.
            kind: a name for what `compute` does.
            compute: a sha256 of something that depends on the file's content alone.
            anew: compute it whatever is remembered.

        Raises:
            ModelFormatError: the file cannot be read.
        """
        real = os.path.realpath(file)
        name = hashlib.sha256(os.fsencode(f"{kind} {real}")).hexdigest()
        memo = self._digests / f"{name}.json"
        try:
            before = _identity(real)
            known = _read_memo(memo)
            if known is not None and known[:-1] == before and not anew:
                return str(known[-1])
            found = compute(file)
            unchanged = _identity(real) == before
        except OSError as error:
            raise ModelFormatError(file, f"cannot be read: {error}") from error
        if unchanged:
            try:
                _write_whole(memo, json.dumps([*before, found]))
            except OSError as error:
                logger.debug("%s of %s is not remembered: %s", kind, real, error)
        return found

    def answer(self, question: str) -> str | None:
        """What `keep_answer` kept, or None."""
        try:
            return self._answer(question).read_text("utf-8")
        except (OSError, ValueError):
            return None

    def keep_answer(self, question: str, answer: str) -> None:
        """Keep what was found out, to ask no more; not where nothing can be written."""
        try:
            _write_whole(self._answer(question), answer)
        except OSError as error:
            logger.debug("%s is not remembered: %s", question, error)

    def _answer(self, question: str) -> Path:
        return self._answers / f"{hashlib.sha256(question.encode()).hexdigest()}.txt"

    def arrived(self, folder: Path) -> dict[str, str]:
        """What `keep_arrived` kept of the files of a folder: sha256 by name."""
        try:
            values = json.loads(self._arrival(folder).read_bytes())
        except (OSError, ValueError):
            return {}
        return values if isinstance(values, dict) else {}

    def keep_arrived(self, folder: Path, digests: dict[str, str]) -> None:
        """Keep the sha256 that files had when they were fetched and verified."""
        try:
            _write_whole(self._arrival(folder), json.dumps(self.arrived(folder) | digests))
        except OSError as error:
            logger.debug("the arrival of %s is not remembered: %s", folder, error)

    def _arrival(self, folder: Path) -> Path:
        name = hashlib.sha256(os.fsencode(os.path.realpath(folder))).hexdigest()
        return self._arrivals / f"{name}.json"

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


def _sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _git_blob_id(file: Path) -> str:
    with file.open("rb") as stream:
        content = hashlib.sha1(usedforsecurity=False)
        content.update(b"blob %d\0" % os.fstat(stream.fileno()).st_size)
        while block := stream.read(2**20):
            content.update(block)
    return content.hexdigest()


def _identity(real: str) -> list[str | int]:
    status = os.stat(real)  # noqa: PTH116 - a real path is a str
    # A copy may carry the old time of modification; the time of change is the system's own.
    times = status.st_mtime_ns, status.st_ctime_ns
    return [real, status.st_size, *times, status.st_dev, status.st_ino]


def _read_memo(memo: Path) -> list[object] | None:
    try:
        known = json.loads(memo.read_bytes())
    except (OSError, ValueError):
        return None
    is_sound = (
        isinstance(known, list) and bool(known) and re.fullmatch("[0-9a-f]{40,64}", str(known[-1]))
    )
    return known if is_sound else None


def _write_whole(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    temporary = file.with_suffix(f".{secrets.token_hex(4)}.tmp")
    try:
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(file)
    finally:
        temporary.unlink(missing_ok=True)
