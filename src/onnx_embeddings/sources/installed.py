"""A model's name in, the folder of an installed package that holds the model out.

`onnx-embeddings pack` makes such packages. Nothing in them is imported or run: their entry point
says only where the folder is.
"""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from onnx_embeddings import manifest
from onnx_embeddings.errors import ModelFormatError, VerificationError
from onnx_embeddings.settings import AUTO_VARIANT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from onnx_embeddings.manifest import Manifest
    from onnx_embeddings.sources.wanted import Wanted
    from onnx_embeddings.store import Store

logger = logging.getLogger(__name__)

_FIRST = "fp32"  # where no precision is asked for and a model is there in several


def find(wanted: Wanted, store: Store, looked_in: list[str]) -> Path | None:
    """The folder of a packed model that is installed, or None.

    Args:
        wanted: the model.
        store: remembers what the content of a file was.
        looked_in: what was found is added to it when it does not fit.
    """
    question = f"package for {wanted.name} {wanted.revision} {wanted.variant} {wanted.precision}"
    question = f"{question} {_path()}"
    kept = store.answer(question)
    if kept is not None and _is_whole(Path(kept), store):
        return Path(kept)
    found = _found(wanted, store, looked_in)
    if found is None:
        looked_in.append("installed packages: none that fits")
        return None
    store.keep_answer(question, str(found))
    return found


def _path() -> list[tuple[str, int]]:
    """The folders that packages are in; to install one, or to remove it, changes their times."""
    return [(place, os.stat(place).st_mtime_ns) for place in sys.path if os.path.isdir(place)]  # noqa: PTH112, PTH116


def _is_whole(folder: Path, store: Store) -> bool:
    try:
        manifest.check(folder, manifest.read(folder).files, store.sha256)
    except (ModelFormatError, VerificationError):
        return False
    return True


def _found(wanted: Wanted, store: Store, looked_in: list[str]) -> Path | None:
    """Looks through all that is installed, which takes longer than all the rest of a start."""
    found: dict[str, Path] = {}
    for package, folder in folders():
        try:
            said = manifest.read(folder)
            if said.model != wanted.name:
                continue
            why_not = _why_not(said, wanted)
            if not why_not:
                manifest.check(folder, said.files, store.sha256)
                found.setdefault(said.precision, folder)
                continue
        except (ModelFormatError, VerificationError) as error:
            why_not = str(error)
        logger.info("the package %s is not used: %s", package, why_not)
        looked_in.append(f"installed package {package}: {why_not}")
    return found.get(_FIRST) or next(iter(found.values()), None)


def folders() -> Iterator[tuple[str, Path]]:
    """The packages that hold a model, with the folder that it is in."""
    from importlib.machinery import PathFinder
    from importlib.metadata import entry_points

    for point in entry_points(group=manifest.GROUP):
        # A module of the top only: to look for one inside of a package would import that.
        spec = PathFinder.find_spec(point.value) if point.value.isidentifier() else None
        for place in (spec.submodule_search_locations or ()) if spec is not None else ():
            yield point.value, Path(place) / manifest.FOLDER


def _why_not(said: Manifest, wanted: Wanted) -> str:
    """Why a packed model of this name is not what is wanted, or nothing."""
    if wanted.precision not in {None, said.precision}:
        return f"it is packed as {said.precision}"
    fits = (
        said.variant is not None
        if wanted.variant == AUTO_VARIANT
        else wanted.variant == said.variant
    )
    if wanted.variant is not None and not fits:
        return f"it is packed from {said.variant or 'the weights'}"
    if wanted.variant is None and said.variant is not None:
        return f"it is packed from {said.variant}, not from the weights"
    # A package that names none was packed from a folder: it stands for what nobody asks more of.
    usual = wanted.revision is None or wanted.known is not None
    if wanted.revision not in {None, *said.revisions} and not (usual and not said.revisions):
        return f"it is packed from revision {', '.join(said.revisions) or 'unknown'}"
    if said.graph_format not in {None, manifest.GRAPH_FORMAT}:
        return f"its graph format is {said.graph_format}, this version has {manifest.GRAPH_FORMAT}"
    return ""
