from __future__ import annotations

import dataclasses
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from onnx_embeddings.stats import Counters, EngineStats


def test_counts_start_at_zero() -> None:
    assert Counters().read() == EngineStats()
    assert set(dataclasses.astuple(EngineStats())) == {0}


def test_counts_add_up() -> None:
    counters = Counters()
    counters.add(texts=3, tokens=10)
    counters.add(texts=1, batches=1)
    assert counters.read() == EngineStats(texts=4, tokens=10, batches=1)


def test_what_was_read_does_not_change() -> None:
    counters = Counters()
    before = counters.read()
    counters.add(texts=1)
    assert before.texts == 0
    with pytest.raises(dataclasses.FrozenInstanceError):
        before.texts = 5  # type: ignore[misc]


def test_a_count_of_another_name_is_a_mistake() -> None:
    with pytest.raises((KeyError, TypeError)):
        Counters().add(words=1)


def test_threads_lose_no_count() -> None:
    counters = Counters()
    barrier = threading.Barrier(8)

    def count(number: int) -> None:
        barrier.wait(20)
        for _ in range(500):
            counters.add(texts=1, tokens=number)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(count, range(8)))
    assert counters.read() == EngineStats(texts=4000, tokens=500 * sum(range(8)))


def test_each_engine_counts_for_itself() -> None:
    one, other = Counters(), Counters()
    one.add(texts=1)
    assert other.read().texts == 0
