"""The folder of a packed model in, a wheel out.

Source: the binary distribution format, packaging.python.org.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import re
import shutil
import zipfile
from typing import TYPE_CHECKING

from onnx_embeddings import manifest
from onnx_embeddings.errors import SettingError
from onnx_embeddings.packing.files import name_of, whole
from onnx_embeddings.packing.folder import LICENCES

if TYPE_CHECKING:
    from pathlib import Path

    from onnx_embeddings.manifest import Manifest

    Row = tuple[str, str, str]
    """Of a wheel's RECORD: a member, its digest, its size."""

_LARGE_BYTES = 2**20  # numbers, which hardly get smaller
_BLOCK_BYTES = 2**20
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the first that a zip file can have: same content, same file


def write_wheel(folder: Path, out: Path, *, version: str = "1") -> Path:
    """A wheel of a folder that `write_folder` wrote.

    Args:
        folder: of the packed model.
        out: the folder that the wheel goes into; made where it is not there.
        version: of the package.

    Returns:
        The wheel.

    Raises:
        SettingError: the version is none.
        StoreError: it can't be written.
    """
    if not re.fullmatch(r"\d+(\.\d+)*", version):
        raise SettingError("version", version, "must be numbers with dots, such as 1.0")
    said = manifest.read(folder)
    name = f"onnx-embeddings-model-{name_of(said)}"
    package = name.replace("-", "_")
    info = f"{package}-{version}.dist-info"
    licences = [file for file in said.files if LICENCES.fullmatch(file)]
    texts = {
        f"{package}/__init__.py": f'"""{said.model}, {said.precision}: data, no code."""\n',
        f"{info}/METADATA": _metadata(name, version, said, licences),
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: onnx-embeddings\n"
        "Root-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": f"[{manifest.GROUP}]\n{name} = {package}\n",
    }
    texts |= {f"{info}/licenses/{n}": (folder / n).read_text("utf-8", "replace") for n in licences}
    files = {f"{package}/{manifest.FOLDER}/{n}": folder / n for n in (*said.files, manifest.FILE)}

    def write(target: Path) -> None:
        with zipfile.ZipFile(target, "w") as archive:
            rows = [_put_file(archive, member, file) for member, file in files.items()]
            rows += [_put(archive, member, text.encode()) for member, text in texts.items()]
            record = io.StringIO()
            rows.append((f"{info}/RECORD", "", ""))
            csv.writer(record, lineterminator="\n").writerows(rows)
            _put(archive, f"{info}/RECORD", record.getvalue().encode())

    return whole(out, f"{package}-{version}-py3-none-any.whl", write)


def _metadata(name: str, version: str, said: Manifest, licences: list[str]) -> str:
    lines = [
        "Metadata-Version: 2.4",
        f"Name: {name}",
        f"Version: {version}",
        f"Summary: {said.model} in {said.precision} for onnx-embeddings",
        f"License: {said.licence}",
        *(f"License-File: {licence}" for licence in licences),
        "Requires-Python: >=3.11",
        f"Requires-Dist: onnx-embeddings>={said.packed_with}",
        "",
        f"The model {said.model}, licensed as: {said.licence}.",
        "It is found by its name: `onnx_embeddings.load` and all adapters take it from here.",
    ]
    return "\n".join(lines) + "\n"


def _put_file(archive: zipfile.ZipFile, member: str, file: Path) -> Row:
    size = file.stat().st_size
    if size < _LARGE_BYTES:
        return _put(archive, member, file.read_bytes())
    entry = _entry(member, zipfile.ZIP_STORED)
    entry.file_size = size
    with file.open("rb") as stream, archive.open(entry, "w") as output:
        shutil.copyfileobj(stream, output, _BLOCK_BYTES)
    return _row(member, bytes.fromhex(manifest.content_of(file).sha256), size)


def _put(archive: zipfile.ZipFile, member: str, content: bytes) -> Row:
    archive.writestr(_entry(member, zipfile.ZIP_DEFLATED), content)
    return _row(member, hashlib.sha256(content).digest(), len(content))


def _entry(member: str, compression: int) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(member, _EPOCH)
    entry.compress_type = compression
    entry.external_attr = 0o644 << 16
    return entry


def _row(member: str, digest: bytes, size: int) -> Row:
    """Of a wheel's RECORD."""
    text = base64.urlsafe_b64encode(digest).decode().rstrip("=")
    return member, f"sha256={text}", str(size)
