"""A model's name in, its files from a server of plain files out.

What there is is found out by asking for it.
"""

from __future__ import annotations

import base64
import json
import logging
import sys
import time
import urllib.error
import urllib.request
from http.client import HTTPException
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from onnx_embeddings import layout
from onnx_embeddings.errors import DownloadError, ModelFormatError, ModelNotFoundError
from onnx_embeddings.sources.kept import MAIN, differing

if TYPE_CHECKING:
    from http.client import HTTPResponse
    from pathlib import Path

    from onnx_embeddings.sources.wanted import Wanted
    from onnx_embeddings.store import Store

logger = logging.getLogger(__name__)

TIMEOUT_S = 10.0
"""Longest wait for an answer, and for the next piece of a body."""

STALL_S = 60.0
"""In so many seconds at least `STALL_BYTES` must come."""

STALL_BYTES = 64 * 2**10

_BLOCK_BYTES = 2**20
_MOST_JSON_BYTES = 4 * 2**20
_ABSENT = frozenset({403, 404, 410})
_HINT = "check ONNX_EMBEDDINGS_MIRROR, or EngineConfig(mirror=…)"


def fetch(wanted: Wanted, mirror: str, place: Path, store: Store) -> Path:
    """The folder of a model, fetched from a server.

    Args:
        wanted: the model.
        mirror: an address that may hold ``{model}``, ``{revision}`` and ``{file}``; what is missing
            of model and file is put behind it.
        place: where the folder goes.
        store: puts it there whole, once for all threads and processes.

    Raises:
        ModelNotFoundError: the mirror does not have the model.
        ModelFormatError: it has no files that an engine can use, or others than the catalog knows.
        DownloadError: it can't be reached, or fails.
        StoreError: the store can't be written.
    """
    site = _Site(wanted, mirror)

    def write(folder: Path) -> None:
        found = layout.choose(site, variant=wanted.variant)
        lacking = [name for name in found.files if not site.has(name)]
        if lacking:
            asked = f"mirror {site.place('')}: it has no {', '.join(lacking)}"
            raise ModelNotFoundError(wanted.name, [asked], _HINT)
        logger.info("fetching %d files of %s", len(found.files), site.place(""))
        for name in found.files:
            site.fetch(name, folder / name)
        if wanted.known is not None:
            why = differing(folder, wanted.known, wanted.variant, store)
            if why:
                raise ModelFormatError(site.place(""), why, "the mirror must have the same files")
        names = [p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()]
        store.keep_arrived(place, {name: store.sha256(folder / name) for name in names})

    return store.publish(place, write)


class _Site:
    """The files of one model on a server, as `layout.Files`."""

    def __init__(self, wanted: Wanted, mirror: str) -> None:
        address = mirror if "{model}" in mirror else f"{mirror.rstrip('/')}/{{model}}"
        address = address if "{file}" in address else f"{address.rstrip('/')}/{{file}}"
        address = address.replace("{model}", quote(wanted.name))
        self._address = address.replace("{revision}", quote(wanted.revision or MAIN, safe=""))
        self._there: dict[str, bool] = {}
        user = urlsplit(self._address).netloc.rpartition("@")[0]
        self._user = base64.b64encode(unquote(user).encode()).decode() if user else None

    def place(self, name: str) -> str:
        """The address of a file, as it may be shown: without a user and a password."""
        return self._plain(name)

    def _plain(self, name: str) -> str:
        parts = urlsplit(self._address.replace("{file}", quote(name)))
        return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))

    def has(self, name: str) -> bool:
        if name not in self._there:
            try:
                self._ask(name, "HEAD").close()
            except _AbsentError:
                self._there[name] = False
            else:
                self._there[name] = True
        return self._there[name]

    def names(self, folder: str) -> list[str]:  # noqa: ARG002  as `layout.Files` has it
        """None: a server of plain files does not list them."""
        return []

    def json(self, name: str) -> Any:
        with self._ask(name, "GET") as answer:
            content = self._piece(answer, name, _MOST_JSON_BYTES + 1, all_of_it=True)
        if len(content) > _MOST_JSON_BYTES:
            raise ModelFormatError(self.place(name), "is larger than 4 MiB")
        try:
            return json.loads(content)
        except (ValueError, RecursionError) as error:
            raise ModelFormatError(self.place(name), f"is not valid JSON: {error}") from error

    def fetch(self, name: str, target: Path) -> None:
        """The file, whole; what goes wrong in writing it passes through."""
        from tqdm import tqdm

        target.parent.mkdir(parents=True, exist_ok=True)
        with self._ask(name, "GET") as answer, target.open("xb") as output:
            size = int(answer.headers.get("Content-Length") or -1)
            shown = sys.stderr is not None and sys.stderr.isatty()
            bar = tqdm(total=max(size, 0), desc=name, unit="B", unit_scale=True, disable=not shown)
            with bar:
                marked, written_then, written = time.monotonic(), 0, 0
                while block := self._piece(answer, name, _BLOCK_BYTES):
                    output.write(block)
                    written += len(block)
                    bar.update(len(block))
                    now = time.monotonic()
                    if now - marked > STALL_S:
                        if written - written_then < STALL_BYTES:
                            self._failed(name, f"{written} bytes came, and then hardly any")
                        marked, written_then = now, written
        if size not in {-1, written}:
            self._failed(name, f"{written} of {size} bytes came")

    def _piece(
        self, answer: HTTPResponse, name: str, size: int, *, all_of_it: bool = False
    ) -> bytes:
        try:
            return answer.read(size) if all_of_it else answer.read1(size)
        except (OSError, HTTPException) as error:
            raise DownloadError(self.place(name), str(error) or repr(error), _HINT) from error

    def _failed(self, name: str, reason: str) -> None:
        raise DownloadError(self.place(name), reason, "try again")

    def _ask(self, name: str, method: str) -> HTTPResponse:
        try:
            request = urllib.request.Request(self._plain(name), method=method)  # noqa: S310  http
            if self._user is not None:
                request.add_header("Authorization", f"Basic {self._user}")
            answer: HTTPResponse = urllib.request.urlopen(request, timeout=TIMEOUT_S)  # noqa: S310
        except urllib.error.HTTPError as error:
            error.close()
            if error.code in _ABSENT:
                raise _AbsentError(name) from error
            raise DownloadError(self.place(name), f"it answers {error.code}", _HINT) from error
        except (OSError, ValueError, HTTPException) as error:
            reason = getattr(error, "reason", None) or f"{type(error).__name__}: no sane answer"
            raise DownloadError(self.place(name), str(reason), _HINT) from None
        return answer


class _AbsentError(Exception):
    """The server has no such file."""
