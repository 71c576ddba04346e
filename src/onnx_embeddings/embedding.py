"""One call: texts in, vectors out, through all the stages. Only this module knows their order."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from onnx_embeddings import batches, pooling, vectors
from onnx_embeddings.errors import InferenceError, InputError
from onnx_embeddings.scheduler import process_scheduler

if TYPE_CHECKING:
    from tqdm import tqdm

    from onnx_embeddings.arrays import Batch, Lengths, Tokens, TokenVectors, Vectors
    from onnx_embeddings.config import EngineConfig
    from onnx_embeddings.scheduler import LaneLimit
    from onnx_embeddings.shared import Lease
    from onnx_embeddings.stats import Counters

    Item = tuple[Tokens, Lengths, int]
    """A window's tokens, the rows of one batch in it, and where in the call the window starts."""

_WINDOW = 1024  # texts that are sorted by length and planned together
_MANY = sys.maxsize
_BATCHES_AHEAD = 16  # unfinished batches that keep the lanes busy while the next window is read


class Embedding:
    """One call of `embed_documents` or `embed_queries`."""

    def __init__(
        self, held: Lease, config: EngineConfig, limit: LaneLimit, counters: Counters, texts: int
    ) -> None:
        """A call with so many texts, of one engine."""
        self.spec = held.spec
        self.encoder = held.encoder
        self.sessions = held.sessions
        self.limit = limit
        self.budget = config.batch_tokens
        self.counters = counters
        self.scheduler = process_scheduler()
        # Zeros stay for a text without a single token.
        self.vectors = np.zeros((texts, held.spec.dim), np.float32)

    def embed(self, texts: list[str], bar: tqdm[Any] | None) -> Vectors:
        """(N, D) float32 vectors of checked, prompted texts.

        Raises:
            InputError: a text is too long, and the spec says that this is an error.
            InferenceError: the runtime failed, or a vector is not finite.
        """
        call = self.scheduler.call(self.on_a_lane, self.limit)
        done = 0.0
        for first in range(0, len(texts), _WINDOW):
            tokens = self.tokens(texts, first)
            planned = [(tokens, rows, first) for rows in self.plan(tokens)]
            last = first + _WINDOW >= len(texts)
            lone = last and first == 0 and len(planned) == 1
            if lone and self.scheduler.run_alone(partial(self.alone, *planned)):
                break
            call.put(planned)
            at_most, left = 0 if last else _BATCHES_AHEAD, _MANY
            while left > at_most:
                finished, left = call.progress(at_most=at_most)
                done += sum(_share(item) for item in finished)
                if bar is not None:
                    bar.update(int(done) - bar.n)
        if bar is not None:
            bar.update(len(texts) - bar.n)
        return self.vectors

    def tokens(self, texts: list[str], first: int) -> Tokens:
        """The token ids of a window of texts."""
        with self.scheduler.busy():
            tokens = self.encoder.encode(texts[first : first + _WINDOW])
        too_long = tokens.counts > self.spec.max_tokens
        if self.spec.long_text == "error" and too_long.any():
            row = int(np.argmax(too_long))
            with self.scheduler.busy():
                (count,) = self.encoder.count([texts[first + row]])
            raise InputError(
                f"{count} tokens, and this model takes {self.spec.max_tokens}",
                index=first + row,
                hint="split it, or set long_text='truncate' to have it cut",
            )
        self.counters.add(
            texts=len(tokens.ids),
            tokens=int(tokens.lengths.sum()),
            cut_texts=int(np.count_nonzero(too_long)),
        )
        return tokens

    def plan(self, tokens: Tokens) -> list[Lengths]:
        """The rows of each batch."""
        one_by_one = self.sessions.one_by_one
        return batches.plan(tokens.lengths, budget=self.budget, one_by_one=one_by_one)

    def on_a_lane(self, item: Item) -> None:
        """Embed one batch, beside others."""
        tokens, rows, first = item
        batch = batches.pack(tokens, rows)
        self.keep(batch, self.sessions.run(batch), first)

    def alone(self, item: Item) -> None:
        """Embed one batch that has the machine for itself."""
        tokens, rows, first = item
        batch = batches.pack(tokens, rows)
        self.keep(batch, self.sessions.run_alone(batch, threads=self.limit.lanes), first)

    def keep(self, batch: Batch, token_vectors: TokenVectors, first: int) -> None:
        """Pool, finish and store the vectors of a batch."""
        # Numbers that overflow are an error below, not a warning here.
        with np.errstate(over="ignore", invalid="ignore"):
            pooled = pooling.pool(token_vectors, batch.lengths, self.spec.pooling)
            finished = vectors.finish(pooled, dim=self.spec.dim, normalize=self.spec.normalize)
        finite = np.isfinite(finished).all(axis=1)
        if not finite.all():
            index = first + int(batch.rows[np.argmin(finite)])
            raise InferenceError(
                batch.shape, f"the vector of the text at index {index} is not finite"
            )
        self.vectors[batch.rows + first] = finished
        texts, longest = batch.shape
        self.counters.add(batches=1, padded_tokens=texts * longest)


def _share(item: Item) -> float:
    """How many texts of its window a batch is worth, by tokens: the first ones are the longest."""
    tokens, rows, _ = item
    return len(tokens.ids) * float(tokens.lengths[rows].sum() / tokens.lengths.sum())
