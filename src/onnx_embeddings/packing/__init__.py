"""A model in, one file that holds all of it out: for machines without a network.

Two kinds: a wheel, which `pip install` brings from any index or disk and every engine then finds by
the model's name, and a plain tar archive. Both hold the same folder, which `load` takes too.
"""

from __future__ import annotations

from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from onnx_embeddings import catalog, inventory, shared
from onnx_embeddings.errors import SettingError
from onnx_embeddings.packing.archive import unpack, write_archive
from onnx_embeddings.packing.folder import write_folder
from onnx_embeddings.packing.wheel import write_wheel
from onnx_embeddings.request import ModelRequest

if TYPE_CHECKING:
    from pathlib import Path

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
    revision = None if request.folder is not None else inventory.revision_of(model.files.path)
    out.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=out, prefix=".packing-") as temporary:
        folder = out / temporary
        said = write_folder(model, folder, name=name, licence=licence, revision=revision)
        file = write_archive(folder, out) if archive else write_wheel(folder, out, version=version)
    return file, said
