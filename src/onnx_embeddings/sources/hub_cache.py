"""A model's name in, a complete snapshot of the Hugging Face cache out, without the network.

Reads the layout that huggingface_hub documents, without importing it: that alone takes longer than
everything here. Source: huggingface_hub, "Understand caching".
"""

from __future__ import annotations

import json
import logging
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onnx_embeddings.errors import ModelFormatError
from onnx_embeddings.sources.files import needed

if TYPE_CHECKING:
    from onnx_embeddings.catalog import CatalogModel
    from onnx_embeddings.sources.files import Wanted
    from onnx_embeddings.store import Store

logger = logging.getLogger(__name__)

_COMMIT = re.compile("[0-9a-f]{40}")
_JSON_BYTES = 64 * 2**20


def folder() -> Path:
    """The folder of the Hugging Face cache, as the environment says now.

    Source: huggingface_hub/constants.py, which asks once, when it is imported.
    """
    caches = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    home = os.environ.get("HF_HOME") or os.path.join(caches, "huggingface")  # noqa: PTH118
    hub = (
        os.environ.get("HF_HUB_CACHE")
        or os.environ.get("HUGGINGFACE_HUB_CACHE")
        or os.path.join(home, "hub")  # noqa: PTH118
    )
    return Path(os.path.expandvars(hub)).expanduser().absolute()


def find(wanted: Wanted, store: Store, looked_in: list[str]) -> Path | None:
    """The folder of a snapshot that is known to hold all that an engine needs, or None.

    A model of the catalog may come from any commit, if the files have the catalog's content.

    Args:
        wanted: the model.
        store: remembers what the content of a file was.
        looked_in: what was found is added to it when it was not enough.
    """
    repository = folder() / f"models--{wanted.name.replace('/', '--')}"
    snapshots = _snapshots(repository, wanted)
    if not snapshots:
        looked_in.append(f"Hugging Face cache {folder()}: nothing")
    for snapshot in snapshots:
        missing = _missing(repository, snapshot, wanted.variant)
        if not missing and wanted.known is not None:
            missing = _differing(snapshot, wanted.known, wanted.variant, store)
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


def _missing(repository: Path, snapshot: Path, variant: str | None) -> str:
    """What the snapshot lacks, or nothing where it is complete beyond doubt."""
    markers = repository / ".no_exist" / snapshot.name
    try:
        names = {
            path.relative_to(snapshot).as_posix()
            for path in snapshot.rglob("*")
            if path.is_file() and path.stat().st_size > 0  # a broken link is no file
        }
        choice = needed(names, lambda name: _json(snapshot / name), variant=variant)
        missing = [name for name in choice.files if name not in names]
        # Whoever asked for a file that the repository does not have left an empty one here.
        missing += [name for name in choice.absent if not (markers / name).is_file()]
    except (ModelFormatError, OSError) as error:
        return str(error)
    return f"incomplete, without {', '.join(missing)}" if missing else ""


def _json(file: Path) -> Any:
    try:
        if file.stat().st_size > _JSON_BYTES:
            raise ModelFormatError(file, f"is larger than {_JSON_BYTES // 2**20} MiB")
        return json.loads(file.read_bytes())
    except (OSError, RecursionError) as error:
        raise ModelFormatError(file, f"cannot be read: {error}") from error
    except ValueError as error:
        if isinstance(error, ModelFormatError):
            raise
        raise ModelFormatError(file, f"is not valid JSON: {error}") from error


def _differing(snapshot: Path, known: CatalogModel, variant: str | None, store: Store) -> str:
    """Which file has another content than the catalog says, or nothing."""
    for file in known.files:
        path = snapshot / file.path
        if not path.is_file():
            # A ready ONNX file takes the place of the weights.
            if file.optional or (variant is not None and path.suffix == ".safetensors"):
                continue
            return f"incomplete, without {file.path}"
        if path.stat().st_size != file.size or store.sha256(path) != file.sha256:
            return f"{file.path} has not the content that the catalog knows"
    return ""
