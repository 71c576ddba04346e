"""The files of a model by name in, those that an engine needs out.

A source chooses by this what it fetches and `folder` what it reads, so both are the same files: a
repository holds the same weights in many formats, and all of them together take gigabytes.

The layout is sentence-transformers': ``modules.json`` names a Transformer, a Pooling and maybe a
Normalize module, each with a folder of its own (the Transformer's is usually the root; Normalize
has none). Names are hostile input: none may lead out of the model.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Protocol

from onnx_embeddings import processor
from onnx_embeddings.documents import as_list, as_object, read_json
from onnx_embeddings.errors import ModelFormatError
from onnx_embeddings.families import is_compiled, not_compiled

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from onnx_embeddings.processor import Kind

_MODULES = ("Transformer", "Pooling", "Normalize")
_SENTENCE_CONFIGS = tuple(
    f"sentence_{family}_config.json"
    for family in ("bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet")
)
_TOKENIZERS = ("tokenizer.json", "vocab.txt")
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

AUTO = "auto"
"""The variant that stands for the best ready ONNX file for this processor."""


class Files(Protocol):
    """The files of a model: in a folder, or as a hub lists them. Names have forward slashes."""

    def has(self, name: str) -> bool:
        """Whether it is there."""

    def names(self, folder: str) -> Collection[str]:
        """Of the files in a folder (``""`` or ``"onnx/"``), not of those in folders below it."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The files that an engine needs, whether they are there or not.

    Attributes:
        transformer: folder of the Transformer module with a slash at its end; ``""`` is the root.
        modules: modules.json, where it is there.
        pooling: config.json of the Pooling module, where modules.json is there.
        normalize: whether there is a Normalize module.
        config: config.json of the transformer; None where a ready file does without.
        optional: other JSON files, those of them that are there.
        tokenizer: tokenizer.json or vocab.txt.
        index: of the weights, where they are in shards.
        weights: the safetensors files to compile; none where a ready file is run.
        compiled: the graph of a packed model, its weights and its note.
        ready: the ONNX file that is run as it is.
        ready_data: the files with its numbers, where they are not inside.
        absent: names that this choice relies on not being there; a folder that holds a part of a
            repository proves nothing by not having them.
    """

    transformer: str
    modules: str | None
    pooling: str | None
    normalize: bool
    config: str | None
    optional: tuple[str, ...]
    tokenizer: str
    index: str | None
    weights: tuple[str, ...]
    compiled: tuple[str, ...]
    ready: str | None
    ready_data: tuple[str, ...]
    absent: tuple[str, ...]

    @property
    def files(self) -> tuple[str, ...]:
        """All of them, the numbers last: whoever has those has the others."""
        small = (self.modules, self.pooling, *self.optional, self.tokenizer, self.config)
        large = (self.index, *self.weights, *self.compiled, *self.ready_data, self.ready)
        return tuple(dict.fromkeys(name for name in (*small, *large) if name is not None))

    @property
    def sentence_configs(self) -> tuple[str, ...]:
        """Those of the optional files that set up the Transformer module."""
        return tuple(n for n in self.optional if n.rpartition("/")[2] in _SENTENCE_CONFIGS)


def choose(files: Files, *, variant: str | None = None) -> Layout:
    """The files that an engine needs.

    Args:
        files: what there is.
        variant: the ready ONNX file asked for, `AUTO` for the best for this processor; None takes
            the weights where they can be compiled, else a ready ONNX file.

    Raises:
        ModelFormatError: they are of no kind that an engine can use, or leave a choice open.
    """
    modules = _modules(files) if files.has("modules.json") else {}
    root = modules.get("Transformer", "")
    numbers = _numbers(files, root, variant)
    config: str | None = f"{root}config.json"
    absent = [*([] if modules else ["modules.json"]), *numbers.absent]
    if numbers.ready is not None and not files.has(f"{root}config.json"):
        config = None
        absent.append(f"{root}config.json")
    optional = [*(f"{root}{name}" for name in (*_SENTENCE_CONFIGS, "tokenizer_config.json"))]
    optional.append("config_sentence_transformers.json")
    tokenizers = [f"{folder}{name}" for name in _TOKENIZERS for folder in (root, "")]
    return Layout(
        transformer=root,
        modules="modules.json" if modules else None,
        pooling=f"{modules['Pooling']}config.json" if modules else None,
        normalize="Normalize" in modules,
        config=config,
        optional=tuple(name for name in optional if files.has(name)),
        tokenizer=next((name for name in tokenizers if files.has(name)), tokenizers[0]),
        index=numbers.index,
        weights=numbers.weights,
        compiled=numbers.compiled,
        ready=numbers.ready,
        ready_data=() if numbers.ready is None else _data_beside(files, numbers.ready),
        absent=tuple(absent),
    )


def _modules(files: Files) -> dict[str, str]:
    """The folder of each module, with a slash at its end, or nothing for the root."""
    file = files.place("modules.json")
    folders: dict[str, str] = {}
    for module in as_list(files.json("modules.json"), file):
        kind = str(module.get("type", "")).rpartition(".")[2]
        if kind not in _MODULES or kind in folders:
            # Better known now than after the download.
            raise ModelFormatError(file, f"a module {kind or 'without a type'} is not supported")
        if kind != "Normalize" and "Normalize" in folders:
            raise ModelFormatError(file, f"a module {kind} behind Normalize is not supported")
        path = inside(module.get("path", ""), file)
        folders[kind] = f"{path}/" if path else ""
    for kind in ("Transformer", "Pooling"):
        if kind not in folders:
            raise ModelFormatError(file, f"names no {kind} module")
    return folders


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


@dataclass(slots=True, kw_only=True)
class _Numbers:
    index: str | None = None
    weights: tuple[str, ...] = ()
    compiled: tuple[str, ...] = ()
    ready: str | None = None
    absent: tuple[str, ...] = ()


def _numbers(files: Files, root: str, variant: str | None) -> _Numbers:
    """Where the numbers are: in weights to compile, or in an ONNX file to run."""
    if variant is not None:
        return _Numbers(ready=_best(files, root) if variant == AUTO else variant)
    if files.has(COMPILED_FILES[0]):
        return _Numbers(compiled=COMPILED_FILES)
    index, single = f"{root}model.safetensors.index.json", f"{root}model.safetensors"
    has_weights = files.has(index) or files.has(single)
    config_file = f"{root}config.json"
    has_config = files.has(config_file)
    config = as_object(files.json(config_file), files.place(config_file)) if has_config else {}
    compiled = is_compiled(config)
    if has_weights and compiled:
        if files.has(index):
            return _Numbers(index=index, weights=_shards(files, index, root))
        return _Numbers(weights=(single,))
    ready, earlier = _ready(files, root)
    if ready is not None:
        return _Numbers(ready=ready, absent=(*earlier, *((index, single) if compiled else ())))
    if has_weights and has_config:
        raise ModelFormatError(files.place(config_file), *not_compiled(config))
    return _Numbers(weights=(single,))


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


def _data_beside(files: Files, ready: str) -> tuple[str, ...]:
    """The external data files of an ONNX file: named after it, in the same folder."""
    folder, slash, name = ready.rpartition("/")
    folder += slash
    patterns = (
        *(f"{name}_data*", f"{name}.data*", f"{name.removesuffix('.onnx')}.data*"),
        "Constant_*_attr__value",  # what PyTorch's exporter calls large constants
    )
    return tuple(
        sorted(
            f"{folder}{other}"
            for other in files.names(folder)
            if any(fnmatchcase(other, pattern) for pattern in patterns)
        )
    )
