"""Whether the hub can be asked at all, found out soon."""

from __future__ import annotations

import queue
import threading

from onnx_embeddings.errors import DownloadError
from onnx_embeddings.sources.huggingface.trouble import NETWORK_HINT

# As httpx calls what may come of the proxy or the certificates that a session began with.
_SESSION_ERRORS = frozenset({"ConnectError", "ProxyError"})
_FROZEN = (
    "huggingface_hub was imported while HF_HUB_OFFLINE or TRANSFORMERS_OFFLINE was set, and asks "
    "nothing until this process ends"
)


def check_allowed(host: str) -> None:
    """Raise DownloadError if the library will not ask; it reads the setting only once."""
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE:
        raise DownloadError(host, _FROZEN, "start the process again without them")


def check_alive(endpoint: str, host: str, patience_s: float) -> None:
    """Raise DownloadError unless the hub gives any sane answer within so many seconds."""
    # Documented, but not listed for re-export.
    from huggingface_hub.utils import get_session  # type: ignore[attr-defined]

    answers: queue.SimpleQueue[str | None] = queue.SimpleQueue()

    def ask() -> None:
        try:
            status = get_session().head(endpoint, timeout=patience_s).status_code
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
        raise DownloadError(host, problem, NETWORK_HINT)


def _end_session() -> None:
    """Have the library read the variables of proxies and certificates anew; 1.0 keeps them."""
    import huggingface_hub

    close = getattr(huggingface_hub, "close_session", None)
    if close is not None:
        close()
