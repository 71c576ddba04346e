"""Texts in, windows out: texts that are looked up, sorted by length and run together, as tokens."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import chain, islice, repeat
from typing import TYPE_CHECKING

import numpy as np

from onnx_embeddings import text
from onnx_embeddings.arrays import Tokens
from onnx_embeddings.errors import InputError
from onnx_embeddings.keys import keys
from onnx_embeddings.scheduler import process_scheduler

if TYPE_CHECKING:
    from collections.abc import Iterator

    from onnx_embeddings.arrays import Vectors
    from onnx_embeddings.cache import VectorCache
    from onnx_embeddings.shared import Lease
    from onnx_embeddings.stats import Counters

_FIRST_SIZE = 64  # small, so that the lanes start early
_SECOND_SIZE_OF_STREAMS = 256  # small, since the first vectors come when it has been read
_SIZE = 1024
_MOST_PARTS = 4  # of that size, in a window whose texts are mostly known or repeated
_CHARACTERS_PER_CELL = 8  # texts of fewer may fit into one batch


@dataclass(slots=True, kw_only=True)
class Window:
    """Texts that stand next to each other in a call and are planned together.

    Attributes:
        first: place in the call of the text that row 0 of `vectors` belongs to.
        vectors: (N, D) float32, where all its vectors go; those that were cached are there.
        texts: how many it has.
        rows: of `vectors`, those that the model must compute.
        keys: theirs in the cache; none without a cache.
        tokens: theirs.
        repeated: rows of texts that the call had before, each with the row where it had it.
        last: whether no text comes after it.
        unfinished: batches of it that have not run yet.
    """

    first: int
    vectors: Vectors
    texts: int
    rows: list[int]
    keys: list[bytes]
    tokens: Tokens
    repeated: list[tuple[int, int]]
    last: bool
    unfinished: int = 0


@dataclass(slots=True)
class _Found:
    """What the cache and the texts before say about the texts of a window."""

    wanted: dict[int, str] = field(default_factory=dict)  # by rows
    keys: list[bytes] = field(default_factory=list)
    cached: list[tuple[list[int], Vectors]] = field(default_factory=list)
    repeated: list[tuple[int, int]] = field(default_factory=list)
    characters: int = 0  # of what is wanted


class Reader:
    """Reads the texts of one call."""

    def __init__(  # noqa: PLR0913  what a call is made of
        self,
        texts: Iterator[str],
        held: Lease,
        *,
        prompt: str,
        budget: int,
        cache: VectorCache | None,
        counters: Counters,
        vectors: Vectors | None,
    ) -> None:
        """Read nothing yet.

        Args:
            texts: valid ones, or an iterator that raises where one is not.
            held: the model.
            prompt: goes before each text.
            budget: cells of a batch.
            cache: where vectors may be found.
            counters: the engine's.
            vectors: (N, D) zeros for all texts: a text is computed once in the whole call. With
                None every window has an array of its own, and knows its own texts only.
        """
        self._texts = texts
        self._spec = held.spec
        self._encoder = held.encoder
        self._prompt = prompt
        self._enough = _CHARACTERS_PER_CELL * budget
        self._cache = cache
        self._counters = counters
        self._vectors = vectors
        self._rows: dict[str, int] = {}
        self._read = 0

    def windows(self) -> Iterator[Window]:
        """All texts; an error comes after the window of the texts before it.

        Raises:
            InputError: a text is too long, and the spec says that this is an error.
            Exception: whatever the iterator raised.
        """
        second = _SIZE if self._vectors is not None else _SECOND_SIZE_OF_STREAMS
        for size in chain((_FIRST_SIZE, second), repeat(_SIZE)):
            window, error = self._window(size)
            # Who gets all vectors at once gets none after an error.
            if window.texts and (error is None or self._vectors is None):
                yield window
            if error is not None:
                raise error
            if window.last:
                return

    def _window(self, size: int) -> tuple[Window, Exception | None]:
        """The next texts, and the error of the text that comes after them."""
        first = before = self._read
        if self._vectors is None:
            self._rows = {}
        else:
            first = 0
        found, last, error = _Found(), False, None
        for _ in range(_MOST_PARTS):
            part, error = self._part(size)
            self._find(part, self._read - first, found)
            self._read += len(part)
            last = len(part) < size
            # Few texts, or short ones, do not fill batches of texts of one length.
            enough = len(found.wanted) >= size // 2 and found.characters >= self._enough
            if last or enough:
                break
        tokens = self._tokens(list(found.wanted.values()))
        rows = list(found.wanted)
        vectors = self._vectors
        if vectors is None:
            vectors = np.zeros((self._read - first, self._spec.dim), np.float32)
        for places, cached in found.cached:
            vectors[places] = cached
        window = Window(
            first=first,
            vectors=vectors,
            texts=self._read - before,
            rows=rows,
            keys=found.keys,
            tokens=tokens,
            repeated=found.repeated,
            last=last,
        )
        too_long = tokens.counts > self._spec.max_tokens
        if self._spec.long_text == "error" and too_long.any():
            index = int(np.argmax(too_long))
            error = self._too_long(found.wanted[rows[index]], first + rows[index])
            window, too_long = _cut(window, index), too_long[:index]
        self._counters.add(
            tokens=int(window.tokens.lengths.sum()), cut_texts=int(np.count_nonzero(too_long))
        )
        return window, error

    def _part(self, size: int) -> tuple[list[str], Exception | None]:
        """So many texts, or those before the end or an error."""
        part: list[str] = []
        try:
            for one in islice(self._texts, size):
                part.append(one)  # noqa: PERF402  an error must not lose those before it
        except Exception as error:  # noqa: BLE001  raised when they are done
            return part, error
        return part, None

    def _find(self, texts: list[str], row: int, found: _Found) -> None:
        """Sort out texts that begin at a row: repeated, cached, or wanted."""
        new: dict[int, str] = {}
        for place, one in enumerate(texts, row):
            where = self._rows.setdefault(one, place)
            if where == place:
                new[place] = one
            else:
                found.repeated.append((place, where))
        if self._cache is not None:
            places = list(new)
            of_new = keys(self._spec, self._prompt, list(new.values()))
            there, vectors = self._cache.get_many(of_new, self._spec.dim)
            found.cached.append(([places[index] for index in there], vectors))
            self._counters.add(cached_texts=len(there))
            for index in there:
                del new[places[index]]
            cached = set(there)
            found.keys += [key for index, key in enumerate(of_new) if index not in cached]
        found.wanted |= new
        found.characters += sum(len(self._prompt) + len(one) for one in new.values())

    def _tokens(self, texts: list[str]) -> Tokens:
        prompted = text.prompted(texts, self._prompt)
        with process_scheduler().busy():
            return self._encoder.encode(prompted)

    def _too_long(self, one: str, index: int) -> InputError:
        with process_scheduler().busy():
            (count,) = self._encoder.count(text.prompted([one], self._prompt))
        return InputError(
            f"{count} tokens, and this model takes {self._spec.max_tokens}",
            index=index,
            hint="split it, or set long_text='truncate' to have it cut",
        )


def _cut(window: Window, end: int) -> Window:
    """The texts before the one at this index of `rows`."""
    row, tokens = window.rows[end], window.tokens
    return replace(
        window,
        vectors=window.vectors[:row],
        texts=row,
        rows=window.rows[:end],
        keys=window.keys[:end],
        tokens=Tokens(
            ids=tokens.ids[:end], lengths=tokens.lengths[:end], counts=tokens.counts[:end]
        ),
        repeated=[(place, where) for place, where in window.repeated if place < row],
        last=True,
    )
