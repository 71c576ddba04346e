"""One call: texts in, vectors out, through all the stages. Only here is their order known."""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from onnx_embeddings import batches, pooling, text, vectors
from onnx_embeddings.errors import InferenceError
from onnx_embeddings.scheduler import process_scheduler
from onnx_embeddings.windows import Reader

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tqdm import tqdm

    from onnx_embeddings.arrays import Batch, Lengths, TokenVectors, Vectors
    from onnx_embeddings.cache import VectorCache
    from onnx_embeddings.config import EngineConfig
    from onnx_embeddings.scheduler import Call, LaneLimit
    from onnx_embeddings.shared import Lease
    from onnx_embeddings.stats import Counters
    from onnx_embeddings.windows import Window

    Item = tuple[Window, Lengths]
    """A window, and which of its texts make one batch."""

_WORDS_OF_QUERIES = (2, 5, 12, 26, 56)  # with special tokens, up to 4, 8, 16, 32, 64 tokens
_AHEAD = 2  # windows in work: the lanes go on with one while the caller takes the one before it


class Embedding:
    """One call of `embed_documents`, `embed_queries` or `iter_documents`."""

    def __init__(  # noqa: PLR0913  all that an engine has
        self,
        held: Lease,
        config: EngineConfig,
        *,
        limit: LaneLimit,
        counters: Counters,
        cache: VectorCache | None,
        prompt: str,
    ) -> None:
        """A call of one engine, with the prompt that goes before each text."""
        self.held = held
        self.spec = held.spec
        self.sessions = held.sessions
        self.limit = limit
        self.budget = config.batch_tokens
        self.counters = counters
        self.cache = cache
        self.prompt = prompt
        self.scheduler = process_scheduler()
        self.done = 0.0  # texts, for the bar
        self.bar: tqdm[Any] | None = None

    def call(self) -> Call[Item]:
        """A place among the callers of the lanes, for `embed` or `stream`."""
        return self.scheduler.call(self.on_a_lane, self.limit)

    def embed(self, texts: list[str], bar: tqdm[Any] | None) -> Vectors:
        """(N, D) float32 vectors of checked texts.

        Raises:
            InputError: a text is too long, and the spec says that this is an error.
            InferenceError: the runtime failed, or a vector is not finite.
        """
        self.bar = bar
        # Zeros stay for a text without a single token.
        of_all = np.zeros((len(texts), self.spec.dim), np.float32)
        windows = self.windows(iter(texts), of_all)
        for _ in self.run(self.call(), windows, errors_last=False):
            pass
        return of_all

    def stream(
        self, call: Call[Item], texts: Iterator[str], bar: tqdm[Any] | None
    ) -> Iterator[Vectors]:
        """(N, D) float32 vectors of the texts of one window after the other.

        Raises:
            Exception: as `embed`; and what `texts` raises, after all vectors of texts before it.
        """
        self.bar = bar
        return self.run(call, self.windows(texts, None), errors_last=True)

    def warm_up(self) -> None:
        """Run the model on every lane, and find out how lone texts are fastest.

        Raises:
            InferenceError: the runtime failed.
        """
        texts = text.prompted(["a " * words for words in _WORDS_OF_QUERIES], self.prompt)
        with self.scheduler.busy():
            tokens = self.held.encoder.encode(texts)
        each = [batches.pack(tokens, np.array([row])) for row in range(len(texts))]

        def run(batch: Batch) -> None:
            self.sessions.run(batch)

        call = self.scheduler.call(run, self.limit)
        call.put(each[-1:] * self.limit.lanes)
        while call.unfinished:
            call.progress()
        with self.scheduler.busy():
            for batch in each:
                self.sessions.warm_up_alone(batch, threads=self.limit.lanes)
        self.embed(["a"], None)  # the stages around the model

    def windows(self, texts: Iterator[str], of_all: Vectors | None) -> Iterator[Window]:
        """The texts, window by window."""
        reader = Reader(
            texts,
            self.held,
            prompt=self.prompt,
            budget=self.budget,
            cache=self.cache,
            counters=self.counters,
            vectors=of_all,
        )
        return reader.windows()

    def run(
        self, call: Call[Item], windows: Iterator[Window], *, errors_last: bool
    ) -> Iterator[Vectors]:
        """Run the model on windows of texts; the next is read while the lanes work on one.

        Args:
            call: whose work it is.
            windows: of the texts.
            errors_last: whether the vectors of texts that were read come before an error of
                `windows`.
        """
        ahead: deque[Window] = deque()
        error: Exception | None = None
        try:
            while True:
                try:
                    window = next(windows, None)
                except Exception as caught:
                    if not errors_last:
                        raise
                    window, error = None, caught
                if window is None:
                    break
                self.start(call, window)
                ahead.append(window)
                if len(ahead) == _AHEAD:
                    yield self.whole(call, ahead.popleft())
            while ahead:
                yield self.whole(call, ahead.popleft())
            if error is not None:
                raise error
        finally:
            call.drop()

    def start(self, call: Call[Item], window: Window) -> None:
        """Have the batches of a window run."""
        plan = batches.plan(
            window.tokens.lengths,
            budget=self.budget,
            one_by_one=self.sessions.one_by_one,
            always_masked=self.sessions.always_masked,
            long_text=self.sessions.long_text,
        )
        items = [(window, rows) for rows in plan]
        window.unfinished = len(items)
        self.advance(window.texts - len(window.rows) if items else window.texts)
        if not items:
            return
        # A call that failed is not begun again: `put` takes nothing of it.
        lone = window.last and len(items) == 1 and call.error is None
        if lone and self.scheduler.run_alone(partial(self.alone, items[0])):
            self.finished(items)
        else:
            call.put(items)

    def whole(self, call: Call[Item], window: Window) -> Vectors:
        """The vectors of a window, when all its batches have run."""
        while window.unfinished:
            finished, _ = call.progress()
            self.finished(finished)
        for row, where in window.repeated:
            window.vectors[row] = window.vectors[where]
        self.counters.add(texts=window.texts, repeated_texts=len(window.repeated))
        return window.vectors

    def on_a_lane(self, item: Item) -> None:
        """Embed one batch, beside others."""
        window, rows = item
        batch = batches.pack(window.tokens, rows)
        self.keep(batch, self.sessions.run(batch), window)

    def alone(self, item: Item) -> None:
        """Embed one batch that has the machine for itself."""
        window, rows = item
        batch = batches.pack(window.tokens, rows)
        self.keep(batch, self.sessions.run_alone(batch, threads=self.limit.lanes), window)

    def keep(self, batch: Batch, token_vectors: TokenVectors, window: Window) -> None:
        """Pool, finish and store the vectors of a batch."""
        rows = [window.rows[row] for row in batch.rows]
        # Numbers that overflow are an error below, not a warning here.
        with np.errstate(over="ignore", invalid="ignore"):
            pooled = pooling.pool(token_vectors, batch.lengths, self.spec.pooling)
            finished = vectors.finish(pooled, dim=self.spec.dim, normalize=self.spec.normalize)
        finite = np.isfinite(finished).all(axis=1)
        if not finite.all():
            index = window.first + rows[np.argmin(finite)]
            raise InferenceError(
                batch.shape, f"the vector of the text at index {index} is not finite"
            )
        window.vectors[rows] = finished
        texts, longest = batch.shape
        self.counters.add(batches=1, padded_tokens=texts * longest)

    def finished(self, items: list[Item]) -> None:
        """Count batches that have run, and cache the vectors of windows that are whole."""
        for window, rows in items:
            # By tokens: the first batches of a window hold its longest texts.
            lengths = window.tokens.lengths
            self.advance(len(lengths) * float(lengths[rows].sum() / lengths.sum()))
            window.unfinished -= 1
            if not window.unfinished and self.cache is not None:
                self.cache.put_many(window.keys, window.vectors[window.rows])

    def advance(self, texts: float) -> None:
        """Show that so many more are done."""
        self.done += texts
        if self.bar is not None:
            self.bar.update(round(self.done) - self.bar.n)
