"""From a model's name to an engine: one of the caller's own, or the one that a process shares."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any, Literal

from onnx_embeddings.engine import Engine
from onnx_embeddings.errors import SettingError
from onnx_embeddings.request import DEFAULT_MODEL, ModelRequest

if TYPE_CHECKING:
    from onnx_embeddings.config import EngineConfig

_NO_WISHES = ModelRequest()


def load(  # noqa: PLR0913  every field of the request by name
    model: str | os.PathLike[str] | ModelRequest = DEFAULT_MODEL,
    *,
    revision: str | None = None,
    precision: str | None = None,
    variant: str | None = None,
    dim: int | None = None,
    max_tokens: int | None = None,
    long_text: Literal["truncate", "error"] = "truncate",
    query_prompt: str | None = None,
    document_prompt: str | None = None,
    config: EngineConfig | None = None,
) -> Engine:
    """An engine for a model, ready to embed.

    The model is found, fetched if it must be, checked and compiled, the first time; later starts
    take it from the store. Engines of one model share one session in the process.

    Args:
        model: a name (``org/name``), a folder, or a whole `ModelRequest`; a text is a folder only
            if it starts with ``.``, ``/``, ``~`` or a drive, a path always is one.
        revision: see `ModelRequest`, as for all that follow up to `document_prompt`.
        precision: see there.
        variant: see there.
        dim: see there.
        max_tokens: see there.
        long_text: see there.
        query_prompt: see there.
        document_prompt: see there.
        config: how the engine works; never changes a vector.

    Raises:
        ModelError: the model can't be found, fetched, read or loaded.
        SettingError: a value can't be used, or the model does not have what is asked for.
    """
    settings: dict[str, Any] = {
        "revision": revision,
        "precision": precision,
        "variant": variant,
        "dim": dim,
        "max_tokens": max_tokens,
        "long_text": long_text,
        "query_prompt": query_prompt,
        "document_prompt": document_prompt,
    }
    if isinstance(model, ModelRequest):
        for name, value in settings.items():
            if value != getattr(_NO_WISHES, name):
                raise SettingError(name, value, "belongs into the request that is given")
        request = model
    else:
        request = ModelRequest(model=model, **settings)  # type: ignore[arg-type]  # takes paths
    return Engine(request, config).open()


def load_shared(request: ModelRequest, *, config: EngineConfig | None = None) -> Engine:
    """The process's one engine for a request and a configuration: made by the first, then kept.

    For whoever is built anew all the time, as Chroma does with its embedding functions: with an
    engine of their own each, the last one to go would take the model with it. The engine opens
    with its first text. The eight used last are kept; one that was closed is made anew.

    Args:
        request: the model, and how it is used.
        config: how the engine works; never changes a vector.

    Raises:
        SettingError: one of them is something else.
    """
    new = Engine(request, config)
    key = (new.request, new.config)
    with _lock:
        engine = _kept.pop(key, new)
        _kept[key] = new if engine.closed else engine
        if len(_kept) > _MOST_KEPT:
            del _kept[next(iter(_kept))]
        return _kept[key]


_MOST_KEPT = 8
_kept: dict[tuple[ModelRequest, EngineConfig], Engine] = {}
_lock = threading.Lock()


def _after_fork() -> None:
    # Another thread may have held the lock at the fork. The engines open again on their own.
    global _lock  # noqa: PLW0603
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
