"""One session per model in a process, however many engines, adapters and threads ask for it."""

from __future__ import annotations

import os
import threading
from collections import deque
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from onnx_embeddings import batches, calibration, compiler, folder, manifest, sources
from onnx_embeddings.errors import ModelFormatError
from onnx_embeddings.runtime.onnxruntime import VERSION
from onnx_embeddings.runtime.sessions import Sessions
from onnx_embeddings.runtime.threads import available_processors
from onnx_embeddings.scheduler import process_scheduler
from onnx_embeddings.sources import hub_cache
from onnx_embeddings.store import Store
from onnx_embeddings.tokens import Encoder

if TYPE_CHECKING:
    from pathlib import Path

    import numpy.typing as npt

    from onnx_embeddings.arrays import Graph
    from onnx_embeddings.config import EngineConfig
    from onnx_embeddings.folder import ModelFolder
    from onnx_embeddings.folder.tokenizer import TokenizerFiles
    from onnx_embeddings.request import ModelRequest
    from onnx_embeddings.spec import ModelSpec


_SOUND = "sound"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A model in use by one engine, until `release`.

    Attributes:
        spec: what the engine's request resolved to.
        path: the folder that holds the model.
        encoder: its tokenizer, set to the limit of the spec.
        sessions: its graph, loaded once in the process.
        key: what to release it by.
    """

    spec: ModelSpec
    path: Path
    encoder: Encoder
    sessions: Sessions
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A model on disk, ready to be loaded.

    Attributes:
        files: the model's folder.
        graph: what the runtime loads.
        spec: what the request resolved to.
    """

    files: ModelFolder
    graph: Graph
    spec: ModelSpec


def prepare(request: ModelRequest, config: EngineConfig) -> Prepared:
    """Find a model, fetch it where it is not there, and compile it where that was not done.

    Args:
        request: what is asked for.
        config: as `EngineConfig.resolved` returns it.

    Raises:
        ModelError: the model can't be found or read.
        SettingError: the request asks for something that this model does not have.
    """
    store = Store(config.home_path)
    # Twenty threads that ask at once: one finds, hashes and compiles, the others take the result.
    with _registry.resolving(request.model):
        path, request = sources.find(request, config)
    # Who asks for fp32 does not wait while int8 is compiled, which may take half a minute.
    with _registry.resolving(f"{path} {request.precision}"):
        # What a hub serves is data: only its weights say which model that is.
        packed = hub_cache.folder() not in path.parents
        if packed and (path / manifest.FILE).is_file():
            request = _packed(path, request, store)
        files = folder.read(path, request, packed=packed)
        measure = partial(_measure, path=path, request=request, config=config)
        graph = compiler.prepare(files, request.precision, store, measure)
        return Prepared(files=files, graph=graph, spec=files.spec(request, graph, store))


def _packed(path: Path, request: ModelRequest, store: Store) -> ModelRequest:
    """Compare a packed model with its manifest; the request, with the file that was packed."""
    said = manifest.read(path)
    manifest.check(path, said.files, store.sha256)
    return request if request.variant is not None else replace(request, variant=said.variant)


def lease(request: ModelRequest, config: EngineConfig) -> Lease:
    """Find, prepare and load a model, or share it if the process has it.

    Args:
        request: what is asked for.
        config: as `EngineConfig.resolved` returns it.

    Raises:
        ModelError: the model can't be found, read or loaded.
        SettingError: the request asks for something that this model does not have.
    """
    model = prepare(request, config)
    path, spec = model.files.path, model.spec
    sessions, key = _registry.sessions(model.graph)
    try:
        encoder = _registry.encoder(key, model.files.tokenizer, spec)
        _registry.check(key, encoder, path, Store(config.home_path))
    except BaseException:
        _registry.release(key)
        raise
    return Lease(spec=spec, path=path, encoder=encoder, sessions=sessions, key=key)


