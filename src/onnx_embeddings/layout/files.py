"""The files of a model by name: in a folder, or as somebody else lists them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from onnx_embeddings.documents import read_json
from onnx_embeddings.errors import ModelFormatError

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path


class Files(Protocol):
    """The files of a model: in a folder, or as a hub lists them. Names have forward slashes."""

    def has(self, name: str) -> bool:
        """Whether it is there."""

    def names(self, folder: str) -> Collection[str]:
        """Of the files in a folder (``""`` or ``"onnx/"``), not of those in folders below it.

        None where they can't be listed.
        """

    def json(self, name: str) -> Any:
        """What a JSON file that is there holds; ModelFormatError if it holds something else."""

    def place(self, name: str) -> object:
        """What an error calls it."""


class OnDisk:
    """A folder, as `Files`."""

    def __init__(self, path: Path) -> None:
        """Read nothing yet."""
        self.path = path

    def has(self, name: str) -> bool:
        """Whether it is there; also a folder in its place, so that reading it is an error."""
        return (self.path / name).exists()

    def names(self, folder: str) -> list[str]:
        """Of the files in a folder."""
        place = self.path / folder
        return [file.name for file in place.iterdir()] if place.is_dir() else []

    def json(self, name: str) -> Any:
        """What a JSON file holds."""
        return read_json(self.path / name)

    def place(self, name: str) -> Path:
        """What an error calls it."""
        return self.path / name


def inside(path: object, file: object) -> str:
    """A path that `file` names, with forward slashes, without those that say nothing.

    Raises:
        ModelFormatError: it leads out of the model, or is no path.
    """
    if not isinstance(path, str):
        raise ModelFormatError(file, f"{path!r} is no path")
    parts = path.replace("\\", "/").split("/")
    if ".." in parts or path.startswith(("/", "\\")) or ":" in path:
        raise ModelFormatError(file, f"{path!r} leads out of the model's folder")
    return "/".join(part for part in parts if part not in {"", "."})
