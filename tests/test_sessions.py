from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import numpy as np
import pytest

import onnx_embeddings
from onnx_embeddings import Engine, EngineConfig, batches
from onnx_embeddings.runtime import sessions
from onnx_embeddings.runtime.sessions import Sessions
from onnx_embeddings.testing import write_tiny_model

if TYPE_CHECKING:
    from pathlib import Path

    from onnx_embeddings.arrays import Batch, Graph


@pytest.fixture
def graph(tiny: Engine) -> Graph:
    graph: Graph = tiny._opened().sessions._graph
    return graph


def batch_of(engine: Engine, *texts: str) -> Batch:
    tokens = engine._opened().encoder.encode(texts)
    return batches.pack(tokens, np.arange(len(texts)))


def wide_sessions(found: Sessions) -> int:
    return sum(alone._wide is not None for alone in found._alone.values())


def test_lone_batches_have_the_same_bits_on_every_kind_of_session(
    tiny: Engine, graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "_CALLS_TO_NEXT_TRIALS", 7)
    found = Sessions(graph)
    for batch in (
        batch_of(tiny, ""),
        batch_of(tiny, "the cat sits", "a"),
        batch_of(tiny, "a " * 99),
    ):
        expected = found.run(batch)
        for threads in (1, 2, 3):
            for _ in range(40):  # through several trials and decisions
                np.testing.assert_array_equal(found.run_alone(batch, threads=threads), expected)


def test_who_embeds_two_texts_does_not_pay_for_a_second_session(tiny: Engine, graph: Graph) -> None:
    found = Sessions(graph)
    batch = batch_of(tiny, "the cat")
    for _ in range(2):
        found.run_alone(batch, threads=2)
    assert wide_sessions(found) == 0
    found.run_alone(batch, threads=2)
    assert wide_sessions(found) == 1


def test_one_thread_never_makes_a_second_session(tiny: Engine, graph: Graph) -> None:
    found = Sessions(graph)
    batch = batch_of(tiny, "the cat")
    for _ in range(5):
        found.run_alone(batch, threads=1)
    assert wide_sessions(found) == 0


def test_the_faster_session_is_taken_after_the_trials(tiny: Engine, graph: Graph) -> None:
    found = Sessions(graph)
    batch = batch_of(tiny, "the cat")
    for _ in range(12):
        found.run_alone(batch, threads=2)
    alone = found._alone[2]
    (size,) = alone._faster
    lane, wide = alone._seconds[size]
    assert (len(lane), len(wide)) == (5, 5)
    faster = alone._wide if min(wide) < min(lane) else alone._lane
    assert alone._faster[size] is faster


@pytest.mark.parametrize("threads", [1, 2])
def test_after_warming_up_the_faster_session_is_known(
    tiny: Engine, graph: Graph, threads: int
) -> None:
    found = Sessions(graph)
    for text in ("", "the cat sits on", "a " * 30):
        found.warm_up_alone(batch_of(tiny, text), threads=threads)
    sizes = [len(alone._faster) for alone in found._alone.values()]
    assert sizes == ([3] if threads > 1 else [])


def test_lone_texts_go_on_when_the_compiled_folder_has_gone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = write_tiny_model(tmp_path / "model", seed=7411)
    config = EngineConfig(home=tmp_path / "home", lanes=2)
    with onnx_embeddings.load(folder, config=config) as engine:
        expected = engine.embed_queries(["the cat"])
        shutil.rmtree(tmp_path / "home")
        for _ in range(20):
            np.testing.assert_array_equal(engine.embed_queries(["the cat"]), expected)
    assert [record.message for record in caplog.records if "one thread" in record.message]
    assert len(caplog.records) == 1
