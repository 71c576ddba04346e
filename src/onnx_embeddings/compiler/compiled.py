"""A folder with a compiled graph and its weights: what stands in it, and whether it is whole."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from onnx_embeddings.arrays import Graph
from onnx_embeddings.compiler.note import NOTE_FILE, write_note
from onnx_embeddings.digests import digest
from onnx_embeddings.documents import as_object, read_object
from onnx_embeddings.errors import ModelFormatError
from onnx_embeddings.manifest import GRAPH_FORMAT, check, content, content_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from onnx_embeddings.manifest import Content

SCHEMES: dict[str, str] = {"fp32": "fp32/1", "int8": "int8/1"}
"""What each precision means exactly."""

GRAPH_FILE = "graph.onnx"
WEIGHTS_FILE = "weights.bin"
_OF_THE_GRAPH = ("layout", "hidden_size", "weights", "precision", "scheme", "output", "long_text")
_TYPES: dict[str, type | tuple[type, ...]] = {
    "hidden_size": int,
    "long_text": (int, type(None)),
}


def write(place: Path, graph: Graph, model: str) -> None:
    """Say what is in a folder that has its graph and weights.

    Args:
        place: the folder.
        graph: what was written there.
        model: whose it is, for people.
    """
    said = {name: asdict(content_of(place / name)) for name in (GRAPH_FILE, WEIGHTS_FILE)}
    values = {name: getattr(graph, name) for name in _OF_THE_GRAPH}
    write_note(place, values | {"files": said, "model": model})


def read(place: Path, sha256: Callable[[Path], str]) -> Graph:
    """The graph in a folder.

    Args:
        place: the folder.
        sha256: of a file; it may remember.

    Raises:
        ModelFormatError: it is damaged, or of a graph format that this version does not run.
        VerificationError: a file has another content.
        OSError: it can't be read.
    """
    note = read_object(place / NOTE_FILE, required=True)
    found = note.get("graph_format")
    if found != GRAPH_FORMAT:
        raise ModelFormatError(
            place,
            f"was compiled in graph format {found}, this version runs {GRAPH_FORMAT}",
            "pack it again with this version of onnx-embeddings, or install the one that packed it",
        )
    values = {name: note.get(name) for name in _OF_THE_GRAPH}
    for name, value in values.items():
        if not isinstance(value, _TYPES.get(name, str)) or isinstance(value, bool):
            raise ModelFormatError(place / NOTE_FILE, f"{name} is {value!r}")
    if values["layout"] != "packed":
        raise ModelFormatError(place / NOTE_FILE, f"layout is {values['layout']!r}")
    if values["scheme"] != SCHEMES.get(str(values["precision"])):
        reason = f"{values['precision']} of scheme {values['scheme']!r} is not known"
        raise ModelFormatError(place / NOTE_FILE, reason)
    must_be = files(note, place)
    check(place, must_be, sha256)
    both = digest([must_be[name].sha256 for name in (GRAPH_FILE, WEIGHTS_FILE)])
    return Graph(path=place / GRAPH_FILE, content=both, **values)  # type: ignore[arg-type]  # checked above


def files(note: dict[str, Any], place: Path) -> dict[str, Content]:
    """What the files in a folder must hold.

    Args:
        note: of the folder.
        place: the folder.

    Raises:
        ModelFormatError: the note does not say.
    """
    said = as_object(note.get("files"), place / NOTE_FILE)
    return {name: content(said.get(name), place / NOTE_FILE) for name in (GRAPH_FILE, WEIGHTS_FILE)}
