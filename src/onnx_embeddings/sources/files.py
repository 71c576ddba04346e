"""What a source is asked for; and the names of a model's files in, those an engine needs out.

A repository holds the same weights in many formats; fetching all of them costs gigabytes. The
choice here is the one that `folder.read` makes afterwards.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from onnx_embeddings.errors import ModelFormatError
from onnx_embeddings.families import is_compiled, not_compiled

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from onnx_embeddings.catalog import CatalogModel

_SENTENCE_CONFIG = re.compile(r"sentence_[\w-]+_config\.json")
_MODULES = frozenset({"Transformer", "Pooling", "Normalize"})
_READY = ("onnx/model.onnx", "model.onnx")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a source is asked for.

    Attributes:
        name: the model's name on the hub.
        revision: branch, tag or commit of the hub; None is the main branch.
        variant: the ready ONNX file asked for, None for the usual choice.
        known: the catalog's entry where this very revision is asked for: then every file must
            have the catalog's content.
    """

    name: str
    revision: str | None = None
    variant: str | None = None
    known: CatalogModel | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Which files of a model an engine needs.

    Attributes:
        files: their names, the weights last: whoever has those has the others.
        absent: names that the choice relies on not being there; a folder that holds only a part
            of a repository proves nothing by not having them.
    """

    files: tuple[str, ...]
    absent: tuple[str, ...]


def needed(
    names: Collection[str], read: Callable[[str], Any], *, variant: str | None = None
) -> Choice:
    """The files that an engine needs, whether `names` has them or not.

    Args:
        names: what there is, with forward slashes.
        read: gives the JSON content of one of `names`.
        variant: the ready ONNX file asked for; None chooses the weights where they can be
            compiled, else a ready ONNX file.

    Raises:
        ModelFormatError: the files are of no kind that an engine can use, or leave a choice open.
    """
    absent = [] if "modules.json" in names else ["modules.json"]
    modules = [] if absent else _modules(read("modules.json"))
    root = next((path for kind, path in modules if kind == "Transformer"), "")
    config = f"{root}config.json"
    values = read(config) if config in names else {}
    values = values if isinstance(values, dict) else {}
    weights, without = _weights(names, read, root, values, variant)
    if config not in names and weights[-1].endswith(".onnx"):
        absent.append(config)  # a ready file can do without
    else:
        weights.insert(0, config)
    files = [
        *_of_modules(names, modules, root),
        *_configs(names, root),
        _tokenizer(names, root),
        *weights,
    ]
    return Choice(files=tuple(dict.fromkeys(files)), absent=(*absent, *without))


def _of_modules(names: Collection[str], modules: list[tuple[str, str]], root: str) -> Iterator[str]:
    for kind, path in modules:
        if kind == "Transformer" or path == root:
            continue
        # Normalize has nothing to say, so it has no folder in most models.
        if kind != "Normalize" or f"{path}config.json" in names:
            yield f"{path}config.json"
        if f"{path}model.safetensors" in names:
            yield f"{path}model.safetensors"


def _modules(content: Any) -> list[tuple[str, str]]:
    """(kind, folder with a slash at its end, or nothing for the root) of each module."""
    if not isinstance(content, list) or not all(isinstance(entry, dict) for entry in content):
        raise ModelFormatError("modules.json", "must hold a JSON list of objects")
    modules = []
    for entry in content:
        path = str(entry.get("path", ""))
        _check_inside(path)
        path = "/".join(part for part in path.split("/") if part not in {"", "."})
        kind = str(entry.get("type", "")).rpartition(".")[2]
        if kind not in _MODULES:
            # Better known now than after the download.
            raise ModelFormatError("modules.json", f"a module {kind!r} is not supported")
        modules.append((kind, f"{path}/" if path else ""))
    return modules


def _configs(names: Collection[str], root: str) -> list[str]:
    optional = sorted(
        name
        for name in names
        if name.startswith(root) and _SENTENCE_CONFIG.fullmatch(name.removeprefix(root))
    )
    optional += [f"{root}tokenizer_config.json", "config_sentence_transformers.json"]
    return [name for name in ("modules.json", *optional) if name in names]


def _tokenizer(names: Collection[str], root: str) -> str:
    places = [
        f"{folder}{name}" for name in ("tokenizer.json", "vocab.txt") for folder in (root, "")
    ]
    return next((place for place in places if place in names), places[0])


def _weights(
    names: Collection[str],
    read: Callable[[str], Any],
    root: str,
    config: dict[str, Any],
    variant: str | None,
) -> tuple[list[str], list[str]]:
    """The files with the numbers, and the names that this choice relies on not being there."""
    if variant is not None:
        return [*_data_beside(names, variant), variant], []
    index, single = f"{root}model.safetensors.index.json", f"{root}model.safetensors"
    has_weights = index in names or single in names
    if has_weights and is_compiled(config):
        return ([index, *_shards(read(index), root)] if index in names else [single]), []
    ready, earlier = _ready(names, root)
    if ready is not None:
        without = [*earlier, index, single] if is_compiled(config) else earlier
        return [*_data_beside(names, ready), ready], without
    if has_weights and config:
        raise ModelFormatError(f"{root}config.json", *not_compiled(config))
    return [single], []


def _shards(content: Any, root: str) -> list[str]:
    shards = content.get("weight_map") if isinstance(content, dict) else None
    if not isinstance(shards, dict) or not shards:
        raise ModelFormatError(f"{root}model.safetensors.index.json", "names no files")
    for shard in shards.values():
        _check_inside(str(shard))
    return sorted({f"{root}{shard}" for shard in shards.values()})


def _ready(names: Collection[str], root: str) -> tuple[str | None, list[str]]:
    """The ONNX file at the usual place, else the only one; and the places looked at before."""
    places = list(dict.fromkeys(f"{folder}{name}" for folder in ("", root) for name in _READY))
    for place in places:
        if place in names:
            return place, places[: places.index(place)]
    others = sorted(name for name in names if re.fullmatch(r"(onnx/)?[^/]+\.onnx", name))
    if len(others) > 1:
        raise ModelFormatError(
            others[0], f"is one of several ONNX files: {', '.join(others)}", "say which: variant=…"
        )
    return (others[0] if others else None), places


def _data_beside(names: Collection[str], ready: str) -> list[str]:
    """The external data files of an ONNX file: named after it, in the same folder."""
    folder, slash, name = ready.rpartition("/")
    stem = name.removesuffix(".onnx")
    patterns = (f"{name}_data*", f"{name}.data*", f"{stem}.data*")
    beside = [other for other in names if other.rpartition("/")[0] == folder]
    return sorted(
        other
        for other in beside
        if any(fnmatchcase(other.removeprefix(folder + slash), pattern) for pattern in patterns)
    )


def _check_inside(path: str) -> None:
    if ".." in path.replace("\\", "/").split("/") or path.startswith(("/", "\\")) or ":" in path:
        raise ModelFormatError(path, "leads out of the model's folder")