def _measure(
    graph: Graph, path: Path, request: ModelRequest, config: EngineConfig
) -> dict[str, npt.NDArray[np.float32]]:
    """See `calibration.measure`; by the model's own limit, whoever asks first and for what."""
    files = folder.read(path, replace(request, max_tokens=None))
    with process_scheduler().busy():
        return calibration.measure(graph, files, threads=config.lanes or available_processors())


def _check(sessions: Sessions, encoder: Encoder, path: Path) -> None:
    """Raise ModelFormatError if the weights are not those of any model: zeros, or no numbers."""
    with process_scheduler().busy():
        tokens = encoder.encode(["a"])
        if not tokens.lengths[0]:
            return
        vectors = sessions.run(batches.pack(tokens, np.array([0])))
    problem = None if np.isfinite(vectors).all() else "are not finite"
    if not vectors.any():
        problem = "are all zero"
    if problem is not None:
        raise ModelFormatError(
            path,
            f"the vectors that this model computes {problem}",
            "its weights are damaged: get it again; of a model that was fetched by its name "
            "`onnx-embeddings verify NAME` says which file it is",
        )


def release(key: str, process: int) -> None:
    """Give a lease back; the last one of a model frees its memory.

    Args:
        key: of the lease.
        process: the one that made it; what came along in a fork is the parent's to release.
    """
    if process == os.getpid():
        _registry.release(key)


class _Entry:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.sessions: Sessions | None = None
        self.encoders: dict[tuple[str, int], Encoder] = {}
        self.checked = False
        self.users = 0


class _Registry:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: dict[str, _Entry] = {}
        self._resolving: dict[str, threading.Lock] = {}
        self._given_back: deque[str] = deque()

    def resolving(self, what: str) -> threading.Lock:
        """The lock of whoever finds this model, or prepares this graph."""
        with self._lock:
            return self._resolving.setdefault(what, threading.Lock())

    def sessions(self, graph: Graph) -> tuple[Sessions, str]:
        """The sessions of a graph, and the key to release them by."""
        key = f"{graph.weights} {graph.scheme} {graph.content}"
        new = _Entry()
        with self._lock:
            entry = self._entries.setdefault(key, new)
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

    def encoder(self, key: str, files: TokenizerFiles, spec: ModelSpec) -> Encoder:
        """The tokenizer of a spec, for a lease that has the sessions of this key."""
        which = (spec.tokenizer, spec.max_tokens)
        entry = self._entries[key]
        with entry.lock:
            if which not in entry.encoders:
                entry.encoders[which] = Encoder(files, max_tokens=spec.max_tokens)
            return entry.encoders[which]

    def check(self, key: str, encoder: Encoder, path: Path, store: Store) -> None:
        """Raise ModelFormatError if a model makes nothing of a text.

        Once for each content and runtime: it takes as long as a first query.
        """
        entry = self._entries[key]
        with entry.lock:
            question = f"vectors of {key} by onnxruntime {VERSION}"
            if entry.checked or entry.sessions is None or store.answer(question) == _SOUND:
                return
            _check(entry.sessions, encoder, path)
            entry.checked = True
            store.keep_answer(question, _SOUND)

    def release(self, key: str) -> None:
        """Count one user less.

        The garbage collector may call this anywhere, also in a thread that has the lock: then it
        is counted by whoever comes next.
        """
        self._given_back.append(key)
        self.release_pending()

    def release_pending(self) -> None:
        """Count those who gave back while somebody had the lock."""
        freed = []
        while self._given_back and self._lock.acquire(blocking=False):
            try:
                while self._given_back:
                    freed.append(self._one_less(self._given_back.popleft()))
            finally:
                self._lock.release()
        # Sessions are destroyed here, without the lock.
        del freed

    def _one_less(self, key: str) -> _Entry | None:
        entry = self._entries[key]
        entry.users -= 1
        return None if entry.users else self._entries.pop(key)

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
