from __future__ import annotations

import errno
import hashlib
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from onnx_embeddings.errors import (
    DownloadError,
    ModelFormatError,
    ModelNotFoundError,
    StoreError,
)
from onnx_embeddings.store import Store

if TYPE_CHECKING:
    from pathlib import Path

SLOW_WRITER = """
import sys, time
from pathlib import Path
from onnx_embeddings.store import Store

home, log = Path(sys.argv[1]), Path(sys.argv[2])

def write(folder):
    with log.open("a") as stream:
        stream.write("x")
    (folder / "half").write_text("half of it")
    print("writing", flush=True)
    time.sleep(float(sys.argv[3]))
    (folder / "rest").write_text("the rest")

store = Store(home)
folder = store.publish(store.models / "org--model" / "1", write)
assert {path.name for path in folder.iterdir()} == {"half", "rest"}
"""


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "home")


def write_one(folder: Path) -> None:
    (folder / "sub").mkdir()
    (folder / "sub" / "file").write_text("content")


def start_writer(store: Store, log: Path, seconds: float) -> subprocess.Popen[str]:
    arguments = [str(store.home), str(log), str(seconds)]
    return subprocess.Popen(
        [sys.executable, "-c", SLOW_WRITER, *arguments], stdout=subprocess.PIPE, text=True
    )


def test_a_published_folder_holds_what_was_written(store: Store) -> None:
    folder = store.publish(store.models / "org--model" / "1", write_one)
    assert folder == store.home / "models" / "org--model" / "1"
    assert (folder / "sub" / "file").read_text() == "content"
    assert [path.name for path in folder.parent.iterdir()] == ["1"]


def test_an_existing_folder_is_not_written_again(store: Store) -> None:
    folder = store.publish(store.compiled / "model-1", write_one)
    assert store.publish(folder, lambda _: pytest.fail("written twice")) == folder


def test_a_store_that_cannot_be_written_serves_what_it_has(store: Store) -> None:
    folder = store.models / "org--model" / "1"
    folder.mkdir(parents=True)
    (store.home / "locks").write_text("no lock can be made here")
    assert store.publish(folder, write_one) == folder
    with pytest.raises(StoreError) as caught:
        store.publish(store.models / "other", write_one)
    assert caught.value.folder == str(store.models / "other")
    assert "ONNX_EMBEDDINGS_HOME" in str(caught.value)


def test_a_home_that_cannot_be_made_is_a_store_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    store = Store(tmp_path / "file" / "home")
    with pytest.raises(StoreError, match="file"):
        store.publish(store.models / "model", write_one)


@pytest.mark.parametrize(
    ("raised", "arrives"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), StoreError),
        (PermissionError(errno.EACCES, "Permission denied"), StoreError),
        (DownloadError("hub", "gone"), DownloadError),
        (ModelNotFoundError("org/model"), ModelNotFoundError),
        (ZeroDivisionError(), ZeroDivisionError),
        (KeyboardInterrupt(), KeyboardInterrupt),
    ],
)
def test_what_a_writer_raises_leaves_nothing_behind(
    store: Store, raised: BaseException, arrives: type[BaseException]
) -> None:
    def write(folder: Path) -> None:
        write_one(folder)
        raise raised

    folder = store.models / "org--model" / "1"
    with pytest.raises(arrives) as caught:
        store.publish(folder, write)
    assert type(caught.value) is arrives
    assert list(folder.parent.iterdir()) == []
    assert (store.publish(folder, write_one) / "sub" / "file").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="limits of file sizes are POSIX")
def test_a_write_that_the_system_refuses_is_a_store_error(store: Store) -> None:
    script = (
        "import resource, sys\n"
        "from pathlib import Path\n"
        "from onnx_embeddings.errors import StoreError\n"
        "from onnx_embeddings.store import Store\n"
        "store = Store(Path(sys.argv[1]))\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "try:\n"
        "    store.publish(store.models / 'm', lambda f: (f / 'x').write_bytes(bytes(5000)))\n"
        "except StoreError as error:\n"
        "    print(error.reason)\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", script, str(store.home)], capture_output=True, text=True, check=True
    )
    assert "File too large" in result.stdout
    assert list(store.models.iterdir()) == []


