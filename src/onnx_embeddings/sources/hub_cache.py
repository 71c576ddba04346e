"""A model's name in, a complete snapshot of the Hugging Face cache out, without the network.

Reads the layout that huggingface_hub documents, without importing it: that alone takes longer than
everything here. Source: huggingface_hub, "Understand caching".
"""

from __future__ import annotations

import logging
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onnx_embeddings import layout
from onnx_embeddings.errors import ModelFormatError
from onnx_embeddings.sources import kept

if TYPE_CHECKING:
    from onnx_embeddings.sources.wanted import Wanted
    from onnx_embeddings.store import Store

logger = logging.getLogger(__name__)

_COMMIT = re.compile("[0-9a-f]{40}")
_CONTENT = re.compile("[0-9a-f]{40}|[0-9a-f]{64}")
_SHA256_DIGITS = 64


def folder() -> Path:
    """The folder of the Hugging Face cache, as the environment says now.

    Source: huggingface_hub/constants.py, which asks once, when it is imported.
    """
    hub = (
        os.environ.get("HF_HUB_CACHE")
        or os.environ.get("HUGGINGFACE_HUB_CACHE")
        or os.path.join(_home(), "hub")  # noqa: PTH118
    )
    return Path(os.path.expandvars(hub)).expanduser().absolute()


def _home() -> str:
    caches = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return os.environ.get("HF_HOME") or os.path.join(caches, "huggingface")  # noqa: PTH118


def token() -> str | None:
    """The user's token for the hub, as the environment says now; None leaves it to the library."""
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        if text := os.environ.get(name, "").strip():
            return text
    file = os.environ.get("HF_TOKEN_PATH") or os.path.join(_home(), "token")  # noqa: PTH118
    try:
        return Path(os.path.expandvars(file)).expanduser().read_text("utf-8").strip() or None
    except (OSError, ValueError):
        return None


def repository(name: str) -> Path:
    """The folder that the cache has for a model of this name."""
    return folder() / f"models--{name.replace('/', '--')}"


def find(wanted: Wanted, store: Store, looked_in: list[str]) -> Path | None:
    """The folder of a snapshot that is known to hold all that an engine needs, or None.

    A model of the catalog may come from any commit, if the files have the catalog's content.

    Args:
        wanted: the model.
        store: remembers what the content of a file was.
        looked_in: what was found is added to it when it was not enough.
    """
    place = repository(wanted.name)
    snapshots = _snapshots(place, wanted)
    if not snapshots:
        looked_in.append(f"Hugging Face cache {folder()}: nothing")
    for snapshot in snapshots:
        missing = _missing(place, snapshot, wanted.variant, store)
        if not missing and wanted.known is not None:
            missing = kept.differing(snapshot, wanted.known, wanted.variant, store)
        if not missing:
            return snapshot
        logger.info("%s is not used: %s", snapshot, missing)
        looked_in.append(f"Hugging Face cache {snapshot}: {missing}")
    return None


def _snapshots(repository: Path, wanted: Wanted) -> list[Path]:
    if wanted.known is not None:
        pinned = wanted.known.revision
        found = sorted(path for path in repository.glob("snapshots/*") if path.is_dir())
        return sorted(found, key=lambda path: path.name != pinned)
    commit = wanted.revision or "main"
    if not _COMMIT.fullmatch(commit):
        try:
            commit = (repository / "refs" / commit).read_text("utf-8").strip()
        except (OSError, ValueError):
            return []
    snapshot = repository / "snapshots" / commit
    return [snapshot] if _COMMIT.fullmatch(commit) and snapshot.is_dir() else []


def _missing(place: Path, snapshot: Path, variant: str | None, store: Store) -> str:
    """What the snapshot lacks, or nothing where it is complete beyond doubt, and undamaged."""
    markers = place / ".no_exist" / snapshot.name
    files = _Snapshot(snapshot, store)
    try:
        found = layout.choose(files, variant=variant)
        missing = [name for name in found.files if not files.has(name)]
        # Whoever asked for a file that the repository does not have left an empty one here.
        missing += [name for name in found.absent if not (markers / name).is_file()]
        if missing:
            return f"incomplete, without {', '.join(missing)}"
        for name in found.files:
            files.check(name)
    except (ModelFormatError, OSError) as error:
        return str(error)
    return ""


class _Snapshot(layout.OnDisk):
    """A folder of the cache: what is empty, or a broken link, is not there."""

    def __init__(self, path: Path, store: Store) -> None:
        super().__init__(path)
        self._store = store
        self._arrived = store.arrived(path)

    def has(self, name: str) -> bool:
        file = self.path / name
        return file.is_file() and file.stat().st_size > 0

    def names(self, folder: str) -> list[str]:
        return [name for name in super().names(folder) if self.has(f"{folder}{name}")]

    def json(self, name: str) -> Any:
        self.check(name)
        return super().json(name)

    def check(self, name: str) -> None:
        """Raise ModelFormatError if a file has not the content that it came with.

        Where the cache has links, the file that one leads to is named by its content: by the sha256
        of a large file and the git blob id of a small one. Each file is read once.
        """
        file = self.path / name
        must_be = self._arrived.get(name) or _blob_name(file)
        if must_be is not None and (found := digest(file, must_be, self._store)) != must_be:
            size = file.stat().st_size
            raise ModelFormatError(file, f"is damaged: its {size} bytes are {found}, not {must_be}")


def digest(file: Path, like: str, store: Store, *, anew: bool = False) -> str:
    """The sha256 of a file, or its git blob id.

    Args:
        file: which.
        like: a digest of the kind that is wanted.
        store: remembers digests.
        anew: read the file whatever is remembered.

    Raises:
        ModelFormatError: the file can't be read.
    """
    of = store.sha256 if len(like) == _SHA256_DIGITS else store.git_blob_id
    return of(file, anew=anew)


def expected(place: Path, store: Store) -> dict[Path, str]:
    """The digest that each file of a repository's snapshots must have, where that is known."""
    digests: dict[Path, str] = {}
    for snapshot in sorted(place.glob("snapshots/*")):
        arrived = store.arrived(snapshot)
        for file in sorted(snapshot.rglob("*")):
            name = file.relative_to(snapshot).as_posix()
            known = arrived.get(name) or _blob_name(file)
            if known is not None and not file.is_dir():
                digests[file] = known
    return digests


def commit_in(name: str) -> str | None:
    """The commit that a folder's name begins with."""
    match = _COMMIT.match(name)
    return match[0] if match else None


def _blob_name(file: Path) -> str | None:
    real = file.resolve()
    is_blob = real.parent.name == "blobs" and _CONTENT.fullmatch(real.name)
    return real.name if is_blob else None
