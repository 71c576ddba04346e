"""Processes that are killed while they fetch or compile, and many that start at once.

`ONNX_EMBEDDINGS_KILLS=200 pytest tests/test_interrupted.py` kills as many as the name says.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hub_server import HubServer
from test_engine import TEXTS

import onnx_embeddings
from onnx_embeddings import EngineConfig
from onnx_embeddings.testing import write_tiny_model

if TYPE_CHECKING:
    from collections.abc import Iterator

    from onnx_embeddings.arrays import Vectors

NAME = "org/tiny"
KILLS = int(os.environ.get("ONNX_EMBEDDINGS_KILLS", "12"))
LARGE = {"hidden_size": 192, "num_attention_heads": 6, "intermediate_size": 3000}

# The library writes what came in steps of 10 MB; in smaller ones here, as the model is small.
LOADS = """
import sys, numpy as np
import onnx_embeddings.engine
from huggingface_hub import constants
constants.DOWNLOAD_CHUNK_SIZE = 2**14
print("started", flush=True)
with onnx_embeddings.load(sys.argv[1], precision=sys.argv[2]) as engine:
    vectors = engine.embed_documents(["the cat sits", "a", "red moon"])
print(np.abs(vectors).sum())
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write_tiny_model(tmp_path / "source", config=LARGE, seed=31)


@pytest.fixture
def hub(source: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HubServer]:
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(name, "127.0.0.1,localhost")
    monkeypatch.setenv("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    files = {p.relative_to(source).as_posix(): p for p in source.rglob("*") if p.is_file()}
    with HubServer() as server:
        server.add(NAME, {name: file.read_bytes() for name, file in files.items()})
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        yield server


def vectors_of(model: str | Path, precision: str, home: Path | None = None) -> Vectors:
    config = EngineConfig(home=home) if home is not None else None
    with onnx_embeddings.load(model, precision=precision, config=config) as engine:
        return engine.embed_documents(TEXTS)


def start(model: str, precision: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", LOADS, model, precision],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "started\n"
    return process


def duration(model: str, precision: str) -> float:
    """Seconds from the start of the work to its end, of one that nobody kills."""
    process = start(model, precision)
    begun = time.perf_counter()
    process.communicate(timeout=60)
    return time.perf_counter() - begun


def killed_at(moment_s: float, model: str, precision: str) -> bool:
    """Start, and kill after so many seconds; whether it was before its end."""
    process = start(model, precision)
    time.sleep(moment_s)
    alive = process.poll() is None
    process.kill()
    _, complaints = process.communicate(timeout=60)
    # Who came to the end did so well, whatever those before left behind.
    assert process.returncode in {0, -9}, complaints
    return alive


@pytest.mark.slow
def test_a_download_may_be_killed_at_any_moment(hub: HubServer, source: Path) -> None:
    expected = vectors_of(source, "fp32", source.parent / "other")
    cache = Path(os.environ["HF_HOME"])
    moments = random.Random(1)  # noqa: S311
    hub.pause_s = 0.003  # the weights take about a second
    whole_s = duration(NAME, "fp32")
    killed = partly = 0
    for _ in range(KILLS):
        if hub.whole.count("model.safetensors") or not part_of(NAME):
            shutil.rmtree(cache, ignore_errors=True)  # begin anew after each one that finished
            hub.whole.clear()
        killed += killed_at(moments.uniform(0, whole_s), NAME, "fp32")
        partly += part_of(NAME) > 0
        # A file that was there was not fetched again.
        assert len(set(hub.whole)) == len(hub.whole)
    hub.pause_s = 0
    np.testing.assert_array_equal(vectors_of(NAME, "fp32"), expected)
    assert len(set(hub.whole)) == len(hub.whole)
    assert killed > KILLS / 2
    assert partly > KILLS / 8
    hub.requests.clear()
    np.testing.assert_array_equal(vectors_of(NAME, "fp32"), expected)
    assert hub.requests == []


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_a_compilation_may_be_killed_at_any_moment(
    source: Path, tmp_path: Path, precision: str
) -> None:
    expected = vectors_of(source, precision, tmp_path / "other")
    compiled = tmp_path / "home" / "compiled"
    moments = random.Random(2)  # noqa: S311
    whole_s = duration(str(source), precision)
    within = 0
    for _ in range(KILLS):
        shutil.rmtree(compiled, ignore_errors=True)
        killed_at(moments.uniform(0, whole_s), str(source), precision)
        left = list(compiled.iterdir()) if compiled.is_dir() else []
        within += any(place.name.startswith(".tmp-") for place in left)
        if moments.random() < 0.2:  # go on from what is there
            np.testing.assert_array_equal(vectors_of(source, precision), expected)
            # What those that were killed left behind is gone.
            (place,) = compiled.iterdir()
            assert not place.name.startswith(".")
    np.testing.assert_array_equal(vectors_of(source, precision), expected)
    assert within > KILLS / 20


@pytest.mark.slow
def test_a_large_file_goes_on_where_its_process_was_killed(hub: HubServer, source: Path) -> None:
    expected = vectors_of(source, "fp32", source.parent / "other")
    size = (source / "model.safetensors").stat().st_size
    hub.pause_s = 0.05
    for _ in range(3):
        process = start(NAME, "fp32")
        deadline = time.monotonic() + 30
        before = len(hub.ranges)
        while not part_of(NAME) and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(0.3)
        process.kill()
        process.communicate(timeout=60)
        assert 0 < part_of(NAME) < size, (part_of(NAME), before)
    there = part_of(NAME)
    hub.pause_s = 0
    hub.ranges.clear()
    np.testing.assert_array_equal(vectors_of(NAME, "fp32"), expected)
    assert hub.ranges[0].startswith(f"model.safetensors bytes={there}-")
    assert "model.safetensors" not in hub.whole
    assert part_of(NAME) == 0


def part_of(model: str) -> int:
    """Bytes of the part of a large file that is there."""
    blobs = Path(os.environ["HF_HOME"]) / "hub" / f"models--{model.replace('/', '--')}" / "blobs"
    return sum(part.stat().st_size for part in blobs.glob("*.resumable.incomplete"))


@pytest.mark.slow
def test_processes_that_start_at_once_fetch_a_model_once(hub: HubServer, source: Path) -> None:
    expected = vectors_of(source, "fp32", source.parent / "other")
    hub.pause_s = 0.005
    processes = [start(NAME, "fp32") for _ in range(4)]
    results = [process.communicate(timeout=60) for process in processes]
    assert [process.returncode for process in processes] == [0] * 4, results
    assert len({printed for printed, _ in results}) == 1
    assert sorted(set(hub.whole)) == sorted(hub.whole)
    np.testing.assert_array_equal(vectors_of(NAME, "fp32"), expected)
