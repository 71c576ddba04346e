"""What was found out of files once, kept on disk so that nobody has to find it out again.

None of it is needed: what can't be kept, or is lost, is found out anew.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import secrets
from typing import TYPE_CHECKING

from onnx_embeddings.errors import ModelFormatError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

logger = logging.getLogger(__name__)


class Memory:
    """The digests of files, what folders arrived with, and answers to other questions."""

    def __init__(self, home: Path) -> None:
        """Read nothing yet; folders are made when something is first kept."""
        self._digests = home / "digests"
        self._answers = home / "answers"
        self._arrivals = home / "arrivals"

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
