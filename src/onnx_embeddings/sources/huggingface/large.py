"""A large file into the Hugging Face cache, going on where an ended process stopped.

huggingface_hub resumes a broken connection; since 1.0 it begins anew where its process ended. Its
cache takes a file that lies there under the name of its content, so that is where this one puts it.
"""

from __future__ import annotations

import errno
import logging
import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from onnx_embeddings.store import Store

logger = logging.getLogger(__name__)

_SHA256 = re.compile("[0-9a-f]{64}")
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where a file is to come from, and what it must be.

    Attributes:
        repo: the repository's name.
        name: the file's.
        commit: the commit.
        endpoint: the hub's address.
        token: the user's.
        sha256: of the file; small files have another digest, and are none of this module's.
        size: in bytes.
    """

    repo: str
    name: str
    commit: str
    endpoint: str
    token: str | None
    sha256: str
    size: int


def is_digest(text: str) -> bool:
    """Whether this is the digest of a large file; those of small ones are shorter."""
    return _SHA256.fullmatch(text) is not None


def fetch(source: Source, blobs: Path, store: Store) -> None:
    """Put a file into the folder of contents, unless it is there.

    What came but is not the right content is deleted, and left to the library to fetch.

    Args:
        source: which.
        blobs: the folder of the repository's contents.
        store: locks.

    Raises:
        Exception: as the library: the connection, the disk.
    """
    blob = blobs / source.sha256
    if blob.exists():
        return
    part = blobs / f"{source.sha256}.resumable.incomplete"
    with store.locked(part):
        if blob.exists():
            return
        blobs.mkdir(parents=True, exist_ok=True)
        try:
            _complete(part, source)
        except BaseException as error:
            is_full = isinstance(error, OSError) and error.errno in _FULL
            if is_full or (part.exists() and part.stat().st_size == 0):
                part.unlink(missing_ok=True)
            raise
        if store.sha256(part) == source.sha256:
            part.replace(blob)
        else:
            logger.warning("%s came with another content, fetching it once more", source.name)
            part.unlink()


def settle(source: Source, blobs: Path, path: Path) -> None:
    """Where the system has no links the library has made a copy: one is enough.

    Args:
        source: which.
        blobs: as `fetch` had it.
        path: where the library put the file.
    """
    if not path.is_symlink():
        (blobs / source.sha256).unlink(missing_ok=True)


def _complete(part: Path, source: Source) -> None:
    from huggingface_hub import hf_hub_url
    from huggingface_hub.file_download import http_get
    from huggingface_hub.utils import build_hf_headers  # type: ignore[attr-defined]

    with part.open("ab") as stream:
        there = stream.tell()
        if there > source.size:
            there = 0
            stream.truncate(0)
        if there:
            logger.info("%s: going on behind %d bytes", source.name, there)
        if there < source.size:
            http_get(
                hf_hub_url(
                    source.repo, source.name, revision=source.commit, endpoint=source.endpoint
                ),
                stream,
                resume_size=there,
                headers=build_hf_headers(token=source.token),
                expected_size=source.size,
                displayed_filename=source.name,
            )
        stream.flush()
        os.fsync(stream.fileno())
