"""A model folder in, one ONNX graph that is ready to run out; made once and kept in the store.

Weights of a known architecture are compiled into a packed graph of our own; a packed model brings
that graph. Any other model runs its own ONNX file, padded; of that only a note of what it is like
is kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnx_embeddings.arrays import Graph
from onnx_embeddings.compiler import compiled
from onnx_embeddings.compiler.checkpoint import Checkpoint
from onnx_embeddings.compiler.note import read_note, write_note
from onnx_embeddings.digests import digest
from onnx_embeddings.errors import ModelFormatError, SettingError
from onnx_embeddings.manifest import GRAPH_FORMAT
from onnx_embeddings.spec import Precision

if TYPE_CHECKING:
    from pathlib import Path

    from onnx_embeddings.compiler.checkpoint import Measure
    from onnx_embeddings.folder import ModelFolder
    from onnx_embeddings.store import Store

__all__ = ["GRAPH_FORMAT", "Checkpoint", "prepare"]

_LARGEST_SIZE = 2**20


def prepare(folder: ModelFolder, precision: str | None, store: Store, measure: Measure) -> Graph:
    """The graph of a model in the precision asked for; from the store, or made now.

    Args:
        folder: the model.
        precision: None is the one that the files are meant for.
        store: where the graph is kept.
        measure: asked how far the values of the model reach, for int8 of a model for which we
            ship no such ranges.

    Raises:
        ModelFormatError: the files are damaged, or of a kind that is not supported.
        SettingError: the model can't be had in this precision.
        StoreError: the store can't be written.
    """
    if folder.compiled is not None:
        return _compiled(folder.compiled, precision, store)
    if folder.ready is not None:
        return _ready(folder, folder.ready, precision, store)
    asked = Precision(precision or Precision.FP32)
    return Checkpoint(folder, store).graph(asked, store, measure)


def _compiled(place: Path, precision: str | None, store: Store) -> Graph:
    """The graph of a packed model; it came from somebody else, so it is looked at, once."""
    try:
        graph = compiled.read(place, store.sha256)
    except OSError as error:
        raise ModelFormatError(place, f"cannot be read: {error}") from error
    if precision not in {None, graph.precision}:
        raise SettingError("precision", precision, f"this model was packed as {graph.precision}")

    def inspected(file: Path) -> str:
        from onnx_embeddings.compiler.ready import check_data

        check_data(file, [place / compiled.WEIGHTS_FILE])
        return digest("inspected")

    store.digest(graph.path, "inspected/1", inspected)
    return graph


def _ready(folder: ModelFolder, file: Path, precision: str | None, store: Store) -> Graph:
    digests = [store.sha256(part) for part in (file, *folder.ready_data)]
    weights = digest([digests, {"family": "onnx"}])

    def write(target: Path) -> None:
        from onnx_embeddings.compiler.ready import inspect

        found = inspect(file, folder.ready_data)
        write_note(target, {"layout": "padded"} | found.to_dict())

    key = digest([GRAPH_FORMAT, weights])[:16]
    place = store.publish(store.compiled / f"{folder.name}-onnx-{key}", write)
    note = read_note(place)
    # What the graph itself says is in the note; what a config says can change.
    size = note["hidden_size"] or folder.config.get("hidden_size")
    if type(size) is not int or not 0 < size < _LARGEST_SIZE:
        raise ModelFormatError(
            file,
            f"output {note['output']!r} leaves its last axis open",
            "config.json must say its hidden_size",
        )
    own = Precision.FP32.value if note["fp32"] else "own"
    if precision not in {None, own}:
        raise SettingError(
            "precision", precision, f"{file.name} computes in its own format and can't be changed"
        )
    return Graph(
        path=file,
        layout="padded",
        hidden_size=size,
        weights=weights,
        precision=own,
        scheme=f"onnx/{digests[0]}",
        output=note["output"],
        one_by_one=note["one_by_one"],
        pad_id=folder.tokenizer.pad_id,
    )
