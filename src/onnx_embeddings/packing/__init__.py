"""A model in, one file that holds all of it out: for machines without a network.

Two kinds: a wheel, which `pip install` brings from any index or disk and every engine then finds by
the model's name, and a plain tar archive. Both hold the same folder, which `load` takes too.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from onnx_embeddings import catalog, inventory, shared
from onnx_embeddings.errors import OnnxEmbeddingsError, SettingError, StoreError
from onnx_embeddings.packing.archive import unpack, write_archive
from onnx_embeddings.packing.folder import write_folder
from onnx_embeddings.packing.wheel import write_wheel
from onnx_embeddings.request import ModelRequest

if TYPE_CHECKING:
    from onnx_embeddings.config import EngineConfig
    from onnx_embeddings.manifest import Manifest

__all__ = ["pack", "unpack"]


def pack(  # noqa: PLR0913  all that a package says of itself
    request: ModelRequest,
    config: EngineConfig,
    out: Path,
    *,
    name: str | None = None,
    licence: str | None = None,
    version: str = "1",
    archive: bool = False,
) -> tuple[Path, Manifest]:
    """Pack a model, which is fetched and compiled where it is not here yet.

    Args:
        request: the model, and the precision that it is packed in.
        config: resolved.
        out: the folder that the file goes into; made where it is not there.
        name: what the model is to be found by; its own name by default, needed for a folder.
        licence: of the model; needed where the catalog does not know it.
        version: of the wheel.
        archive: write a tar archive instead of a wheel.

    Returns:
        The file, and what it says of itself.

    Raises:
        SettingError: a name or a licence is missing, or one of them can't be used.
        StoreError: the file can't be written.
        ModelError: as `load`.
    """
    known = catalog.find(request.model)
    name = name or (known.name if known is not None else request.model)
    if ModelRequest(model=name).folder is not None:
        raise SettingError("name", name, "a folder is packed under a name", "--name org/model")
    licence = licence or (known.licence if known is not None else None)
    if licence is None or not licence.strip() or not licence.isprintable():
        hint = "read the model's card, then say it: --licence Apache-2.0"
        raise SettingError("licence", licence, "must be said: it travels with the model", hint)
    model = shared.prepare(request, config)
    try:
        out.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=out, prefix=".packing-") as temporary:
            said = write_folder(
                model,
                Path(temporary),
                name=name,
                licence=licence,
                revisions=_revisions(request, model.files.path),
            )
            if archive:
                return write_archive(Path(temporary), out), said
            return write_wheel(Path(temporary), out, version=version), said
    except OSError as error:
        if isinstance(error, OnnxEmbeddingsError):
            raise
        raise StoreError(out, str(error), "name another folder: -o") from error


def _revisions(request: ModelRequest, path: Path) -> tuple[str, ...]:
    """What of the hub a model may be asked for by: its commit, the name that it was asked by."""
    if request.folder is not None:
        return ()
    known = catalog.find(request.model)
    if known is not None and known.files and request.revision in {None, known.revision}:
        commit = known.revision  # whatever commit it came from, it has this one's content
    else:
        commit = inventory.revision_of(path)
    names = (commit, request.revision or "main")
    return tuple(dict.fromkeys(name for name in names if name is not None))
