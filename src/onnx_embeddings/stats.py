"""What an engine has done so far."""

from __future__ import annotations

import threading
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineStats:
    """Counts since the engine was made.

    Attributes:
        texts: texts embedded, however.
        cached_texts: those of them whose vector was in the cache.
        repeated_texts: those of them that a call, or the window of a stream, held more than once,
            computed once.
        tokens: tokens that went through the model, special tokens included.
        cut_texts: texts that were longer than the limit and were cut.
        batches: runs of the model.
        padded_tokens: texts times tokens of the longest, summed over the batches.
    """

    texts: int = 0
    cached_texts: int = 0
    repeated_texts: int = 0
    tokens: int = 0
    cut_texts: int = 0
    batches: int = 0
    padded_tokens: int = 0


class Counters:
    """`EngineStats` that many threads add to."""

    def __init__(self) -> None:
        """Start at zero."""
        self._lock = threading.Lock()
        self._counts = asdict(EngineStats())

    def add(self, **counts: int) -> None:
        """Add to the fields named."""
        with self._lock:
            for name, count in counts.items():
                self._counts[name] += count

    def read(self) -> EngineStats:
        """The counts now."""
        with self._lock:
            return EngineStats(**self._counts)
