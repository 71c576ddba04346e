"""A model's name in, the folder out that the user's own mirror is, or that was fetched from it."""

from __future__ import annotations

import logging
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from onnx_embeddings.errors import ModelFormatError, SettingError
from onnx_embeddings.sources import hub_cache

if TYPE_CHECKING:
    from onnx_embeddings.sources.wanted import Wanted
    from onnx_embeddings.store import Store

logger = logging.getLogger(__name__)

MAIN = "main"
"""The revision where none is asked for."""


def is_server(mirror: str) -> bool:
    """Whether a mirror is asked over the network."""
    return mirror.startswith(("http://", "https://"))


def in_folder(wanted: Wanted, mirror: str, store: Store, looked_in: list[str]) -> Path | None:
    """The model's folder in a mirror that is one, or None.

    Raises:
        SettingError: the revision would lead out of the mirror.
    """
    revision = wanted.revision or MAIN
    if "{model}" in mirror:
        if ".." in revision.split("/") or revision.startswith("/") or "\\" in revision:
            raise SettingError("revision", revision, "leads out of the mirror")
        place = Path(mirror.replace("{model}", wanted.name).replace("{revision}", revision))
    else:
        place = Path(mirror) / wanted.name
    if not place.is_dir():
        looked_in.append(f"mirror {place}: no such folder")
        return None
    if wanted.known is not None:
        why = hub_cache.differing(place, wanted.known, wanted.variant, store)
        if why:
            looked_in.append(f"mirror {place}: {why}")
            return None
    return place


def kept(wanted: Wanted, store: Store, looked_in: list[str]) -> Path | None:
    """A copy that was fetched from a server before, whichever; None where none is whole."""
    for place in _places(wanted, store)[:-1]:
        why = _damage(place, store)
        if not why:
            return place
        logger.warning("%s is not used: %s", place, why)
        looked_in.append(f"mirror's copy {place}: {why}")
    return None


def next_place(wanted: Wanted, store: Store) -> Path:
    """Where a new copy goes: a damaged one may be in use, so it is not replaced."""
    return _places(wanted, store)[-1]


def _places(wanted: Wanted, store: Store) -> list[Path]:
    which = f"{wanted.revision or MAIN} {wanted.variant}"
    name = f"mirror-{sha256(which.encode()).hexdigest()[:12]}"
    folder = store.models / wanted.name.replace("/", "--")
    places = [folder / name]
    for number in count(2):
        if not places[-1].is_dir():
            break
        places.append(folder / f"{name}-{number}")
    return places


def _damage(place: Path, store: Store) -> str:
    """Which file has not the content that it came with, or nothing."""
    arrived = store.arrived(place)
    if not arrived:
        return "nothing says what its files must hold"
    for name, digest in arrived.items():
        try:
            if store.sha256(place / name) != digest:
                return f"{name} has not the content that it came with"
        except ModelFormatError as error:
            return str(error)
    return ""
