"""Where the numbers of a model are: weights to compile, a compiled graph, an ONNX file to run."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from onnx_embeddings import processor
from onnx_embeddings.documents import as_object
from onnx_embeddings.errors import ModelFormatError
from onnx_embeddings.families import is_compiled, not_compiled
from onnx_embeddings.layout.files import inside
from onnx_embeddings.settings import AUTO_VARIANT

if TYPE_CHECKING:
    from onnx_embeddings.layout.files import Files
    from onnx_embeddings.processor import Kind

_READY = ("onnx/model.onnx", "model.onnx")
_READY_FOLDERS = ("", "onnx/")
# By what sentence-transformers, transformers.js and FastEmbed call their files, the best first.
# Left out: fp16 and O4 (for GPUs), 4 bits (larger errors than this engine's int8).
_QUANTIZED: dict[Kind, tuple[str, ...]] = {
    "arm64": ("model_qint8_arm64",),
    "vnni": ("model_qint8_avx512_vnni", "model_qint8_avx512", "model_quint8_avx2"),
    "other": ("model_quint8_avx2",),
}
_ANYWHERE = (
    *("model_quantized", "model_int8", "model_uint8"),
    *("model_optimized", "model_O3", "model_O2", "model_O1", "model"),
)

COMPILED = "onnx-embeddings/"
"""The folder of a packed model that holds its compiled graph, in the place of weights."""

COMPILED_FILES = tuple(f"{COMPILED}{n}" for n in ("graph.json", "weights.bin", "graph.onnx"))


@dataclass(slots=True, kw_only=True)
class Numbers:
    """The files with the numbers; see `Layout` for its fields."""

    index: str | None = None
    weights: tuple[str, ...] = ()
    compiled: tuple[str, ...] = ()
    ready: str | None = None
    absent: tuple[str, ...] = ()


def find_numbers(files: Files, root: str, variant: str | None, *, packed: bool) -> Numbers:
    """Where the numbers are: in weights to compile, or in an ONNX file to run."""
    if variant is not None:
        return Numbers(ready=_best(files, root) if variant == AUTO_VARIANT else variant)
    if packed and files.has(COMPILED_FILES[0]):
        return Numbers(compiled=COMPILED_FILES)
    index, single = f"{root}model.safetensors.index.json", f"{root}model.safetensors"
    has_weights = files.has(index) or files.has(single)
    config_file = f"{root}config.json"
    has_config = files.has(config_file)
    config = as_object(files.json(config_file), files.place(config_file)) if has_config else {}
    compiled = is_compiled(config)
    if has_weights and compiled:
        if files.has(index):
            return Numbers(index=index, weights=_shards(files, index, root))
        return Numbers(weights=(single,))
    ready, earlier = _ready(files, root)
    if ready is not None:
        return Numbers(ready=ready, absent=(*earlier, *((index, single) if compiled else ())))
    if has_weights and has_config:
        raise ModelFormatError(files.place(config_file), *not_compiled(config))
    return Numbers(weights=(single,))


def _shards(files: Files, index: str, root: str) -> tuple[str, ...]:
    file = files.place(index)
    shards = as_object(files.json(index), file).get("weight_map")
    if not isinstance(shards, dict) or not shards:
        raise ModelFormatError(file, "names no files")
    names = {inside(shard, file) for shard in shards.values()}
    return tuple(sorted(f"{root}{name}" for name in names))


def _ready(files: Files, root: str) -> tuple[str | None, tuple[str, ...]]:
    """The ONNX file at the usual place, else the only one; and the places looked at before."""
    places = tuple(dict.fromkeys(f"{folder}{name}" for folder in ("", root) for name in _READY))
    for place in places:
        if files.has(place):
            return place, places[: places.index(place)]
    others = sorted(
        f"{folder}{name}"
        for folder in _READY_FOLDERS
        for name in files.names(folder)
        if name.endswith(".onnx")
    )
    if len(others) > 1:
        found = f"has several ONNX files: {', '.join(others)}"
        raise ModelFormatError(files.place(""), found, "say which: variant=…")
    return (others[0] if others else None), places


def _best(files: Files, root: str) -> str:
    """The ready ONNX file that is best for this processor, by its name."""
    folders = tuple(dict.fromkeys(("onnx/", "", f"{root}onnx/", root)))
    for stem in (*_QUANTIZED[processor.kind()], *_ANYWHERE):
        for folder in folders:
            if files.has(f"{folder}{stem}.onnx"):
                return f"{folder}{stem}.onnx"
    raise ModelFormatError(
        files.place(""),
        "has no ONNX file of a usual name, so there is none to take for variant='auto'",
        "leave variant out, or name a file: variant='onnx/…'",
    )


def data_beside(files: Files, ready: str) -> tuple[str, ...]:
    """The external data files of an ONNX file: named after it, in the same folder."""
    folder, slash, name = ready.rpartition("/")
    folder += slash
    usual = (f"{name}_data", f"{name}.data", f"{name.removesuffix('.onnx')}.data")
    # The last is what PyTorch's exporter calls large constants.
    patterns = (*(f"{stem}*" for stem in usual), "Constant_*_attr__value")
    beside = {n for n in files.names(folder) if any(fnmatchcase(n, p) for p in patterns)}
    # Not everybody who has files can list them.
    beside |= {other for other in usual if files.has(f"{folder}{other}")}
    return tuple(sorted(f"{folder}{other}" for other in beside))
