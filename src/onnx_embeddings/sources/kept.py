"""A model's name in, its whole copy in our own store out: what mirrors gave before.

Copies of the catalog's models have the catalog's content; what the user's own mirror gave has the
content that it came with.
"""

from __future__ import annotations

import logging
from hashlib import sha256
from typing import TYPE_CHECKING

from onnx_embeddings.errors import ModelFormatError, StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from onnx_embeddings.catalog import CatalogModel
    from onnx_embeddings.sources.wanted import Wanted
    from onnx_embeddings.store import Store

logger = logging.getLogger(__name__)

MAIN = "main"
"""The revision where none is asked for."""


def find(wanted: Wanted, store: Store, looked_in: list[str]) -> Path | None:
    """A copy that is whole, or None.

    Args:
        wanted: the model.
        store: where the copies are; it remembers what the content of a file was.
        looked_in: what was found is added to it when it was not enough.

    Raises:
        StoreError: the store can't be read.
    """
    try:
        for folder, why_not in _copies(wanted, store):
            if not why_not:
                return folder
            logger.warning("%s is not used: %s", folder, why_not)
            looked_in.append(f"store {folder}: {why_not}")
    except OSError as error:
        raise StoreError(store.models, str(error)) from error
    if wanted.known is not None and not looked_in:
        looked_in.append(f"store {store.models}: nothing")
    return None


def place_of_known(known: CatalogModel, store: Store) -> Path:
    """Where a model of the catalog goes, or its first copy is."""
    return store.models / known.name.replace("/", "--") / str(known.revision)


def place_of_mirrored(wanted: Wanted, store: Store) -> Path:
    """Where what the user's own mirror gives goes, or its first copy is; whichever mirror it is."""
    which = sha256(f"{wanted.revision or MAIN} {wanted.variant}".encode()).hexdigest()[:12]
    return store.models / wanted.name.replace("/", "--") / f"mirror-{which}"


def _copies(wanted: Wanted, store: Store) -> Iterator[tuple[Path, str]]:
    """Each copy, with what is wrong with it."""
    # Mirrors on the package index have no ready ONNX files.
    if wanted.known is not None and wanted.variant is None:
        for folder in store.copies(place_of_known(wanted.known, store)):
            yield folder, differing(folder, wanted.known, None, store)
    for folder in store.copies(place_of_mirrored(wanted, store)):
        yield folder, _changed(folder, store)


def differing(folder: Path, known: CatalogModel, variant: str | None, store: Store) -> str:
    """Which file of a folder has another content than the catalog says, or nothing.

    Args:
        folder: of the model.
        known: the model.
        variant: a ready ONNX file takes the place of the weights.
        store: each file is read once, and where it has changed.
    """
    for file in known.files:
        path = folder / file.path
        if not path.is_file():
            if file.optional or (variant is not None and path.suffix == ".safetensors"):
                continue
            return f"incomplete, without {file.path}"
        size = path.stat().st_size
        if size != file.size:
            return f"{file.path} has {size} bytes instead of {file.size}"
        if store.sha256(path) != file.sha256:
            return f"{file.path} has not the content that the catalog knows"
    return ""


def _changed(folder: Path, store: Store) -> str:
    """Which file has not the content that it came with, or nothing."""
    arrived = store.arrived(folder)
    if not arrived:
        return "nothing says what its files must hold"
    for name, digest in arrived.items():
        try:
            if store.sha256(folder / name) != digest:
                return f"{name} has not the content that it came with"
        except ModelFormatError as error:
            return str(error)
    return ""