def test_threads_write_a_folder_once(store: Store) -> None:
    threads = 8
    barrier = threading.Barrier(threads)
    written: list[Path] = []

    def write(folder: Path) -> None:
        written.append(folder)
        write_one(folder)

    def publish(_: int) -> bool:
        barrier.wait()
        return (store.publish(store.models / "m", write) / "sub" / "file").exists()

    with ThreadPoolExecutor(threads) as pool:
        assert all(pool.map(publish, range(threads)))
    assert len(written) == 1


def test_processes_write_a_folder_once(store: Store, tmp_path: Path) -> None:
    log = tmp_path / "log"
    writers = [start_writer(store, log, 0.3) for _ in range(4)]
    for writer in writers:
        writer.communicate(timeout=60)
    assert [writer.returncode for writer in writers] == [0] * 4
    assert log.read_text() == "x"


@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL is POSIX")
def test_a_killed_writer_leaves_nothing_visible_and_blocks_nobody(
    store: Store, tmp_path: Path
) -> None:
    folder = store.models / "org--model" / "1"
    with start_writer(store, tmp_path / "log", 600) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "writing\n"
        os.kill(writer.pid, signal.SIGKILL)
    assert not folder.exists()
    (left,) = folder.parent.iterdir()
    assert (left / "half").exists()
    # Names that only look alike are somebody else's.
    alike = folder.with_name(".tmp-0123abcd-1-2")
    alike.mkdir()
    store.publish(folder, write_one)
    assert {path.name for path in folder.parent.iterdir()} == {"1", alike.name}


def test_sha256_of_a_file(store: Store, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"content")
    expected = hashlib.sha256(b"content").hexdigest()
    assert store.sha256(file) == expected
    assert store.sha256(file) == expected


def test_sha256_notices_a_change(store: Store, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"content")
    store.sha256(file)
    file.write_bytes(b"CONTENT")
    os.utime(file, ns=(1, 1))
    assert store.sha256(file) == hashlib.sha256(b"CONTENT").hexdigest()
    other = tmp_path / "other"
    other.write_bytes(b"conTENT")
    os.utime(other, ns=(1, 1))
    other.replace(file)
    assert store.sha256(file) == hashlib.sha256(b"conTENT").hexdigest()


def test_an_unchanged_file_is_read_once(store: Store, tmp_path: Path) -> None:
    read: list[Path] = []

    def compute(file: Path) -> str:
        read.append(file)
        return hashlib.sha256(file.read_bytes()).hexdigest()

    file, link = tmp_path / "file", tmp_path / "link"
    file.write_bytes(b"content")
    link.symlink_to(file)
    first = store.digest(file, "kind", compute)
    assert [store.digest(path, "kind", compute) for path in (file, link)] == [first, first]
    assert read == [file]
    store.digest(file, "another kind", compute)
    assert read == [file, file]


def test_a_file_with_other_content_and_its_old_times_is_read_again(
    store: Store, tmp_path: Path
) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"content")
    first, times = store.sha256(file), file.stat().st_mtime_ns
    file.write_bytes(b"CONTENT")
    os.utime(file, ns=(times, times))
    assert store.sha256(file) != first


@pytest.mark.parametrize(
    "broken", [b"", b"{", b"[]", b"[1, 2]", b"{}", b"\xff", b'["x", 1, 1, 1, ""]']
)
def test_sha256_ignores_a_broken_memo(store: Store, tmp_path: Path, broken: bytes) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"content")
    expected = store.sha256(file)
    (memo,) = (store.home / "digests").iterdir()
    memo.write_bytes(broken)
    assert store.sha256(file) == expected
    assert memo.read_bytes() != broken


def test_sha256_needs_no_writable_store(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"content")
    assert Store(file / "home").sha256(file) == hashlib.sha256(b"content").hexdigest()


def test_sha256_of_a_missing_file_is_an_error_that_names_it(store: Store, tmp_path: Path) -> None:
    with pytest.raises(ModelFormatError, match="missing-file"):
        store.sha256(tmp_path / "missing-file")
