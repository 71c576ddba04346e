"""A model's name in, a verified snapshot from the hub out. The only door to huggingface_hub.

Written for huggingface_hub 0.30 to 2.x, which stand on three different HTTP libraries.
"""

from __future__ import annotations

import errno
import logging
import os
import queue
import shutil
import threading
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from onnx_embeddings import layout
from onnx_embeddings.documents import read_json
from onnx_embeddings.errors import (
    DownloadError,
    ModelFormatError,
    ModelNotFoundError,
    OnnxEmbeddingsError,
    StoreError,
    VerificationError,
)
from onnx_embeddings.sources import hub_cache

if TYPE_CHECKING:
    from collections.abc import Iterator

    from onnx_embeddings.catalog import CatalogModel
    from onnx_embeddings.sources.wanted import Wanted
    from onnx_embeddings.store import Store

logger = logging.getLogger(__name__)

PROBE_S = 2.0
"""Longest wait for a sign of life, in seconds, where a mirror can serve instead."""

LONG_PROBE_S = 10.0
"""The same where none can; huggingface_hub alone gives up after some 20."""

_LISTING_S = 10.0
_DISK = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOTDIR}
    | {errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP}  # of file systems without locks
)
_REFUSED_HINT = (
    "check the spelling; if the model is private, log in with `hf auth login` or set HF_TOKEN"
)
_NETWORK_HINT = (
    "check the connection and the proxy (HTTPS_PROXY; for the certificates of a company "
    "SSL_CERT_FILE, or REQUESTS_CA_BUNDLE where huggingface_hub is older than 1.0), or give a "
    "folder that holds the model's files"
)
# As httpx calls what may come of the proxy or the certificates that a session began with.
_SESSION_ERRORS = frozenset({"ConnectError", "ProxyError"})
_FROZEN = (
    "huggingface_hub was imported while HF_HUB_OFFLINE or TRANSFORMERS_OFFLINE was set, and asks "
    "nothing until this process ends"
)


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
    hub = _Hub(wanted, store)
    with hub.translated():
        hub.check_allowed()
        hub.check_alive(patience_s)
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


