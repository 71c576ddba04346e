"""Where the numbers of a model are: safetensors files to compile, or an ONNX file to run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from onnx_embeddings.errors import ModelFormatError
from onnx_embeddings.families import is_compiled, not_compiled
from onnx_embeddings.folder.documents import inside, read_object

if TYPE_CHECKING:
    from pathlib import Path


def weights_or_ready(
    path: Path, transformer: Path, config: dict[str, Any], variant: str | None
) -> tuple[tuple[Path, ...], Path | None]:
    """The safetensors files to compile, or else the ONNX file to run as it is.

    Raises:
        ModelFormatError: there is neither, or it can't be told which.
    """
    if variant is not None:
        asked = inside(path, variant, path)
        if not asked.is_file():
            raise ModelFormatError(asked, "there is no such file")
        return (), asked
    weights = _safetensors(transformer)
    if weights and is_compiled(config):
        return weights, None
    ready = _ready(path, transformer)
    if ready is not None:
        return (), ready
    if weights and not config:
        raise ModelFormatError(transformer / "config.json", "is missing")
    if weights:
        raise ModelFormatError(transformer / "config.json", *not_compiled(config))
    pickled = any(path.glob("pytorch_model*.bin"))
    raise ModelFormatError(
        path,
        "has neither model.safetensors nor an ONNX file",
        "its .bin files are pickles, which are never read: save it as safetensors"
        if pickled
        else None,
    )


def _safetensors(folder: Path) -> tuple[Path, ...]:
    index = folder / "model.safetensors.index.json"
    if index.exists():
        shards = read_object(index).get("weight_map")
        if not isinstance(shards, dict) or not shards:
            raise ModelFormatError(index, "names no files")
        if not all(isinstance(name, str) for name in shards.values()):
            raise ModelFormatError(index, "names files by something else than texts")
        files = tuple(inside(folder, name, index) for name in sorted({*shards.values()}))
        for file in files:
            if not file.is_file():
                raise ModelFormatError(file, f"is missing; {index.name} names it")
        return files
    single = folder / "model.safetensors"
    return (single,) if single.is_file() else ()


def _ready(path: Path, transformer: Path) -> Path | None:
    """The usual place first; any other ONNX file only where it is the only one."""
    for folder in dict.fromkeys((path, transformer)):
        for name in ("onnx/model.onnx", "model.onnx"):
            if (folder / name).is_file():
                return folder / name
    others = sorted([*path.glob("*.onnx"), *path.glob("onnx/*.onnx")])
    if len(others) > 1:
        names = ", ".join(str(file.relative_to(path)) for file in others)
        raise ModelFormatError(path, f"has several ONNX files: {names}", "say which: variant=…")
    return others[0] if others else None


def data_beside(ready: Path) -> tuple[Path, ...]:
    """The external data files of an ONNX file: named after it, in the same folder."""
    names = (f"{ready.name}_data*", f"{ready.name}.data*", f"{ready.stem}.data*")
    return tuple(sorted({file for name in names for file in ready.parent.glob(name)}))
