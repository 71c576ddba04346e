"""One session per model in a process, however many engines, adapters and threads ask for it."""

from __future__ import annotations

import os
import threading
from collections import defaultdict
from typing import TYPE_CHECKING

from onnx_embeddings import compiler, folder, sources
from onnx_embeddings.runtime.sessions import Sessions
from onnx_embeddings.store import Store
from onnx_embeddings.tokens import Encoder

if TYPE_CHECKING:
    from pathlib import Path

    from onnx_embeddings.arrays import Graph
    from onnx_embeddings.config import EngineConfig
    from onnx_embeddings.spec import ModelRequest, ModelSpec


class Lease:
    """A model in use by one engine.

    Attributes:
        spec: what the engine's request resolved to.
        path: the folder that holds the model.
        encoder: its tokenizer, set to the limit of the spec.
        sessions: its graph, loaded once in the process.
    """

    def __init__(
        self, spec: ModelSpec, path: Path, encoder: Encoder, sessions: Sessions, key: str
    ) -> None:
        """Use `lease`."""
        self.spec = spec
        self.path = path
        self.encoder = encoder
        self.sessions = sessions
        self._key: str | None = key
        self._process = os.getpid()

    def release(self) -> None:
        """Give the model back; the last lease frees its memory."""
        key, self._key = self._key, None
        # A lease that came along in a fork is the parent's to release.
        if key is not None and self._process == os.getpid():
            _registry.release(key)


def lease(request: ModelRequest, config: EngineConfig) -> Lease:
    """Find, prepare and load a model, or share it if the process has it.

    Args:
        request: what is asked for.
        config: as `EngineConfig.resolved` returns it.

    Raises:
        ModelError: the model can't be found, read or loaded.
        SettingError: the request asks for something that this model does not have.
    """
    store = Store(config.home_path)
    # Twenty threads that ask at once: one finds, hashes and compiles, the others take the result.
    with _registry.resolving(request.model):
        path = sources.find(request, config)
        files = folder.read(path, request)
        graph = compiler.prepare(files, request.precision, store)
        spec = files.spec(request, graph, store)
    encoder = Encoder(files.tokenizer, max_tokens=spec.max_tokens)
    sessions, key = _registry.sessions(graph)
    return Lease(spec, path, encoder, sessions, key)


class _Entry:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.sessions: Sessions | None = None
        self.users = 0


class _Registry:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: dict[str, _Entry] = defaultdict(_Entry)
        self._resolving: dict[str, threading.Lock] = defaultdict(threading.Lock)

    def resolving(self, model: str) -> threading.Lock:
        """The lock of whoever looks for this model."""
        with self._lock:
            return self._resolving[model]

    def sessions(self, graph: Graph) -> tuple[Sessions, str]:
        """The sessions of a graph, and the key to release them by."""
        key = f"{graph.weights} {graph.scheme}"
        with self._lock:
            entry = self._entries[key]
            entry.users += 1
        try:
            with entry.lock:
                if entry.sessions is None:
                    entry.sessions = Sessions(graph)
                return entry.sessions, key
        except BaseException:
            # A load that failed is not remembered: the next one tries again.
            self.release(key)
            raise

    def release(self, key: str) -> None:
        with self._lock:
            entry = self._entries[key]
            entry.users -= 1
            if not entry.users:
                del self._entries[key]

    def loaded(self) -> int:
        """How many models are loaded."""
        with self._lock:
            return len(self._entries)


_registry = _Registry()


def loaded_models() -> int:
    """How many models this process has loaded; engines with the same one count once."""
    return _registry.loaded()


def _after_fork() -> None:
    # Threads of the parent's sessions don't exist in the child, and to destroy a session there
    # waits for them for ever, even at the end of the interpreter. One reference too many keeps
    # them from that. The lock of the registry, too, may be held by a thread that is not there.
    import ctypes

    global _registry  # noqa: PLW0603
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(_registry))
    _registry = _Registry()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
