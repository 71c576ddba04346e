"""One repository of the hub at one commit: what it holds, and its files in the cache, verified."""

from __future__ import annotations

import logging
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from onnx_embeddings.documents import read_json
from onnx_embeddings.errors import DownloadError, VerificationError
from onnx_embeddings.sources import hub_cache
from onnx_embeddings.sources.huggingface import large
from onnx_embeddings.sources.huggingface.trouble import Task, translated

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from onnx_embeddings.catalog import CatalogModel
    from onnx_embeddings.sources.wanted import Wanted
    from onnx_embeddings.store import Store

logger = logging.getLogger(__name__)

_LISTING_S = 10.0
_COMMIT = re.compile("[0-9a-f]{40}")


class Repository:
    """One repository at one commit; its files are `layout.Files`."""

    def __init__(self, wanted: Wanted, store: Store) -> None:
        """Ask nothing yet."""
        from huggingface_hub import constants

        self._repo = wanted.name
        self._revision = wanted.revision
        self._store = store
        # The library asks once, when it is imported; a program may set it later.
        endpoint = os.environ.get("HF_ENDPOINT") or constants.ENDPOINT
        self.endpoint = (endpoint or constants.HUGGINGFACE_CO_URL_HOME).rstrip("/")
        self._cache = hub_cache.folder()
        self._token = hub_cache.token()
        self._commit = ""
        self._listing: dict[str, str | None] = {}
        self._sizes: dict[str, int | None] = {}
        self._files: dict[str, Path] = {}
        address = urlsplit(self.endpoint)
        self.host = f"{address.hostname}:{address.port}" if address.port else str(address.hostname)
        self._task = Task(
            model=wanted.name,
            revision=wanted.revision,
            endpoint=self.endpoint,
            host=self.host,
            cache=self._cache,
        )

    def translated(self) -> AbstractContextManager[None]:
        """Turn whatever the library raises into an error of ours."""
        return translated(self._task)

    @property
    def folder(self) -> Path:
        """The snapshot's folder."""
        return hub_cache.repository(self._repo) / "snapshots" / self._commit

    def look_up(self) -> None:
        """Ask for the names of all files; pins the commit that everything else is taken from."""
        from huggingface_hub import HfApi

        api = HfApi(endpoint=self.endpoint, token=self._token)
        info = api.model_info(
            self._repo, revision=self._revision, timeout=_LISTING_S, files_metadata=True
        )
        if not _COMMIT.fullmatch(str(info.sha)):
            raise DownloadError(self.host, f"it names no commit but {info.sha!r}")
        self._commit = str(info.sha)
        self._task.is_listed = True
        # Of large files the sha256, of small ones the git blob id; a mirror may not say.
        self._listing = {
            sibling.rfilename: sibling.lfs["sha256"] if sibling.lfs else sibling.blob_id
            for sibling in info.siblings or ()
        }
        self._sizes = {sibling.rfilename: sibling.size for sibling in info.siblings or ()}

    def has(self, name: str) -> bool:
        """Whether the repository has this file."""
        return name in self._listing

    def names(self, folder: str) -> list[str]:
        """Of the files in a folder."""
        inside = (name.removeprefix(folder) for name in self._listing if name.startswith(folder))
        return [name for name in inside if "/" not in name]

    def place(self, name: str) -> str:
        """What an error calls a file."""
        return "/".join(part for part in (self.host, self._repo, name) if part)

    def file(self, name: str) -> Path:
        """The file in the cache, fetched where it is not there, with the content that it must have.

        A file that differs from what the hub says is fetched once more, and no other.

        Raises:
            VerificationError: it differs again.
        """
        if name not in self._files:
            path = self._fetched(name)
            expected = self._listing.get(name)
            if expected is not None:
                path = self._verified(name, path, expected)
            self._files[name] = path
        return self._files[name]

    def _fetched(self, name: str, *, force: bool = False) -> Path:
        from huggingface_hub import hf_hub_download

        self._task.file, self._task.size = name, self._sizes.get(name)
        blobs = hub_cache.repository(self._repo) / "blobs"
        there = (self.folder / name).exists()
        source = None if force or there else self._source(name)
        if source is not None:
            large.fetch(source, blobs, self._store)
        path = hf_hub_download(
            self._repo,
            name,
            # One file by branch or tag: so the cache notes which commit that is. Every model is
            # asked for this one.
            revision=self._revision if name == "modules.json" else self._commit,
            cache_dir=self._cache,
            endpoint=self.endpoint,
            token=self._token,
            force_download=force,
        )
        self._task.file = ""
        if source is not None:
            large.settle(source, blobs, Path(str(path)))
        return Path(str(path))

    def _source(self, name: str) -> large.Source | None:
        """Of a large file; None for a small one."""
        digest, size = self._listing.get(name), self._sizes.get(name)
        if digest is None or size is None or not large.is_digest(digest):
            return None
        return large.Source(
            repo=self._repo,
            name=name,
            commit=self._commit,
            endpoint=self.endpoint,
            token=self._token,
            sha256=digest,
            size=size,
        )

    def _verified(self, name: str, path: Path, expected: str) -> Path:
        if hub_cache.digest(path, expected, self._store) == expected:
            return path
        logger.warning("%s has not the content that it must have, fetching it once more", path)
        if not path.is_symlink():
            path.unlink(missing_ok=True)  # the library replaces what a link leads to, but no file
        path = self._fetched(name, force=True)
        found = hub_cache.digest(path, expected, self._store)
        if found != expected:
            raise VerificationError(
                path, expected, found, f"{self.host} serves another file: it is not used"
            )
        return path

    def check_whole(self, names: tuple[str, ...]) -> None:
        """Raise DownloadError if the files do not all lie in the one commit's folder."""
        for name in names:
            if not (self.folder / name).is_file():
                raise DownloadError(
                    self.host, f"{self._repo} was changed while it was fetched", "try again"
                )

    def json(self, name: str) -> Any:
        """The content of a JSON file."""
        return read_json(self.file(name))

    def note_absent(self, name: str) -> None:
        """Have the cache remember that the repository has no such file."""
        from huggingface_hub.errors import EntryNotFoundError

        with suppress(EntryNotFoundError):
            self.file(name)

    def settle(self, names: tuple[str, ...], known: CatalogModel | None) -> None:
        """Compare what was fetched with what the catalog says, and remember what it was.

        Raises:
            VerificationError: the hub serves another file than the catalog knows.
        """
        for file in known.files if known is not None else ():
            path = self.folder / file.path
            if path.is_file():
                self._verified(file.path, path, file.sha256)
        digests = {name: self._store.sha256(self.folder / name) for name in names}
        self._store.keep_arrived(self.folder, digests)
