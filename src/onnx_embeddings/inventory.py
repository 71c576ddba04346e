"""A model's name in, its copies on this disk out: what they take, whether they are whole, away.

A model may lie here several times: as it was fetched (in the store, or in the Hugging Face cache
that other tools share), compiled, and in an installed package.
"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from onnx_embeddings import catalog, manifest
from onnx_embeddings.compiler import compiled
from onnx_embeddings.compiler.note import NOTE_FILE
from onnx_embeddings.documents import read_object
from onnx_embeddings.errors import ModelFormatError, SettingError, VerificationError
from onnx_embeddings.request import ModelRequest
from onnx_embeddings.sources import hub_cache, installed
from onnx_embeddings.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from onnx_embeddings.config import EngineConfig

logger = logging.getLogger(__name__)

_NAME = re.compile(r"\w[\w.-]*(/\w[\w.-]*)?", re.ASCII)

Kind = Literal["store", "hub cache", "package", "compiled", "folder"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """A copy of a model.

    Attributes:
        kind: where it is kept; ``folder`` is one that was given.
        path: its folder.
        size: bytes that it takes; of the hub cache all that the repository takes there.
        precision: of a compiled or packed one.
    """

    kind: Kind
    path: Path
    size: int
    precision: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What was found out of a copy: nothing wrong, or what.

    Attributes:
        copy: which.
        files: how many of its files were read.
        problem: what is wrong; None where nothing is.
        is_damaged: whether that is its content; what could not be read now may be right.
    """

    copy: Copy
    files: int
    problem: str | None
    is_damaged: bool


def copies(model: str, config: EngineConfig) -> list[Copy]:
    """The copies of a model, by its name or alias.

    Args:
        model: the name, or the folder of a packed model, which is its only copy.
        config: resolved: it says where the store is.

    Raises:
        SettingError: it is another folder.
    """
    folder = ModelRequest(model=model).folder
    if folder is not None:
        return [_given(folder)]
    store = Store(config.home_path)
    known = catalog.find(model)
    name = model if known is None else known.name
    found = [Copy(kind="store", path=p, size=_size(p)) for p in _in_store(store, name)]
    repository = hub_cache.repository(name)
    if repository.is_dir():
        found.append(Copy(kind="hub cache", path=repository, size=_size(repository)))
    for _, folder in installed.folders():
        try:
            said = manifest.read(folder)
        except ModelFormatError as error:
            logger.warning("%s", error)
            continue
        if said.model == name:
            size = _size(folder)
            found.append(Copy(kind="package", path=folder, size=size, precision=said.precision))
    names = {name, *(known.aliases if known is not None else ())}
    found += [copy for copy, whose in _compiled(store) if whose in names]
    return found


def names_here(config: EngineConfig) -> list[str]:
    """The models of which this engine has made or fetched something, by name.

    What other tools have put into the Hugging Face cache is not among them.
    """
    store = Store(config.home_path)
    found = {str(whose) for _, whose in _compiled(store) if isinstance(whose, str)}
    if store.models.is_dir():
        found |= {place.name.replace("--", "/", 1) for place in store.models.iterdir()}
    known = (catalog.find(name) for name in found)
    names = {
        name if model is None else model.name for name, model in zip(found, known, strict=True)
    }
    return sorted((name for name in names if _NAME.fullmatch(name)), key=str.lower)


def verify(copy: Copy, model: str, config: EngineConfig) -> Finding:
    """Read all files of a copy and compare them with what they must be.

    Args:
        copy: which.
        model: its name.
        config: resolved.
    """
    store = Store(config.home_path)
    try:
        expected = _expected(copy, model, store)
    except (ModelFormatError, OSError) as error:
        return Finding(copy=copy, files=0, problem=str(error), is_damaged=not _is_unreadable(error))
    problems = []
    is_damaged = False
    for file, digest in expected.items():
        try:
            found = hub_cache.digest(file, digest, store, anew=True)
        except ModelFormatError as error:
            problems.append(str(error))
            is_damaged |= not _is_unreadable(error)
            continue
        if found != digest:
            problems.append(str(VerificationError(file, digest, found)))
            is_damaged = True
    problem = "\n".join(problems) or None
    return Finding(copy=copy, files=len(expected), problem=problem, is_damaged=is_damaged)


def _is_unreadable(error: Exception) -> bool:
    """Whether it is the system that would not read, and not the file that is gone or wrong."""
    reason = error.__cause__ if isinstance(error, ModelFormatError) else error
    return isinstance(reason, OSError) and not isinstance(reason, FileNotFoundError)


def remove(copy: Copy, config: EngineConfig) -> None:
    """Delete a copy. An engine that runs it goes on with what it has loaded.

    Raises:
        StoreError: it can't be deleted.
        SettingError: it is a package, which pip has to remove.
    """
    if copy.kind == "package":
        hint = f"run: pip uninstall {package_of(copy)}"
        raise SettingError("model", copy.path, "is in a package", hint)
    Store(config.home_path).remove(copy.path)


def package_of(copy: Copy) -> str:
    """The name of the package that a copy is in."""
    return copy.path.parent.name.replace("_", "-")


def _expected(copy: Copy, model: str, store: Store) -> dict[Path, str]:
    """The digest that each file must have."""
    if copy.kind == "compiled":
        note = read_object(copy.path / NOTE_FILE, required=True)
        if note.get("layout") != "packed":
            return {}
        files = compiled.files(note, copy.path)
        return {copy.path / name: content.sha256 for name, content in files.items()}
    if copy.kind in {"package", "folder"}:
        said = manifest.read(copy.path)
        return {copy.path / name: content.sha256 for name, content in said.files.items()}
    if copy.kind == "hub cache":
        return hub_cache.expected(copy.path, store)
    arrived = store.arrived(copy.path)
    if arrived:
        return {copy.path / name: digest for name, digest in arrived.items()}
    known = catalog.find(model)
    listed = () if known is None else known.files
    return {copy.path / f.path: f.sha256 for f in listed if not f.optional}


def _given(folder: Path) -> Copy:
    if not (folder / manifest.FILE).is_file():
        hint = "give the name of a model, or the folder of a packed one"
        raise SettingError("model", str(folder), "nothing says what its files must hold", hint)
    said = manifest.read(folder)
    return Copy(kind="folder", path=folder, size=_size(folder), precision=said.precision)


def _in_store(store: Store, name: str) -> list[Path]:
    place = store.models / name.replace("/", "--")
    # A name with a dot in front is of somebody who writes, or who deletes.
    folders = place.iterdir() if place.is_dir() else ()
    return sorted(path for path in folders if path.is_dir() and not path.name.startswith("."))


def _compiled(store: Store) -> Iterator[tuple[Copy, object]]:
    """Each compiled folder, and the model that it was made from."""
    for place in sorted(store.compiled.iterdir()) if store.compiled.is_dir() else ():
        if place.name.startswith("."):
            continue
        try:
            note = read_object(place / NOTE_FILE)
        except (ModelFormatError, OSError) as error:
            logger.warning("%s", error)
            continue
        precision = note.get("precision")
        copy = Copy(
            kind="compiled",
            path=place,
            size=_size(place),
            precision=precision if isinstance(precision, str) else None,
        )
        yield copy, note.get("model")


def _size(folder: Path) -> int:
    # Links lead to files that are counted where they lie.
    files = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    return sum(path.stat().st_size for path in files)


def revision_of(path: Path) -> str | None:
    """The commit of the hub that a folder holds, by its name in the store or in the hub cache."""
    return hub_cache.commit_in(path.name)
