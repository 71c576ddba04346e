"""JSON files of a model, read as hostile input: their size is bounded, their shape checked."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from onnx_embeddings.errors import ModelFormatError

if TYPE_CHECKING:
    from pathlib import Path

_MOST_BYTES = 4 * 2**20


def read_object(file: Path, *, required: bool = False, most: int = _MOST_BYTES) -> dict[str, Any]:
    """A JSON object; empty where the file is missing and not required.

    Raises:
        ModelFormatError: it is missing, larger than `most` bytes, or something else.
        OSError: it cannot be read.
    """
    if not required and not file.exists():
        return {}
    return as_object(read_json(file, most=most), file)


def as_object(value: Any, file: object) -> dict[str, Any]:
    """The value, if it is a JSON object.

    Raises:
        ModelFormatError: it is none; names the file.
    """
    if not isinstance(value, dict):
        raise ModelFormatError(file, "must hold a JSON object")
    return value


def as_list(value: Any, file: object) -> list[dict[str, Any]]:
    """The value, if it is a JSON list of objects.

    Raises:
        ModelFormatError: it is none; names the file.
    """
    if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
        raise ModelFormatError(file, "must hold a JSON list of objects")
    return value


def read_json(file: Path, *, most: int = _MOST_BYTES) -> Any:
    """What a JSON file holds.

    Raises:
        ModelFormatError: it is missing, larger than `most` bytes, or no JSON.
        OSError: it cannot be read.
    """
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
