"""What a packed model says of itself: whose it is, and every file with its sha256."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from onnx_embeddings.documents import read_object
from onnx_embeddings.errors import ModelFormatError, VerificationError
from onnx_embeddings.layout import COMPILED, inside

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

FILE = f"{COMPILED}manifest.json"
"""Its place in the folder of a packed model."""

GRAPH_FORMAT = 4
"""Of compiled graphs: rises with every change of what is written, so that an older one is compiled
again, and a packed one says what it needs."""

GROUP = "onnx_embeddings.models"
"""The entry points of installed packages that hold a model."""

FOLDER = "model"
"""The folder of the model in such a package."""

_FORMAT = 1
_TEXTS = ("model", "licence", "precision", "packed_with")
_SHA256 = re.compile("[0-9a-f]{64}")
_AGAIN = "install or unpack the packed model again"
# Windows takes these for devices, whatever stands behind the dot.
_RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """What a file must hold: its size in bytes and its sha256 in hexadecimal."""

    size: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What a packed model says of itself.

    Attributes:
        model: the name that it is found by.
        revisions: what of the hub it may be asked for by: its commit, a branch or tag.
        licence: of the model.
        precision: what it computes in.
        variant: the ready ONNX file that was asked for and packed as it is, or None.
        graph_format: of the compiled graph; None without one.
        packed_with: the version of onnx-embeddings that made it.
        files: all others of its folder, by name.
    """

    model: str
    revisions: tuple[str, ...]
    licence: str
    precision: str
    variant: str | None
    graph_format: int | None
    packed_with: str
    files: dict[str, Content]

    def to_dict(self) -> dict[str, Any]:
        """All fields as JSON types."""
        return {"format": _FORMAT} | asdict(self) | {"revisions": list(self.revisions)}


def read(folder: Path) -> Manifest:
    """The manifest in the folder of a packed model.

    Raises:
        ModelFormatError: it is missing, damaged, or of a later version.
    """
    file = folder / FILE
    try:
        return from_dict(read_object(file, required=True), file)
    except OSError as error:
        raise ModelFormatError(file, f"cannot be read: {error}") from error


def write(said: Manifest, folder: Path) -> None:
    """Put it into the folder of a packed model.

    Raises:
        OSError: it can't be written.
    """
    file = folder / FILE
    file.parent.mkdir(exist_ok=True)
    text = json.dumps(said.to_dict(), indent=1, sort_keys=True)
    file.write_text(text + "\n", encoding="utf-8")


def from_dict(values: dict[str, Any], file: object) -> Manifest:
    """The manifest that `to_dict` came from.

    Args:
        values: of the JSON file.
        file: what an error calls it.

    Raises:
        ModelFormatError: it is damaged, or of a later version.
    """
    if values.get("format") != _FORMAT:
        hint = "a later version of onnx-embeddings may have packed it: upgrade"
        raise ModelFormatError(file, f"is of format {values.get('format')!r}", hint)
    for name in _TEXTS:
        if not isinstance(values.get(name), str):
            raise ModelFormatError(file, f"{name} is {values.get(name)!r}")
    variant, revisions = values.get("variant"), values.get("revisions")
    if not isinstance(variant, str | None) or (variant and inside(variant, file) != variant):
        raise ModelFormatError(file, f"variant is {variant!r}")
    if not isinstance(revisions, list) or not all(isinstance(r, str) for r in revisions):
        raise ModelFormatError(file, f"revisions is {revisions!r}")
    graph_format = values.get("graph_format")
    if type(graph_format) not in {int, type(None)}:
        raise ModelFormatError(file, f"graph_format is {graph_format!r}")
    files = values.get("files")
    if not isinstance(files, dict):
        raise ModelFormatError(file, "names no files")
    return Manifest(
        **{name: values[name] for name in _TEXTS},
        revisions=tuple(revisions),
        variant=variant,
        graph_format=graph_format,
        files={_name(name, file): content(value, file) for name, value in files.items()},
    )


def _name(name: str, file: object) -> str:
    parts = name.split("/")
    odd = any(
        not part.isprintable() or part.rstrip(". ") != part or _RESERVED.fullmatch(part)
        for part in parts
    )
    if not name or odd or inside(name, file) != name:
        raise ModelFormatError(file, f"names a file {name!r}")
    return name


def content(value: object, file: object) -> Content:
    """What `Content` as a JSON object says.

    Raises:
        ModelFormatError: it is none; names the file that it stands in.
    """
    values = value if isinstance(value, dict) else {}
    size, sha256 = values.get("size"), values.get("sha256")
    if type(size) is not int or size < 0 or not _SHA256.fullmatch(str(sha256)):
        raise ModelFormatError(file, f"says of a file {value!r}")
    return Content(size=size, sha256=str(sha256))


def content_of(path: Path) -> Content:
    """What a file holds.

    Raises:
        OSError: it can't be read.
    """
    with path.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    return Content(size=path.stat().st_size, sha256=digest)


def check(folder: Path, files: Mapping[str, Content], sha256: Callable[[Path], str]) -> None:
    """Compare the files in a folder with what they must hold.

    Args:
        folder: of a packed model, or of a compiled graph.
        files: of the manifest, for example.
        sha256: of a file; it may remember.

    Raises:
        ModelFormatError: a file is missing or has another size.
        VerificationError: a file has another content.
    """
    for name, must_be in files.items():
        path = folder / name
        if not path.is_file():
            raise ModelFormatError(path, "is missing", _AGAIN)
        size = path.stat().st_size
        if size != must_be.size:
            raise ModelFormatError(path, f"has {size} bytes, not {must_be.size}", _AGAIN)
        found = sha256(path)
        if found != must_be.sha256:
            raise VerificationError(path, must_be.sha256, found, _AGAIN)
