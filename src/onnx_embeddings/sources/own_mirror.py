"""A model's name in, its folder in the user's own mirror out, where that is a folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from onnx_embeddings.errors import SettingError
from onnx_embeddings.sources import kept

if TYPE_CHECKING:
    from onnx_embeddings.sources.wanted import Wanted
    from onnx_embeddings.store import Store


def is_server(mirror: str) -> bool:
    """Whether a mirror is asked over the network."""
    return mirror.startswith(("http://", "https://"))


def in_folder(wanted: Wanted, mirror: str, store: Store, looked_in: list[str]) -> Path | None:
    """The model's folder in a mirror that is one, or None.

    Raises:
        SettingError: the revision would lead out of the mirror.
    """
    revision = wanted.revision or kept.MAIN
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
        why = kept.differing(place, wanted.known, wanted.variant, store)
        if why:
            looked_in.append(f"mirror {place}: {why}")
            return None
    return place
