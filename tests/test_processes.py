"""Forks, pools, pickles and the end of the interpreter, each in a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest
from conftest import of_us

if TYPE_CHECKING:
    from pathlib import Path

SECONDS = 60
BEGIN = """
import os, sys, threading
import numpy as np
import onnx_embeddings
TEXTS = ["the cat sits", "a dog", "", "the sea " * 30] * 5
"""


def run(code: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """What a fresh interpreter does with this code; warnings are errors there too."""
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", BEGIN + code, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )


def assert_fine(result: subprocess.CompletedProcess[str]) -> None:
    assert (result.returncode, of_us(result.stderr), result.stdout) == (0, "", "fine\n")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_an_engine_works_on_in_a_forked_child_and_in_its_child(tiny_folder: Path) -> None:
    code = """
engine = onnx_embeddings.load(sys.argv[1])
expected = engine.embed_documents(TEXTS)

def child(depth):
    pid = os.fork()
    if pid:
        assert os.waitpid(pid, 0)[1] == 0
        return
    assert np.array_equal(engine.embed_documents(TEXTS), expected)
    assert np.array_equal(engine.embed_queries(TEXTS[:1]), expected[:1])
    if depth:
        child(depth - 1)
    engine.close()
    os._exit(0)

for _ in range(3):
    child(1)
assert np.array_equal(engine.embed_documents(TEXTS), expected)
print("fine")
"""
    assert_fine(run(code, tiny_folder))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.parametrize("end", ["os._exit(0)", "sys.exit(0)"])
def test_a_stream_goes_on_in_the_parent_of_a_fork_only(tiny_folder: Path, end: str) -> None:
    code = """
from onnx_embeddings.errors import ClosedError
engine = onnx_embeddings.load(sys.argv[1])
texts = [f"{i} the cat" for i in range(3000)]
expected = engine.embed_documents(texts)
begun, waiting, forgotten = (engine.iter_documents(iter(texts)) for _ in range(3))
found = [next(begun)]
next(forgotten)
for _ in range(5):
    found += [next(begun) for _ in range(150)]
    if not (pid := os.fork()):
        for stream in (begun, waiting):
            try:
                next(stream)
            except ClosedError as error:
                assert "in the process that began it" in str(error)
            else:
                raise AssertionError("the child took a vector")
        del forgotten
        assert np.array_equal(engine.embed_documents(texts), expected)
        assert np.array_equal(list(engine.iter_documents(texts)), expected)
        engine.close()
        END
    assert os.waitpid(pid, 0)[1] == 0
found += begun
assert np.array_equal(found, expected)
assert np.array_equal(list(waiting), expected)
print("fine")
"""
    assert_fine(run(code.replace("END", end), tiny_folder))


def test_the_program_may_end_in_the_middle_of_a_stream(tiny_folder: Path) -> None:
    code = """
from itertools import count
stream = onnx_embeddings.load(sys.argv[1]).iter_documents(f"{i} the cat" for i in count())
for _ in range(100):
    next(stream)
print("fine")
"""
    assert_fine(run(code, tiny_folder))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_child_that_only_ends_ends_well(tiny_folder: Path) -> None:
    code = """
engine = onnx_embeddings.load(sys.argv[1])
for _ in range(5):
    engine.embed_documents(TEXTS)
    engine.embed_documents(TEXTS[:1])
if not (pid := os.fork()):
    del engine
    sys.exit(0)
assert os.waitpid(pid, 0)[1] == 0
print("fine")
"""
    assert_fine(run(code, tiny_folder))


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_an_engine_goes_into_a_pool(tiny_folder: Path, tmp_path: Path, method: str) -> None:
    script = tmp_path / "pool.py"
    script.write_text(
        BEGIN
        + """
import multiprocessing

def embed(engine, texts):
    return engine.embed_documents(texts)

if __name__ == "__main__":
    engine = onnx_embeddings.load(sys.argv[1])
    expected = engine.embed_documents(TEXTS)
    context = multiprocessing.get_context(sys.argv[2])
    with context.Pool(2) as pool:
        results = pool.starmap(embed, [(engine, TEXTS)] * 4)
    assert all(np.array_equal(result, expected) for result in results)
    print("fine")
