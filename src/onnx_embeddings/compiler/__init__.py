"""A model folder in, one ONNX graph that is ready to run out; made once and kept in the store.

Weights of a known architecture are compiled into a packed graph of our own. Any other model runs
its own ONNX file, padded; of that only a note of what it is like is kept.
"""

from __future__ import annotations

import json
import logging
from itertools import count
from typing import TYPE_CHECKING, Any

from onnx_embeddings.arrays import Graph
from onnx_embeddings.digests import digest
from onnx_embeddings.errors import ModelFormatError, SettingError
from onnx_embeddings.spec import Precision

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from onnx_embeddings.folder import ModelFolder
    from onnx_embeddings.store import Store

logger = logging.getLogger(__name__)

GRAPH_FORMAT = 1
"""Rises with every change of what is written, so that an older graph is compiled again."""

_FP32_SCHEME = "fp32/1"
_GRAPH_FILE = "graph.onnx"
_WEIGHTS_FILE = "weights.bin"
_NOTE_FILE = "graph.json"
_LARGEST_SIZE = 2**20


def prepare(folder: ModelFolder, precision: str | None, store: Store) -> Graph:
    """The graph of a model in the precision asked for; from the store, or made now.

    Raises:
        ModelFormatError: the files are damaged, or of a kind that is not supported.
        SettingError: the model can't be had in this precision.
        StoreError: the store can't be written.
    """
    if folder.ready is not None:
        return _ready(folder, folder.ready, precision, store)
    return _compiled(folder, store)


def _compiled(folder: ModelFolder, store: Store) -> Graph:
    from onnx_embeddings.compiler.bert import OUTPUT, BertConfig

    config = BertConfig.read(folder.config, folder.weights[0].parent / "config.json")
    files = [store.sha256(file) for file in folder.weights]
    weights = digest([files, config.architecture()])

    def write(target: Path) -> None:
        from onnx_embeddings.compiler import bert
        from onnx_embeddings.compiler.graph import GraphWriter
        from onnx_embeddings.compiler.weights import Weights

        with Weights(folder.weights) as tensors, (target / _WEIGHTS_FILE).open("wb") as data:
            graph = GraphWriter(data, _WEIGHTS_FILE)
            bert.write(config, tensors, graph)
            graph.save(target / _GRAPH_FILE, OUTPUT, "float32", ["T", config.hidden_size])
        sizes = {name: (target / name).stat().st_size for name in (_GRAPH_FILE, _WEIGHTS_FILE)}
        _write_note(target, {"layout": "packed", "scheme": _FP32_SCHEME, "sizes": sizes})

    key = digest([GRAPH_FORMAT, weights, _FP32_SCHEME])[:16]
    place = _whole(store, f"{folder.name}-fp32-{key}", write)
    return Graph(
        path=place / _GRAPH_FILE,
        layout="packed",
        hidden_size=config.hidden_size,
        weights=weights,
        precision=Precision.FP32,
        scheme=_FP32_SCHEME,
        output=OUTPUT,
    )


def _ready(folder: ModelFolder, file: Path, precision: str | None, store: Store) -> Graph:
    digests = [store.sha256(part) for part in (file, *folder.ready_data)]
    weights = digest([digests, {"family": "onnx"}])

    def write(target: Path) -> None:
        from onnx_embeddings.compiler.ready import inspect

        found = inspect(file, folder.ready_data)
        _write_note(target, {"layout": "padded"} | found.to_dict())

    key = digest([GRAPH_FORMAT, weights])[:16]
    place = store.publish(store.compiled / f"{folder.name}-onnx-{key}", write)
    note = _read_note(place)
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


def _whole(store: Store, name: str, write: Callable[[Path], None]) -> Path:
    """The compiled folder of this name; a damaged one may be in use, so it gets a successor."""
    place = store.compiled / name
    for number in count(2):
        if not place.is_dir():
            logger.info("compiling %s", place)
            return store.publish(place, write)
        if _is_whole(place):
            return place
        damaged, place = place, store.compiled / f"{name}-{number}"
        if not place.is_dir():
            logger.warning("%s is damaged: the model is compiled again", damaged)
    raise AssertionError("count() ends")


def _is_whole(place: Path) -> bool:
    """Whether a compiled folder has all of its files, by their sizes."""
    try:
        sizes = json.loads((place / _NOTE_FILE).read_bytes())["sizes"]
        names = (_GRAPH_FILE, _WEIGHTS_FILE)
        return all((place / name).stat().st_size == sizes[name] for name in names)
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _write_note(place: Path, values: dict[str, Any]) -> None:
    text = json.dumps({"graph_format": GRAPH_FORMAT} | values, indent=2, sort_keys=True)
    (place / _NOTE_FILE).write_text(text + "\n", encoding="utf-8")


def _read_note(place: Path) -> dict[str, Any]:
    file = place / _NOTE_FILE
    try:
        values = json.loads(file.read_bytes())
        return {name: values[name] for name in ("output", "hidden_size", "one_by_one", "fp32")}
    except (OSError, ValueError, KeyError, TypeError) as error:
        hint = f"delete {place}, it is made again"
        raise ModelFormatError(file, f"cannot be read: {error}", hint) from error
