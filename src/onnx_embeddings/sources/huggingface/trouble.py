"""What huggingface_hub raises in, an error of ours out."""

from __future__ import annotations

import errno
import shutil
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from onnx_embeddings.errors import (
    DownloadError,
    ModelNotFoundError,
    OnnxEmbeddingsError,
    StoreError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_DISK = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOTDIR}
    | {errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP}  # of file systems without locks
)
_REFUSED_HINT = (
    "check the spelling; if the model is private, log in with `hf auth login` or set HF_TOKEN"
)
NETWORK_HINT = (
    "check the connection and the proxy (HTTPS_PROXY; for the certificates of a company "
    "SSL_CERT_FILE, or REQUESTS_CA_BUNDLE where huggingface_hub is older than 1.0), or give a "
    "folder that holds the model's files"
)


@dataclass(slots=True, kw_only=True)
class Task:
    """What is being done, for an error.

    Attributes:
        model: the model's name.
        revision: the one asked for.
        endpoint: the hub's address.
        host: the same for people.
        cache: the folder that files go to.
        is_listed: whether the hub has told what the repository holds.
        file: which is fetched now, or nothing.
        size: of that file, where it is known.
    """

    model: str
    revision: str | None
    endpoint: str
    host: str
    cache: Path
    is_listed: bool = False
    file: str = ""
    size: int | None = None


@contextmanager
def translated(task: Task) -> Iterator[None]:
    """Turn whatever the library raises into an error of ours."""
    from huggingface_hub import errors

    try:
        yield
    except OnnxEmbeddingsError:
        raise
    except errors.GatedRepoError as error:
        hint = f"accept its conditions at {task.endpoint}/{task.model}, then log in with "
        raise _refused(task, error, f"{hint}`hf auth login` or set HF_TOKEN") from error
    except errors.RevisionNotFoundError as error:
        raise _refused(task, error, f"check the revision {task.revision!r}") from error
    except (errors.RepositoryNotFoundError, errors.HFValidationError) as error:
        raise _refused(task, error) from error
    except Exception as error:
        # The library hides the reason behind "cannot find the requested files locally".
        reason = error if _status(error) else error.__cause__ or error
        # What the listing named and is not there is a failure, not a wrong name.
        refusals = {401, 403} if task.is_listed else {401, 403, 404}
        if isinstance(reason, errors.HfHubHTTPError) and _status(reason) in refusals:
            raise _refused(task, reason) from error
        if isinstance(error, OSError) and error.errno in _DISK:
            hint = "set HF_HUB_CACHE to a folder that is writable, has space and can be locked"
            raise StoreError(
                task.cache, _about(task, f"{error}{_room(task, error)}"), hint
            ) from error
        what = _about(task, _first_line(reason))
        raise DownloadError(task.host, what, NETWORK_HINT) from error


def _about(task: Task, what: str) -> str:
    return f"{task.file}: {what}" if task.file else what


def _room(task: Task, error: OSError) -> str:
    """What a full disk has and what it lacks, where that is known."""
    if error.errno != errno.ENOSPC or task.size is None:
        return ""
    try:
        free = shutil.disk_usage(task.cache).free
    except OSError:
        return ""
    return f"; {task.size} bytes are needed, {free} are free"


def _refused(task: Task, error: Exception, hint: str = _REFUSED_HINT) -> ModelNotFoundError:
    status = _status(error)
    answer = f"answers {status}" if status else _first_line(error)
    return ModelNotFoundError(task.model, [f"hub {task.host}: {answer}"], hint)


def _status(error: BaseException) -> int | None:
    return getattr(getattr(error, "response", None), "status_code", None)


def _first_line(error: BaseException) -> str:
    text = str(error).strip()
    return f"{type(error).__name__}: {text.splitlines()[0]}" if text else type(error).__name__