class _Hub:
    """One repository at one commit; its files are `layout.Files`."""

    def __init__(self, wanted: Wanted, store: Store) -> None:
        from huggingface_hub import constants

        self._repo = wanted.name
        self._revision = wanted.revision
        self._store = store
        # The library asks once, when it is imported; a program may set it later.
        endpoint = os.environ.get("HF_ENDPOINT") or constants.ENDPOINT
        self._endpoint = (endpoint or constants.HUGGINGFACE_CO_URL_HOME).rstrip("/")
        self._cache = hub_cache.folder()
        self._token = hub_cache.token()
        self._commit = ""
        self._listing: dict[str, str | None] = {}
        self._sizes: dict[str, int | None] = {}
        self._files: dict[str, Path] = {}
        self._fetching = ""
        address = urlsplit(self._endpoint)
        self.host = f"{address.hostname}:{address.port}" if address.port else str(address.hostname)

    @property
    def folder(self) -> Path:
        """The snapshot's folder."""
        name = f"models--{self._repo.replace('/', '--')}"
        return self._cache / name / "snapshots" / self._commit

    def check_allowed(self) -> None:
        """Raise DownloadError if the library will not ask; it reads the setting only once."""
        from huggingface_hub import constants

        if constants.HF_HUB_OFFLINE:
            raise DownloadError(self.host, _FROZEN, "start the process again without them")

    def check_alive(self, patience_s: float) -> None:
        """Raise DownloadError unless the hub gives any sane answer within so many seconds."""
        # Documented, but not listed for re-export.
        from huggingface_hub.utils import get_session  # type: ignore[attr-defined]

        answers: queue.SimpleQueue[str | None] = queue.SimpleQueue()

        def ask() -> None:
            try:
                status = get_session().head(self._endpoint, timeout=patience_s).status_code
                answers.put(f"it answers {status}" if status >= 500 else None)  # noqa: PLR2004
            except Exception as error:  # noqa: BLE001 - three HTTP libraries, no common base
                if type(error).__name__ in _SESSION_ERRORS:
                    _end_session()
                answers.put(f"{type(error).__name__}: {error}")

        # Looking up a host name takes no time limit, so it has a thread that may be left behind.
        threading.Thread(target=ask, name="hub-probe", daemon=True).start()
        try:
            problem = answers.get(timeout=patience_s)
        except queue.Empty:
            problem = f"no answer within {patience_s:g} s"
        if problem is not None:
            raise DownloadError(self.host, problem, _NETWORK_HINT)

    def look_up(self) -> None:
        """Ask for the names of all files; pins the commit that everything else is taken from."""
        from huggingface_hub import HfApi

        api = HfApi(endpoint=self._endpoint, token=self._token)
        info = api.model_info(
            self._repo, revision=self._revision, timeout=_LISTING_S, files_metadata=True
        )
        self._commit = str(info.sha)
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

        self._fetching = name  # what an error is about
        path = hf_hub_download(
            self._repo,
            name,
            # One file by branch or tag: so the cache notes which commit that is. Every model is
            # asked for this one.
            revision=self._revision if name == "modules.json" else self._commit,
            cache_dir=self._cache,
            endpoint=self._endpoint,
            token=self._token,
            force_download=force,
        )
        self._fetching = ""
        return Path(str(path))

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

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Turn whatever the library raises into an error of ours."""
        from huggingface_hub import errors

        try:
            yield
        except OnnxEmbeddingsError:
            raise
        except errors.GatedRepoError as error:
            hint = f"accept its conditions at {self._endpoint}/{self._repo}, then log in with "
            raise self._refused(error, f"{hint}`hf auth login` or set HF_TOKEN") from error
        except errors.RevisionNotFoundError as error:
            raise self._refused(error, f"check the revision {self._revision!r}") from error
        except (errors.RepositoryNotFoundError, errors.HFValidationError) as error:
            raise self._refused(error) from error
        except Exception as error:
            # The library hides the reason behind "cannot find the requested files locally".
            reason = error if _status(error) else error.__cause__ or error
            # What the listing named and is not there is a failure, not a wrong name.
            refusals = {401, 403} if self._commit else {401, 403, 404}
            if isinstance(reason, errors.HfHubHTTPError) and _status(reason) in refusals:
                raise self._refused(reason) from error
            if isinstance(error, OSError) and error.errno in _DISK:
                hint = "set HF_HUB_CACHE to a folder that is writable, has space and can be locked"
                raise StoreError(
                    self._cache, self._about(f"{error}{self._room(error)}"), hint
                ) from error
            what = self._about(_first_line(reason))
            raise DownloadError(self.host, what, _NETWORK_HINT) from error

    def _about(self, what: str) -> str:
        return f"{self._fetching}: {what}" if self._fetching else what

    def _room(self, error: OSError) -> str:
        """What a full disk has and what it lacks, where that is known."""
        size = self._sizes.get(self._fetching)
        if error.errno != errno.ENOSPC or size is None:
            return ""
        try:
            free = shutil.disk_usage(self._cache).free
        except OSError:
            return ""
        return f"; {size} bytes are needed, {free} are free"

    def _refused(self, error: Exception, hint: str = _REFUSED_HINT) -> ModelNotFoundError:
        status = _status(error)
        answer = f"answers {status}" if status else _first_line(error)
        return ModelNotFoundError(self._repo, [f"hub {self.host}: {answer}"], hint)


def _end_session() -> None:
    """Have the library read the variables of proxies and certificates anew; 1.0 keeps them."""
    import huggingface_hub

    close = getattr(huggingface_hub, "close_session", None)
    if close is not None:
        close()


def _status(error: BaseException) -> int | None:
    return getattr(getattr(error, "response", None), "status_code", None)


def _first_line(error: BaseException) -> str:
    text = str(error).strip()
    return f"{type(error).__name__}: {text.splitlines()[0]}" if text else type(error).__name__
