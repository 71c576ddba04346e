"""A model's name in, its files from a mirror of the user's own out: a folder, or a web server.

Any server of plain files will do: what there is is found out by asking for it.
"""

from __future__ import annotations

import json
import logging
import shutil
import urllib.error
import urllib.request
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from onnx_embeddings import layout
from onnx_embeddings.errors import DownloadError, ModelFormatError, ModelNotFoundError
from onnx_embeddings.sources import hub_cache

if TYPE_CHECKING:
    from http.client import HTTPResponse

    from onnx_embeddings.sources.wanted import Wanted
    from onnx_embeddings.store import Store

logger = logging.getLogger(__name__)

_TIMEOUT_S = 10.0  # for each answer, and for each piece of a body
_BLOCK_BYTES = 2**20
_MOST_JSON_BYTES = 4 * 2**20
_ABSENT = frozenset({403, 404, 410})
_MAIN = "main"
_HINT = "check ONNX_EMBEDDINGS_MIRROR, or EngineConfig(mirror=…)"


def is_server(mirror: str) -> bool:
    """Whether a mirror is asked over the network."""
    return mirror.startswith(("http://", "https://"))


def place(wanted: Wanted, mirror: str, store: Store) -> Path:
    """Where the files of a model are, or go, that this mirror has."""
    revision = wanted.revision or _MAIN
    if is_server(mirror):
        which = sha256(f"{mirror} {revision} {wanted.variant}".encode()).hexdigest()[:12]
        return store.models / wanted.name.replace("/", "--") / f"mirror-{which}"
    if "{model}" in mirror:
        return Path(mirror.replace("{model}", wanted.name).replace("{revision}", revision))
    return Path(mirror) / wanted.name


def fetch(wanted: Wanted, mirror: str, store: Store) -> Path:
    """The folder of a model, fetched from a server.

    Args:
        wanted: the model.
        mirror: an address that may hold ``{model}``, ``{revision}`` and ``{file}``; what is missing
            of model and file is put behind it.
        store: puts it there whole, once for all threads and processes.

    Raises:
        ModelNotFoundError: the mirror does not have the model.
        ModelFormatError: it has no files that an engine can use.
        DownloadError: it can't be reached, or fails.
        StoreError: the store can't be written.
    """
    site = _Site(wanted, mirror)

    def write(folder: Path) -> None:
        found = layout.choose(site, variant=wanted.variant)
        lacking = [name for name in found.files if not site.has(name)]
        if lacking:
            place_asked = f"mirror {site.place('')}: it has no {', '.join(lacking)}"
            raise ModelNotFoundError(wanted.name, [place_asked], _HINT)
        logger.info("fetching %d files of %s from %s", len(found.files), wanted.name, mirror)
        for name in found.files:
            site.fetch(name, folder / name)
        if wanted.known is not None:
            why = hub_cache.differing(folder, wanted.known, wanted.variant, store)
            if why:
                raise ModelFormatError(site.place(""), why, "the mirror must have the same files")

    return store.publish(place(wanted, mirror, store), write)


class _Site:
    """The files of one model on a server, as `layout.Files`."""

    def __init__(self, wanted: Wanted, mirror: str) -> None:
        address = mirror if "{model}" in mirror else f"{mirror.rstrip('/')}/{{model}}"
        address = address if "{file}" in address else f"{address.rstrip('/')}/{{file}}"
        address = address.replace("{model}", quote(wanted.name))
        self._address = address.replace("{revision}", quote(wanted.revision or _MAIN, safe=""))
        self._there: dict[str, bool] = {}

    def place(self, name: str) -> str:
        return self._address.replace("{file}", quote(name))

    def has(self, name: str) -> bool:
        if name not in self._there:
            try:
                self._ask(name, "HEAD").close()
            except _AbsentError:
                self._there[name] = False
            else:
                self._there[name] = True
        return self._there[name]

    def names(self, folder: str) -> list[str]:
        """Those of the usual names that are there: a server of plain files does not list them."""
        usual = ("model.onnx_data", "model.onnx.data", "model.data")
        return [name for name in usual if self.has(f"{folder}{name}")]

    def json(self, name: str) -> Any:
        with self._ask(name, "GET") as answer:
            content = answer.read(_MOST_JSON_BYTES + 1)
        if len(content) > _MOST_JSON_BYTES:
            raise ModelFormatError(self.place(name), "is larger than 4 MiB")
        try:
            return json.loads(content)
        except (ValueError, RecursionError) as error:
            raise ModelFormatError(self.place(name), f"is not valid JSON: {error}") from error

    def fetch(self, name: str, target: Path) -> None:
        """The file, whole."""
        target.parent.mkdir(parents=True, exist_ok=True)
        with self._ask(name, "GET") as answer, target.open("xb") as output:
            size = answer.headers.get("Content-Length")
            try:
                shutil.copyfileobj(answer, output, _BLOCK_BYTES)
            except (OSError, EOFError) as error:
                raise DownloadError(self.place(name), str(error), _HINT) from error
        found = target.stat().st_size
        if size is not None and found != int(size):
            raise DownloadError(self.place(name), f"{found} of {size} bytes came", "try again")

    def _ask(self, name: str, method: str) -> HTTPResponse:
        request = urllib.request.Request(self.place(name), method=method)  # noqa: S310  http only
        try:
            answer: HTTPResponse = urllib.request.urlopen(request, timeout=_TIMEOUT_S)  # noqa: S310
        except urllib.error.HTTPError as error:
            error.close()
            if error.code in _ABSENT:
                raise _AbsentError(name) from error
            raise DownloadError(self.place(name), f"it answers {error.code}", _HINT) from error
        except (OSError, ValueError) as error:
            reason = getattr(error, "reason", error)
            raise DownloadError(self.place(name), str(reason), _HINT) from error
        return answer


class _AbsentError(Exception):
    """The server has no such file."""