"""
    )
    result = subprocess.run(
        [sys.executable, "-W", "error", script, tiny_folder, method],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert_fine(result)


def test_an_exit_handler_may_still_embed(tiny_folder: Path) -> None:
    code = """
import atexit
engine = onnx_embeddings.load(sys.argv[1])
expected = engine.embed_documents(TEXTS)

@atexit.register
def last():
    assert np.array_equal(engine.embed_documents(TEXTS), expected)
    print("fine")
"""
    assert_fine(run(code, tiny_folder))


def test_a_thread_may_outlive_the_main_one(tiny_folder: Path) -> None:
    code = """
engine = onnx_embeddings.load(sys.argv[1])
started = threading.Event()

def work():
    started.set()
    for _ in range(20):
        engine.embed_documents(TEXTS)
    print("fine")

threading.Thread(target=work).start()
started.wait(20)
"""
    assert_fine(run(code, tiny_folder))


def test_the_program_may_end_in_the_middle_of_a_daemons_work(tiny_folder: Path) -> None:
    code = """
engine = onnx_embeddings.load(sys.argv[1])
started = threading.Event()

def work():
    while True:
        engine.embed_documents(TEXTS * 20)
        started.set()

threading.Thread(target=work, daemon=True).start()
started.wait(20)
print("fine")
"""
    assert_fine(run(code, tiny_folder))


def test_a_second_start_touches_no_network_and_imports_nothing_heavy(tiny_folder: Path) -> None:
    onnx_embeddings_start = """
import socket

def refused(*arguments, **settings):
    raise AssertionError("the network was touched")

socket.socket.connect = socket.getaddrinfo = socket.create_connection = refused
with onnx_embeddings.load(sys.argv[1]) as engine:
    assert engine.embed_documents(TEXTS).shape == (20, 32)
    engine.count_tokens(TEXTS)
heavy = {"torch", "transformers", "sentence_transformers", "huggingface_hub", "onnx", "safetensors"}
assert not heavy & set(sys.modules), heavy & set(sys.modules)
print("fine")
"""
    result = run(onnx_embeddings_start.replace("assert not heavy", "heavy and None #"), tiny_folder)
    assert_fine(result)
    assert_fine(run(onnx_embeddings_start, tiny_folder))


def test_the_runtime_reports_nothing_to_its_maker(tiny_folder: Path, tmp_path: Path) -> None:
    code = """
import os, pathlib
os.environ["HOME"] = os.environ["XDG_CACHE_HOME"] = sys.argv[2]
os.environ.pop("ORT_DISABLE_TELEMETRY", None)
with onnx_embeddings.load(sys.argv[1]) as engine:
    engine.embed_documents(TEXTS)
assert "ORT_DISABLE_TELEMETRY" not in os.environ
assert not list(pathlib.Path(sys.argv[2]).iterdir())
print("fine")
"""
    (tmp_path / "empty").mkdir()
    assert_fine(run(code, tiny_folder, tmp_path / "empty"))


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signal for a process")
def test_an_interrupt_ends_the_program_and_does_not_abort_it(
    tiny_folder: Path, tmp_path: Path
) -> None:
    code = """
import pathlib
engine = onnx_embeddings.load(sys.argv[1])

def work():
    while True:
        engine.embed_documents(TEXTS)

threading.Thread(target=work, daemon=True).start()
pathlib.Path(sys.argv[2]).touch()
while True:
    engine.embed_documents(TEXTS * 200)
"""
    started = tmp_path / "started"
    for _ in range(3):
        with subprocess.Popen(
            [sys.executable, "-W", "error", "-c", BEGIN + code, tiny_folder, started],
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        ) as process:
            deadline = time.monotonic() + SECONDS
            while not started.exists() and process.poll() is None:
                assert time.monotonic() < deadline
            process.send_signal(signal.SIGINT)
            _, stderr = process.communicate(timeout=SECONDS)
        started.unlink()
        assert stderr.splitlines()[-1] == "KeyboardInterrupt"
        assert process.returncode == -signal.SIGINT
