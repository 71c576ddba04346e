"""The note in a compiled folder that says what lies there."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from onnx_embeddings.errors import ModelFormatError
from onnx_embeddings.manifest import GRAPH_FORMAT

if TYPE_CHECKING:
    from pathlib import Path

NOTE_FILE = "graph.json"


def write_note(place: Path, values: dict[str, Any]) -> None:
    """Write it into the folder."""
    text = json.dumps({"graph_format": GRAPH_FORMAT} | values, indent=2, sort_keys=True)
    (place / NOTE_FILE).write_text(text + "\n", encoding="utf-8")


def read_note(place: Path) -> dict[str, Any]:
    """What `ready.inspect` found, of a folder for a ready file.

    Raises:
        ModelFormatError: it cannot be read.
    """
    file = place / NOTE_FILE
    try:
        values = json.loads(file.read_bytes())
        return {name: values[name] for name in ("output", "hidden_size", "one_by_one", "fp32")}
    except (OSError, ValueError, KeyError, TypeError) as error:
        hint = f"delete {place}, it is made again"
        raise ModelFormatError(file, f"cannot be read: {error}", hint) from error
