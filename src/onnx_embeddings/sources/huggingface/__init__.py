"""A model's name in, a verified snapshot from the hub out. The only door to huggingface_hub.

Written for huggingface_hub 0.30 to 2.x, which stand on three different HTTP libraries.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from onnx_embeddings import layout
from onnx_embeddings.errors import ModelFormatError
from onnx_embeddings.sources.huggingface import reach
from onnx_embeddings.sources.huggingface.repository import Repository

if TYPE_CHECKING:
    from pathlib import Path

    from onnx_embeddings.sources.wanted import Wanted
    from onnx_embeddings.store import Store

logger = logging.getLogger(__name__)

PROBE_S = 2.0
"""Longest wait for a sign of life, in seconds, where a mirror can serve instead."""

LONG_PROBE_S = 10.0
"""The same where none can; huggingface_hub alone gives up after some 20."""


def fetch(wanted: Wanted, store: Store, *, patience_s: float = LONG_PROBE_S) -> Path:
    """The folder of a snapshot that holds all that an engine needs, fetched where it is not there.

    Files go to the Hugging Face cache, which other tools share.

    Args:
        wanted: the model.
        store: where content is remembered.
        patience_s: longest wait for a sign of life of the hub, in seconds.

    Raises:
        ModelNotFoundError: the hub refuses: no such model or revision, or no permission.
        ModelFormatError: the repository has no files that an engine can use.
        VerificationError: a file has, twice, not the content that the catalog knows.
        DownloadError: the hub cannot be reached, or fails.
        StoreError: the cache cannot be written.
    """
    hub = Repository(wanted, store)
    with hub.translated():
        reach.check_allowed(hub.host)
        reach.check_alive(hub.endpoint, hub.host, patience_s)
        hub.look_up()
        choice = layout.choose(hub, variant=wanted.variant)
        lacking = [name for name in choice.files if not hub.has(name)]
        if lacking:
            raise ModelFormatError(
                f"{hub.host}/{wanted.name}", f"the repository has no {', '.join(lacking)}"
            )
        logger.info("fetching %d files of %s from %s", len(choice.files), wanted.name, hub.host)
        for name in choice.absent:
            hub.note_absent(name)
        for name in choice.files:
            hub.file(name)
        hub.check_whole(choice.files)
        hub.settle(choice.files, wanted.known)
    return hub.folder
