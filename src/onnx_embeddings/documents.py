"""JSON files and paths out of a model folder, read as hostile input."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from onnx_embeddings.errors import ModelFormatError

if TYPE_CHECKING:
    from pathlib import Path

_MOST_BYTES = 4 * 2**20


def inside(path: Path, name: object, file: Path) -> Path:
    """The path of a file or folder that `file` names, which must not lead out of the model.

    Raises:
        ModelFormatError: it does, or it is no path.
    """
    if not isinstance(name, str):
        raise ModelFormatError(file, f"{name!r} is no path")
    parts = name.replace("\\", "/").split("/")
    if ".." in parts or name.startswith(("/", "\\")) or ":" in name:
        raise ModelFormatError(file, f"{name!r} leads out of the model's folder")
    return path.joinpath(*parts)


def read_object(file: Path, *, required: bool = False, most: int = _MOST_BYTES) -> dict[str, Any]:
    """A JSON object; empty where the file is missing and not required.

    Raises:
        ModelFormatError: it is missing, larger than `most` bytes, or something else.
    """
    if not required and not file.exists():
        return {}
    values = _value(file, most)
    if not isinstance(values, dict):
        raise ModelFormatError(file, "must hold a JSON object")
    return values


def read_list(file: Path) -> list[dict[str, Any]]:
    """A JSON list of objects.

    Raises:
        ModelFormatError: it is missing, or something else.
    """
    values = _value(file, _MOST_BYTES)
    if not isinstance(values, list) or not all(isinstance(value, dict) for value in values):
        raise ModelFormatError(file, "must hold a JSON list of objects")
    return values


def _value(file: Path, most: int) -> object:
    try:
        if file.stat().st_size > most:
            raise ModelFormatError(file, f"is larger than {most // 2**20} MiB")
        return json.loads(file.read_bytes())
    except FileNotFoundError as error:
        raise ModelFormatError(file, "is missing") from error
    except (ValueError, RecursionError) as error:
        if isinstance(error, ModelFormatError):
            raise
        raise ModelFormatError(file, f"is not valid JSON: {error}") from error
