"""The cache of vectors between processes: many at once, forks, pools, full and read-only disks."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from conftest import of_us

import onnx_embeddings
from onnx_embeddings import EngineConfig
from onnx_embeddings.cache import VectorCache

if TYPE_CHECKING:
    from collections.abc import Iterator

    from onnx_embeddings import Engine
    from onnx_embeddings.arrays import Vectors

posix = pytest.mark.skipif(os.name != "posix", reason="needs fork")

DIM = 6
NOBODY = 65534


def key(number: int) -> bytes:
    return number.to_bytes(32, "little")


def vector(number: int) -> Vectors:
    return np.full((1, DIM), number, np.float32)


def python(code: str, *arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-W", "error", "-c", code, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finished(process: subprocess.Popen[str]) -> str:
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert not of_us(err), err
    return out.strip()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def engine(tiny_folder: Path, folder: Path) -> Iterator[Engine]:
    with onnx_embeddings.load(tiny_folder, config=EngineConfig(cache=folder)) as made:
        yield made


OPEN_AND_WRITE = """
import sys, time
from pathlib import Path
import numpy as np
from onnx_embeddings.cache import VectorCache
folder, mine, rounds, start = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
while time.time() < float(start):
    time.sleep(0.001)
errors = 0
for number in range(mine * rounds, mine * rounds + rounds):
    cache = VectorCache(folder, 2**26)
    cache.open()
    key = number.to_bytes(32, "little")
    cache.put_many([key], np.full((1, 6), number, np.float32))
    assert cache.get_many([key], 6)[0] == [0]
    stats = cache.stats()
    errors += stats.errors + stats.damaged
print(errors)
"""


def test_thirty_processes_that_open_a_new_folder_at_once_lose_nothing(folder: Path) -> None:
    import time

    many, rounds = 30, 10
    start = time.time() + 4
    processes = [python(OPEN_AND_WRITE, folder, n, rounds, start) for n in range(many)]
    assert {finished(process) for process in processes} == {"0"}
    total = many * rounds
    places, found = VectorCache(folder, 2**26).get_many([key(n) for n in range(total)], DIM)
    assert places == list(range(total))
    np.testing.assert_array_equal(found[:, 0], np.arange(total))


EMBED = """
import sys
import onnx_embeddings
from onnx_embeddings import EngineConfig
engine = onnx_embeddings.load(sys.argv[1], config=EngineConfig(cache=sys.argv[2]))
engine.embed_documents([f"text {n}" for n in range(200)])
print(engine.stats().cached_texts)
"""


def test_the_next_process_computes_nothing(tiny_folder: Path, folder: Path) -> None:
    assert finished(python(EMBED, tiny_folder, folder)) == "0"
    assert finished(python(EMBED, tiny_folder, folder)) == "200"


def test_a_killed_writer_leaves_a_cache_that_works(tiny_folder: Path, folder: Path) -> None:
    endless = EMBED.replace("print(", "import itertools\nprint('ready', flush=True)\n") + (
        "\nfor n in itertools.count():\n    engine.embed_documents([f'{n} {i}' for i in range(50)])"
    )
    endless = endless.replace("engine.stats().cached_texts)\n", "")
    process = python(endless, tiny_folder, folder)
    assert process.stdout is not None
    assert process.stdout.readline().strip() == "ready"
    process.kill()
    process.communicate(timeout=60)
    assert finished(python(EMBED, tiny_folder, folder)) == "200"


# Forks.


def embedded(texts: list[str]) -> list[float]:
    """What a worker of a pool does; `ENGINE` came along in the fork."""
    assert ENGINE is not None
    found: list[float] = ENGINE.embed_documents(texts)[:, 0].tolist()
    opened = Path("/proc/self/fd")  # Linux
    descriptors = len(list(opened.iterdir())) if opened.exists() else 0
    return [*found, descriptors]


ENGINE: Engine | None = None


@posix
def test_a_pool_of_forks_works_with_the_parents_engine(tiny: Engine, engine: Engine) -> None:
    global ENGINE  # noqa: PLW0603  as programs do it
    ENGINE = engine
    engine.embed_documents(["the cat"])
    parts = [[f"short text {n}" for n in range(first, first + 50)] for first in range(0, 2000, 50)]
    with multiprocessing.get_context("fork").Pool(8) as pool:
        results = pool.map(embedded, parts, chunksize=1)
    expected = [tiny.embed_documents(part)[:, 0].tolist() for part in parts]
    assert [result[:-1] for result in results] == expected
    assert max(result[-1] for result in results) < 100
    # The parent's own cache is whole and has what the children computed.
    before = engine.stats().batches
    engine.embed_documents([text for part in parts for text in part])
    assert engine.stats().batches == before
    assert engine.cache is not None
    assert engine.cache.stats().errors == 0


@posix
def test_a_child_goes_on_when_the_parent_has_gone(tiny_folder: Path, folder: Path) -> None:
    """As a daemon does: the parent ends, and with it the connection that was open at the fork."""
    code = EMBED.replace("print(engine.stats().cached_texts)", "").replace(
        "import sys\n", "import os, sys, time\n"
    ) + (
        "if os.fork():\n"
        "    sys.exit()\n"
        "time.sleep(0.5)\n"
        "engine.embed_documents([f'more {n}' for n in range(200)])\n"
        "engine.embed_documents([f'text {n}' for n in range(200)])\n"
        "print(engine.stats().cached_texts, engine.cache.stats().errors, flush=True)\n"
    )
    assert finished(python(code, tiny_folder, folder)) == "200 0"
    with onnx_embeddings.load(tiny_folder, config=EngineConfig(cache=folder)) as engine:
        engine.embed_documents([f"more {n}" for n in range(200)])
        assert engine.stats().cached_texts == 200


WRITE_AND_FORK = """
import os, sys, threading, time
from pathlib import Path
import numpy as np
from onnx_embeddings.cache import VectorCache
cache = VectorCache(Path(sys.argv[1]), 2**26)
cache.open()
going = True
def write():
    number = 0
    while going:
        number += 1
        keys = [(number * 1000 + n).to_bytes(32, "little") for n in range(300)]
        cache.put_many(keys, np.ones((300, 6), np.float32))
