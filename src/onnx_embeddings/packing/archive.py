"""The folder of a packed model in, a tar archive out; a wheel or an archive in, the folder out."""

from __future__ import annotations

import io
import json
import lzma
import secrets
import shutil
import tarfile
import zipfile
import zlib
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING

from onnx_embeddings import manifest
from onnx_embeddings.errors import ModelFormatError, StoreError, VerificationError
from onnx_embeddings.packing.files import name_of, whole

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from onnx_embeddings.manifest import Content, Manifest

    Members = Mapping[str, Callable[[], IO[bytes]]]
    """The files of an archive, by name."""

# RuntimeError: zipfile's word for an encrypted one.
_DAMAGED = (
    *(zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError),
    *(EOFError, NotImplementedError, RuntimeError),
)
_BLOCK_BYTES = 2**20
_MOST_MANIFEST_BYTES = 2**20


def write_archive(folder: Path, out: Path) -> Path:
    """A tar archive of a folder that `write_folder` wrote.

    Raises:
        StoreError: it can't be written.
    """
    said = manifest.read(folder)
    name = name_of(said)

    def write(target: Path) -> None:
        with tarfile.open(target, "w") as archive:
            for member in (*said.files, manifest.FILE):
                entry = tarfile.TarInfo(f"{name}/{member}")
                entry.size = (folder / member).stat().st_size
                entry.mode = 0o644
                with (folder / member).open("rb") as stream:
                    archive.addfile(entry, stream)

    return whole(out, f"{name}.tar", write)


def unpack(file: Path, target: Path) -> Manifest:
    """The folder of a packed model, out of its wheel or archive.

    Only what the manifest names is taken, and only with the content that it says.

    Args:
        file: the wheel or the tar archive.
        target: the folder to make; it must not be there yet.

    Raises:
        ModelFormatError: the file is damaged, or holds no packed model.
        VerificationError: a file in it has another content than the manifest says.
        StoreError: the folder is there already, or can't be written.
    """
    if target.exists():
        raise StoreError(target, "is there already", "name another folder, or remove it")
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    try:
        with _opened(file) as members:
            said, prefix = _manifest_in(members, file)
            temporary.mkdir(parents=True)
            needed = sum(content.size for content in said.files.values())
            free = shutil.disk_usage(temporary).free
            if needed > free:
                raise StoreError(target, f"{needed} bytes are needed, {free} are free")
            for name, content in said.files.items():
                _take(members, f"{prefix}{name}", temporary / name, content)
        manifest.write(said, temporary)
        temporary.rename(target)
    except OSError as error:
        if isinstance(error, ModelFormatError | VerificationError | StoreError):
            raise
        raise StoreError(target, str(error)) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return said


def _take(members: Members, member: str, target: Path, content: Content) -> None:
    if member not in members:
        raise ModelFormatError(member, "is missing in the archive")
    target.parent.mkdir(parents=True, exist_ok=True)
    written = 0
    with members[member]() as stream, target.open("xb") as output:
        while block := stream.read(_BLOCK_BYTES):
            written += len(block)
            if written > content.size:
                raise ModelFormatError(member, f"is larger than the {content.size} bytes it has")
            output.write(block)
    found = manifest.content_of(target)
    if found.sha256 != content.sha256:
        raise VerificationError(member, content.sha256, found.sha256, "get the file again")


def _manifest_in(members: Members, file: Path) -> tuple[Manifest, str]:
    """The manifest, and what stands before the names of its files."""
    found = [name for name in members if name.endswith(f"/{manifest.FILE}")]
    if len(found) != 1:
        raise ModelFormatError(file, "holds no packed model", "`onnx-embeddings pack` makes them")
    with members[found[0]]() as stream:
        text = stream.read(_MOST_MANIFEST_BYTES)
    try:
        values = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ModelFormatError(found[0], f"is not valid JSON: {error}") from error
    values = values if isinstance(values, dict) else {}
    return manifest.from_dict(values, found[0]), found[0].removesuffix(manifest.FILE)


@contextmanager
def _opened(file: Path) -> Iterator[Members]:
    """The members of a wheel or an archive: plain files only, by name."""
    try:
        if zipfile.is_zipfile(file):
            with zipfile.ZipFile(file) as archive:
                yield {name: _zip_member(archive, name) for name in archive.namelist()}
        else:
            with tarfile.open(file) as tar:
                yield {m.name: _tar_member(tar, m) for m in tar.getmembers() if m.isreg()}
    except _DAMAGED as error:
        raise ModelFormatError(file, f"is damaged: {error}", "get the file again") from error


def _zip_member(archive: zipfile.ZipFile, name: str) -> Callable[[], IO[bytes]]:
    return lambda: archive.open(name)


def _tar_member(archive: tarfile.TarFile, member: tarfile.TarInfo) -> Callable[[], IO[bytes]]:
    return lambda: archive.extractfile(member) or io.BytesIO()
