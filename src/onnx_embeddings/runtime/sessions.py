"""The sessions of one graph: one for the lanes, wide ones for lone texts where that is faster."""

from __future__ import annotations

import logging
import threading
import time
from collections import defaultdict
from typing import TYPE_CHECKING

from onnx_embeddings.errors import ModelFormatError
from onnx_embeddings.runtime.onnxruntime import Session

if TYPE_CHECKING:
    from onnx_embeddings.arrays import Batch, Graph, TokenVectors

logger = logging.getLogger(__name__)

_CALLS_BEFORE_TRIALS = 2  # a program that embeds one or two texts never pays for a second session
_TRIALS = 5
_CALLS_TO_NEXT_TRIALS = 50  # then twice as many each time: what else ran may have misled them
_MOST_CALLS_TO_NEXT_TRIALS = 1600


class Sessions:
    """Runs a graph on the lanes, and lone batches on whatever is faster on this machine.

    Which is faster depends on the processor, on the model and on the length of the text, so it is
    measured: of the first lone batches of each size some run on one thread and some on all, and
    the faster way is taken for a while. Both give the same bits.
    """

    def __init__(self, graph: Graph) -> None:
        """Load the graph once; a wide session comes when it is first tried.

        `one_by_one` says whether texts must run alone, because a result depends on the batch,
        `long_text` that those of more tokens must, and `always_masked` that batches of texts of one
        length are no faster.

        Raises:
            ModelFormatError: the runtime does not accept the graph.
        """
        self._graph = graph
        self.long_text = graph.long_text
        self.always_masked = graph.layout == "padded"
        self._lane = Session(graph)
        self.one_by_one = self._lane.one_by_one
        if self.one_by_one:
            logger.warning(
                "%s: what it makes of a text depends on the others of a batch, so texts run one at "
                "a time, which is slower",
                graph.path,
            )
        self._alone: dict[int, _Alone] = {}
        self._lock = threading.Lock()

    def run(self, batch: Batch) -> TokenVectors:
        """(T, H) float32 token vectors, computed on one thread.

        Raises:
            InferenceError: the runtime fails.
        """
        return self._lane.run(batch)

    def run_alone(self, batch: Batch, *, threads: int) -> TokenVectors:
        """The same for a batch that may have so many threads for itself.

        Raises:
            InferenceError: the runtime fails.
        """
        if threads == 1:
            return self.run(batch)
        with self._lock:
            if threads not in self._alone:
                self._alone[threads] = _Alone(self._graph, self._lane, threads)
        return self._alone[threads].run(batch)

    def warm_up_alone(self, batch: Batch, *, threads: int) -> None:
        """Run a lone batch until it is known which way is faster for those of its size.

        Raises:
            InferenceError: the runtime fails.
        """
        times = 1 if threads == 1 else _CALLS_BEFORE_TRIALS + 2 * _TRIALS
        for _ in range(times):
            self.run_alone(batch, threads=threads)


class _Alone:
    """Finds out which of two sessions runs a lone batch faster, and uses it."""

    def __init__(self, graph: Graph, lane: Session, threads: int) -> None:
        self._graph = graph
        self._lane = lane
        self._wide: Session | None = None
        self._threads = threads
        self._calls = 0
        self._lock = threading.Lock()
        # Sizes are powers of two of tokens; seconds on the lane's session and on the wide one.
        self._seconds: dict[int, tuple[list[float], list[float]]] = defaultdict(lambda: ([], []))
        self._faster: dict[int, Session] = {}
        self._calls_left: dict[int, int] = {}
        self._hold: dict[int, int] = defaultdict(lambda: _CALLS_TO_NEXT_TRIALS)

    def run(self, batch: Batch) -> TokenVectors:
        size = (len(batch.ids) - 1).bit_length()
        with self._lock:
            session, on_trial = self._pick(size)
        started = time.perf_counter()
        tokens = session.run(batch)
        if on_trial:
            self._tried(size, session, time.perf_counter() - started)
        return tokens

    def _pick(self, size: int) -> tuple[Session, bool]:
        """The session for a lone batch of this size, and whether its time is wanted."""
        self._calls += 1
        if self._calls <= _CALLS_BEFORE_TRIALS:
            return self._lane, False
        if size in self._faster:
            self._calls_left[size] -= 1
            if self._calls_left[size]:
                return self._faster[size], False
            del self._faster[size], self._seconds[size]
        if self._wide is None:
            try:
                self._wide = Session(self._graph, threads=self._threads)
            except ModelFormatError as error:
                # The files have gone meanwhile. The session that is loaded needs them no more.
                logger.warning("lone texts stay on one thread: %s", error)
                self._wide = self._lane
        lane, wide = self._seconds[size]
        # Not in turns: the threads of the wide session would fall asleep before each of its calls.
        # But the lane before and after it, so that a machine that slows down favours neither.
        first = len(lane) <= _TRIALS // 2 or len(wide) >= _TRIALS
        return (self._lane if first else self._wide), True

    def _tried(self, size: int, session: Session, seconds: float) -> None:
        with self._lock:
            lane, wide = self._seconds[size]
            (lane if session is self._lane else wide).append(seconds)
            if min(len(lane), len(wide)) >= _TRIALS and self._wide is not None:
                # The best times: what else ran meanwhile, and cold starts, only add to them.
                self._faster[size] = self._wide if min(wide) < min(lane) else self._lane
                self._calls_left[size] = self._hold[size]
                self._hold[size] = min(2 * self._hold[size], _MOST_CALLS_TO_NEXT_TRIALS)