threads = [threading.Thread(target=write) for _ in range(2)]
for thread in threads:
    thread.start()
children = []
for number in range(20):
    time.sleep(0.02)
    child = os.fork()
    if not child:
        mine = VectorCache(Path(sys.argv[1]), 2**26)
        key = number.to_bytes(32, "big")
        mine.put_many([key], np.full((1, 6), number, np.float32))
        found = mine.get_many([key], 6)[0] == [0]
        os._exit(0 if found and not mine.stats().errors else 1)
    children.append(child)
results = [os.waitpid(child, 0)[1] for child in children]
going = False
for thread in threads:
    thread.join()
print(results.count(0), cache.stats().errors)
"""


@posix
def test_children_work_that_are_made_while_threads_write(folder: Path) -> None:
    assert finished(python(WRITE_AND_FORK, folder)) == "20 0"


DAMAGED_START = """
import sys, time
from pathlib import Path
import numpy as np
from onnx_embeddings.cache import VectorCache
while time.time() < float(sys.argv[3]):
    time.sleep(0.001)
cache = VectorCache(Path(sys.argv[1]), 2**26)
cache.open()
cache.put_many([int(sys.argv[2]).to_bytes(32, "little")], np.ones((1, 6), np.float32))
print(cache.stats().errors)
"""


def test_processes_that_meet_a_damaged_database_begin_one_anew(folder: Path) -> None:
    import time

    (folder / "vectors-1").mkdir(parents=True)
    (folder / "vectors-1" / "cache.db").write_bytes(b"this is no database " * 1000)
    start = time.time() + 2.5
    processes = [python(DAMAGED_START, folder, number, start) for number in range(10)]
    outputs = [process.communicate(timeout=100) for process in processes]
    assert [process.returncode for process in processes] == [0] * 10
    assert {out.strip() for out, _ in outputs} == {"0"}
    assert len([err for _, err in outputs if "damaged" in err]) == 1
    assert VectorCache(folder, 2**26).get_many([key(n) for n in range(10)], DIM)[0] == [*range(10)]


def in_a_child(work: Any) -> None:
    """Run something in a fork that may spoil itself."""
    child = os.fork()
    if not child:
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0


@posix
def test_a_full_disk_costs_no_vector(
    tiny_folder: Path, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    import resource

    texts = [f"text {n}" for n in range(2000)]
    with onnx_embeddings.load(tiny_folder) as plain:
        expected = plain.embed_documents(texts)
    config = EngineConfig(cache=folder)

    def work() -> None:
        with onnx_embeddings.load(tiny_folder, config=config) as engine:
            assert engine.cache is not None
            size = engine.cache.stats().bytes_on_disk + 100_000
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))  # no file may be larger
            for _ in range(2):
                np.testing.assert_array_equal(engine.embed_documents(texts), expected)
            assert engine.cache.stats().errors > 0
            assert not engine.cache.stats().damaged
            assert caplog.text.count("going on without") == 1

    in_a_child(work)
    with onnx_embeddings.load(tiny_folder, config=config) as engine:  # and room again
        for _ in range(2):
            np.testing.assert_array_equal(engine.embed_documents(texts), expected)
        assert engine.stats().cached_texts >= 2000


@posix
@pytest.mark.parametrize("named", [True, False])
def test_a_read_only_folder(
    named: bool,  # noqa: FBT001
    tiny_folder: Path,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("ONNX_EMBEDDINGS_CACHE")
    home = tmp_path / "read-only"
    onnx_embeddings.load(tiny_folder, config=EngineConfig(home=home, cache=None)).close()
    for path in [home, *home.rglob("*")]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    for path in [tmp_path, *tmp_path.parents, tiny_folder, *tiny_folder.parents]:
        if os.getuid() == 0 and path.owner() == "root" and len(path.parts) > 2:
            path.chmod(path.stat().st_mode | 0o555)
    cache: Any = home / "vectors" if named else "auto"

    def work() -> None:
        if os.getuid() == 0:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
        config = EngineConfig(home=home, cache=cache)
        if named:
            with pytest.raises(onnx_embeddings.errors.CacheError, match=r"ermission|read-only"):
                onnx_embeddings.load(tiny_folder, config=config)
            return
        with onnx_embeddings.load(tiny_folder, config=config) as engine:
            for _ in range(2):
                assert engine.embed_documents(["the cat"]).shape == (1, 32)
            assert caplog.text.count("vectors-1") == 1

    try:
        in_a_child(work)
    finally:
        for path in [home, *home.rglob("*")]:
            path.chmod(0o755)
