"""One call: texts in, vectors out, through all the stages. Only this module knows their order."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from onnx_embeddings import batches, pooling, text, vectors
from onnx_embeddings.errors import InferenceError, InputError
from onnx_embeddings.keys import keys
from onnx_embeddings.scheduler import process_scheduler

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tqdm import tqdm

    from onnx_embeddings.arrays import Batch, Lengths, Tokens, TokenVectors, Vectors
    from onnx_embeddings.cache import VectorCache
    from onnx_embeddings.config import EngineConfig
    from onnx_embeddings.scheduler import Call, LaneLimit
    from onnx_embeddings.shared import Lease
    from onnx_embeddings.stats import Counters

    Item = tuple["Window", Lengths]
    """A window, and the rows of it that make one batch."""

_WINDOW = 1024  # texts that are looked up, or sorted by length and planned, together
_MANY = sys.maxsize
_BATCHES_AHEAD = 16  # unfinished batches that keep the lanes busy while the next window is read


@dataclass(slots=True, kw_only=True)
class Window:
    """Texts that are planned together.

    Attributes:
        places: where they stand in the call.
        keys: theirs in the cache; none without a cache.
        tokens: theirs.
        unfinished: batches of it that have not run yet.
    """

    places: Lengths
    keys: list[bytes]
    tokens: Tokens
    unfinished: int = 0


class Embedding:
    """One call of `embed_documents` or `embed_queries`."""

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
        self.spec = held.spec
        self.encoder = held.encoder
        self.sessions = held.sessions
        self.limit = limit
        self.budget = config.batch_tokens
        self.counters = counters
        self.cache = cache
        self.prompt = prompt
        self.scheduler = process_scheduler()
        self.vectors = np.zeros((0, held.spec.dim), np.float32)
        self.done = 0.0  # texts, for the bar
        self.bar: tqdm[Any] | None = None

    def embed(self, texts: list[str], bar: tqdm[Any] | None) -> Vectors:
        """(N, D) float32 vectors of checked texts.

        Raises:
            InputError: a text is too long, and the spec says that this is an error.
            InferenceError: the runtime failed, or a vector is not finite.
        """
        self.bar = bar
        # Zeros stay for a text without a single token.
        self.vectors = np.zeros((len(texts), self.spec.dim), np.float32)
        distinct, repeated = _distinct(texts)
        call = self.scheduler.call(self.on_a_lane, self.limit)
        try:
            self.run(call, self.missing(texts, distinct))
        except BaseException:
            call.drop()
            raise
        for place, where in repeated:
            self.vectors[place] = self.vectors[where]
        self.counters.add(texts=len(texts), repeated_texts=len(repeated))
        if bar is not None:
            bar.update(len(texts) - bar.n)
        return self.vectors

    def run(self, call: Call[Item], missing: Iterator[Window]) -> None:
        """Run the model on windows of texts; the next is read while the lanes work on one."""
        window, first = next(missing, None), True
        while window is not None:
            planned = [(window, rows) for rows in self.plan(window.tokens)]
            window.unfinished = len(planned)
            if first and len(planned) == 1:
                following = next(missing, None)
                work = partial(self.alone, *planned)
                if following is None and self.scheduler.run_alone(work):
                    self.finished(planned)
                    return
                call.put(planned)
            else:
                call.put(planned)
                following = next(missing, None)
            at_most, left = 0 if following is None else _BATCHES_AHEAD, _MANY
            while left > at_most:
                finished, left = call.progress(at_most=at_most)
                self.finished(finished)
            window, first = following, False

    def missing(self, texts: list[str], places: list[int]) -> Iterator[Window]:
        """Windows of the texts that the cache does not have; the vectors of the others are set."""
        wanted: list[int] = []
        wanted_keys: list[bytes] = []
        for first in range(0, len(places), _WINDOW):
            asked = places[first : first + _WINDOW]
            if self.cache is None:
                yield self.window(texts, asked, [])
                continue
            of_asked = keys(self.spec, self.prompt, [texts[place] for place in asked])
            found, vectors = self.cache.get_many(of_asked, self.spec.dim)
            self.vectors[[asked[index] for index in found]] = vectors
            self.advance(len(found))
            self.counters.add(cached_texts=len(found))
            there = set(found)
            wanted += [place for index, place in enumerate(asked) if index not in there]
            wanted_keys += [key for index, key in enumerate(of_asked) if index not in there]
            while len(wanted) >= _WINDOW:
                yield self.window(texts, wanted[:_WINDOW], wanted_keys[:_WINDOW])
                del wanted[:_WINDOW], wanted_keys[:_WINDOW]
        if wanted:
            yield self.window(texts, wanted, wanted_keys)

    def window(self, texts: list[str], places: list[int], of_places: list[bytes]) -> Window:
        """The texts at these places, as tokens."""
        prompted = text.prompted([texts[place] for place in places], self.prompt)
        with self.scheduler.busy():
            tokens = self.encoder.encode(prompted)
        too_long = tokens.counts > self.spec.max_tokens
        if self.spec.long_text == "error" and too_long.any():
            row = int(np.argmax(too_long))
            with self.scheduler.busy():
                (count,) = self.encoder.count([prompted[row]])
            raise InputError(
                f"{count} tokens, and this model takes {self.spec.max_tokens}",
                index=places[row],
                hint="split it, or set long_text='truncate' to have it cut",
            )
        self.counters.add(
            tokens=int(tokens.lengths.sum()), cut_texts=int(np.count_nonzero(too_long))
        )
        return Window(places=np.array(places), keys=of_places, tokens=tokens)

    def plan(self, tokens: Tokens) -> list[Lengths]:
        """The rows of each batch."""
        one_by_one = self.sessions.one_by_one
        return batches.plan(tokens.lengths, budget=self.budget, one_by_one=one_by_one)

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
        places = window.places[batch.rows]
        # Numbers that overflow are an error below, not a warning here.
        with np.errstate(over="ignore", invalid="ignore"):
            pooled = pooling.pool(token_vectors, batch.lengths, self.spec.pooling)
            finished = vectors.finish(pooled, dim=self.spec.dim, normalize=self.spec.normalize)
        finite = np.isfinite(finished).all(axis=1)
        if not finite.all():
            index = int(places[np.argmin(finite)])
            raise InferenceError(
                batch.shape, f"the vector of the text at index {index} is not finite"
            )
        self.vectors[places] = finished
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
                self.cache.put_many(window.keys, self.vectors[window.places])

    def advance(self, texts: float) -> None:
        """Show that so many more are done."""
        self.done += texts
        if self.bar is not None:
            self.bar.update(int(self.done) - self.bar.n)


def _distinct(texts: list[str]) -> tuple[list[int], list[tuple[int, int]]]:
    """The places of all different texts, and of each other one with where it stands first."""
    first: dict[str, int] = {}
    repeated = []
    for place, one in enumerate(texts):
        where = first.setdefault(one, place)
        if where != place:
            repeated.append((place, where))
    return list(first.values()), repeated
