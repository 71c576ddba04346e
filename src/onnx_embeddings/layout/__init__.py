"""The files of a model by name in, those that an engine needs out.

A source chooses by this what it fetches and `folder` what it reads, so both are the same files: a
repository holds the same weights in many formats, and all of them together take gigabytes.

The layout is sentence-transformers': ``modules.json`` names a Transformer, a Pooling and maybe a
Normalize module, each with a folder of its own (the Transformer's is usually the root; Normalize
has none). Names are hostile input: none may lead out of the model.
"""

from __future__ import annotations

from dataclasses import dataclass

from onnx_embeddings.documents import as_list
from onnx_embeddings.errors import ModelFormatError
from onnx_embeddings.layout.files import Files, OnDisk, inside
from onnx_embeddings.layout.numbers import (
    COMPILED,
    COMPILED_FILES,
    data_beside,
    find_numbers,
)

__all__ = ["COMPILED", "COMPILED_FILES", "Files", "Layout", "OnDisk", "choose", "inside"]

_MODULES = ("Transformer", "Pooling", "Normalize")
_SENTENCE_CONFIGS = tuple(
    f"sentence_{family}_config.json"
    for family in ("bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet")
)
_LICENCES = ("LICENSE", "LICENSE.txt", "LICENSE.md", "LICENCE", "NOTICE", "NOTICE.txt")
_TOKENIZERS = ("tokenizer.json", "vocab.txt")


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The files that an engine needs, whether they are there or not.

    Attributes:
        transformer: folder of the Transformer module with a slash at its end; ``""`` is the root.
        modules: modules.json, where it is there.
        pooling: config.json of the Pooling module, where modules.json is there.
        normalize: whether there is a Normalize module.
        config: config.json of the transformer; None where a ready file does without.
        optional: other JSON files, and licences, those of them that are there.
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


def choose(files: Files, *, variant: str | None = None, packed: bool = False) -> Layout:
    """The files that an engine needs.

    Args:
        files: what there is.
        variant: the ready ONNX file asked for, or ``"auto"`` for the best for this processor; None
            takes the weights where they can be compiled, else a ready ONNX file.
        packed: whether a packed model's graph is taken. It says itself which model's vectors it
            computes, so it must come from where programs may come from, too.

    Raises:
        ModelFormatError: they are of no kind that an engine can use, or leave a choice open.
    """
    modules = _modules(files) if files.has("modules.json") else {}
    root = modules.get("Transformer", "")
    numbers = find_numbers(files, root, variant, packed=packed)
    config: str | None = f"{root}config.json"
    absent = [*([] if modules else ["modules.json"]), *numbers.absent]
    if numbers.ready is not None and not files.has(f"{root}config.json"):
        config = None
        absent.append(f"{root}config.json")
    optional = [*(f"{root}{name}" for name in (*_SENTENCE_CONFIGS, "tokenizer_config.json"))]
    optional += ["config_sentence_transformers.json", *_LICENCES]
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
        ready_data=() if numbers.ready is None else data_beside(files, numbers.ready),
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
