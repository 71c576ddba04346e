"""What goes wrong between a hub and the disk: disks, locks, links, certificates, proxies, silence.

All of it happens for real, to a hub on this machine; nothing here uses another network.
"""

from __future__ import annotations

import errno
import http.client
import logging
import os
import re
import select
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

import filelock
import huggingface_hub
import numpy as np
import pytest
from hub_server import HubServer
from huggingface_hub import constants, file_download
from source_models import FILES, NAME, REVISION, cache_snapshot, content_of, isolate
from test_engine import TEXTS

import onnx_embeddings
from onnx_embeddings import EngineConfig, sources
from onnx_embeddings.errors import DownloadError, ModelNotFoundError, StoreError
from onnx_embeddings.request import ModelRequest
from onnx_embeddings.sources import hub_cache
from onnx_embeddings.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

OTHER = "org/other"
WEIGHTS = "model.safetensors"
KEYS = re.compile(r"api.?key|password|credential|HF_TOKEN|log in", re.IGNORECASE)
OLD_HUB = huggingface_hub.__version__.startswith("0.")
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="mounts and flock are Linux's")

LOADS = """
import sys, numpy as np, onnx_embeddings
with onnx_embeddings.load(sys.argv[1]) as engine:
    print(np.abs(engine.embed_documents(["the cat sits", "a", "red moon"])).sum())
"""


@pytest.fixture(autouse=True)
def config(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[EngineConfig]:
    config = isolate(monkeypatch, tmp_path)
    for name in ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)
    for scheme in ("http", "https", "all"):
        for name in (f"{scheme}_proxy", f"{scheme}_PROXY".upper()):
            monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    monkeypatch.setenv("ONNX_EMBEDDINGS_CACHE", "off")
    forget_sessions()
    yield config
    forget_sessions()  # they keep the certificates and proxies that they began with


def forget_sessions() -> None:
    close = getattr(huggingface_hub, "close_session", None)  # since 1.0
    if close is not None:
        close()


@pytest.fixture
def hub(config: EngineConfig, monkeypatch: pytest.MonkeyPatch) -> Iterator[HubServer]:
    assert config.home is not None  # the environment is isolated first
    with HubServer() as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        yield server


@pytest.fixture
def tiny_files(tiny_folder: Path) -> dict[str, bytes]:
    """The files of a model that runs."""
    return content_of(tiny_folder)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> float:
    """The library waits for an answer, and between its attempts, a fraction of its time."""
    from huggingface_hub.utils import _http

    timeout = 0.3
    for name in ("HF_HUB_DOWNLOAD_TIMEOUT", "HF_HUB_ETAG_TIMEOUT"):
        monkeypatch.setattr(constants, name, timeout)
    monkeypatch.setattr(file_download, "_ETAG_RETRY_TIMEOUT", timeout, raising=False)
    quick = SimpleNamespace(sleep=lambda seconds: time.sleep(seconds / 100), time=time.time)
    monkeypatch.setattr(_http, "time", quick)
    monkeypatch.setattr(file_download, "time", quick)
    return timeout


def find(config: EngineConfig, **values: Any) -> Path:
    return sources.find(ModelRequest(model=NAME, **values), config, models={})[0]


def vectors_of(model: str | Path, **values: Any) -> Any:
    with onnx_embeddings.load(model, **values) as engine:
        return engine.embed_documents(TEXTS)


def cache_folder() -> Path:
    return Path(os.environ["HF_HOME"]) / "hub"


def at_once(work: Callable[[int], Any], number: int) -> list[Any]:
    """What threads that begin at the same moment return."""
    barrier = threading.Barrier(number)

    def one(index: int) -> Any:
        barrier.wait()
        return work(index)

    with ThreadPoolExecutor(number) as pool:
        return list(pool.map(one, range(number)))


def eventually(condition: Callable[[], bool]) -> bool:
    """Whether it comes true: a server may not know yet what its client has."""
    end = time.monotonic() + 3
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    return condition()


def nothing_half_done() -> bool:
    """Whether the caches hold no part of a file, but one to go on with."""
    paths = [*cache_folder().rglob("*"), *Path(os.environ["ONNX_EMBEDDINGS_HOME"]).rglob("*")]
    parts = [path for path in paths if path.name.startswith(".tmp-") or "incompl" in path.name]
    resumable = [path for path in parts if path.name.endswith(".resumable.incomplete")]
    assert all(path.stat().st_size for path in resumable)
    others = [path for path in parts if path not in resumable]
    return not [path for path in others if not (OLD_HUB and path.parent.name == "blobs")]


# --- many at once


def test_twenty_threads_on_an_empty_cache_fetch_each_file_once(
    hub: HubServer, tiny_files: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.add(NAME, tiny_files)
    expected = vectors_of(NAME)
    alone = sorted(hub.requests)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "another"))
    monkeypatch.setenv("ONNX_EMBEDDINGS_HOME", str(tmp_path / "another home"))
    hub.requests.clear()
    hub.whole.clear()
    hub.pause_s = 0.02
    for vectors in at_once(lambda _: vectors_of(NAME), 20):
        np.testing.assert_array_equal(vectors, expected)
    assert sorted(hub.requests) == alone
    assert sorted(hub.whole) == sorted(set(hub.whole))


# --- no symbolic links, as on Windows for most users


@pytest.fixture
def no_links(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    attempts: list[str] = []

    def symlink(_: Any, target: Any, **__: Any) -> None:
        attempts.append(str(target))
        time.sleep(0.2)
        raise OSError(errno.EINVAL, "[WinError 1314] a required privilege is not held")

    monkeypatch.setattr(os, "symlink", symlink)
    monkeypatch.setattr(file_download, "_are_symlinks_supported_in_dir", {})
    return attempts


def test_without_symbolic_links_threads_get_whole_models(
    hub: HubServer, tiny_files: dict[str, bytes], tiny_folder: Path, no_links: list[str]
) -> None:
    for name in (NAME, OTHER):
        hub.add(name, tiny_files)
    expected = vectors_of(tiny_folder)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        found = at_once(lambda index: vectors_of((NAME, OTHER)[index % 2]), 8)
    for vectors in found:
        np.testing.assert_array_equal(vectors, expected)
    assert no_links
    # It is the library that says so, once for the folder of each model.
    assert [
        str(warning.message) for warning in said if "symlinks" not in str(warning.message)
    ] == []
    assert len(said) <= 2
    for name in (NAME, OTHER):
        place = cache_folder() / f"models--{name.replace('/', '--')}"
        files = content_of(place / "snapshots" / REVISION)
        assert {file: files[file] for file in tiny_files if file in files} == files
        assert content_of(place / "blobs") == {}  # nothing twice
    hub.requests.clear()
    np.testing.assert_array_equal(vectors_of(NAME), expected)
    np.testing.assert_array_equal(vectors_of(NAME, revision=REVISION), expected)
    assert hub.requests == []


@pytest.mark.filterwarnings("ignore:`huggingface_hub` cache-system uses symlinks")
@pytest.mark.parametrize("damage", [b"", b"half", None])
def test_without_symbolic_links_a_damaged_file_is_fetched_again(
    hub: HubServer, config: EngineConfig, no_links: list[str], damage: bytes | None
) -> None:
    hub.add(NAME, FILES)
    folder = find(config)
    assert no_links
    assert not (folder / WEIGHTS).is_symlink()
    (folder / WEIGHTS).write_bytes(bytes(len(FILES[WEIGHTS])) if damage is None else damage)
    with pytest.raises(ModelNotFoundError, match=r"model\.safetensors"):
        find(replace(config, offline=True))
    hub.requests.clear()
    assert find(config) == folder
    assert content_of(folder) == FILES
    assert hub.fetched() == [WEIGHTS]


# --- a full disk, a disk that is read-only: for real, in a namespace of mounts of its own


def in_a_namespace(mounts: str, script: str, *arguments: object) -> str:
    """What a Python script prints that sees other mounts than we do; they go with it."""
    command = f'{mounts}\nexec "$@"'
    unshare = ["unshare", "--mount", *(() if os.getuid() == 0 else ("--map-root-user",))]
    tried = subprocess.run([*unshare, "true"], capture_output=True, check=False)
    if tried.returncode:
        pytest.skip(f"no mounts of our own here: {tried.stderr.decode().strip()}")
    result = subprocess.run(
        [*unshare, "sh", "-ec", command, "sh", sys.executable, "-B", "-c", script]
        + [str(argument) for argument in arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


FULL = """
import errno, os, sys
from pathlib import Path
import onnx_embeddings
from onnx_embeddings.errors import ModelError, StoreError
name, disk, message = sys.argv[1:]
ballast = Path(disk, "ballast")
with ballast.open("wb", buffering=0) as stream:
    room = os.statvfs(disk)
    stream.write(bytes(max(0, room.f_bavail * room.f_bsize - 49_152)))
try:
    onnx_embeddings.load(name)
except StoreError as error:
    assert error.__cause__.errno == errno.ENOSPC, repr(error.__cause__)
    assert disk in error.folder, error.folder
    assert "No space left" in error.reason and message in str(error), error
    assert "connection" not in str(error), error
    if message == "set HF_HUB_CACHE":
        assert "model.safetensors: " in error.reason and "bytes are needed" in error.reason, error
else:
    raise AssertionError("it loaded")
from huggingface_hub import __version__
parts = [path for path in Path(disk).rglob("*") if ".tmp-" in path.name or "incompl" in path.name]
if __version__.startswith("0."):  # keeps them, to go on with
    parts = [path for path in parts if path.parent.name != "blobs"]
assert not parts, parts
try:
    onnx_embeddings.load(name, config=onnx_embeddings.EngineConfig(offline=True))
except ModelError:
    pass
else:
    raise AssertionError("it took what is not whole")
ballast.unlink()
with onnx_embeddings.load(name) as engine:
    print(engine.embed_documents(["the cat"]).shape)
"""


@LINUX
@pytest.mark.parametrize("which", ["HF_HUB_CACHE", "ONNX_EMBEDDINGS_HOME"])
def test_a_full_disk_is_named_and_costs_only_the_first_call(
    hub: HubServer,
    tiny_files: dict[str, bytes],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    which: str,
) -> None:
    hub.add(NAME, tiny_files)
    assert len(tiny_files[WEIGHTS]) > 49_152
    disk = tmp_path / "disk"
    disk.mkdir()
    monkeypatch.setenv(which, str(disk / "folder"))
    mount = f"mount -t tmpfs -o size=2m none '{disk}'"
    assert in_a_namespace(mount, FULL, NAME, disk, f"set {which}") == "(1, 32)\n"
    # What was fetched before the disk was full was not fetched again.
    once = [name for name in hub.whole if name != WEIGHTS or which != "HF_HUB_CACHE"]
    assert sorted(once) == sorted(set(once))


READ_ONLY = """
import sys
from pathlib import Path
import onnx_embeddings
from onnx_embeddings import EngineConfig
name, commit, *places = sys.argv[1:]
for place in (*places, Path.home()):
    try:
        Path(place, "probe").write_text("")
    except OSError as error:
        assert "Read-only" in str(error), error
    else:
        raise AssertionError(f"{place} can be written")
for revision in (None, "main", commit):
    for cache in ("auto", None):
        config = EngineConfig(cache=cache)
        with onnx_embeddings.load(name, revision=revision, config=config) as engine:
            print(engine.embed_documents(["the cat"]).shape)
"""


@LINUX
@pytest.mark.parametrize("kept", ["all", "all but digests", "the snapshot alone"])
def test_a_whole_model_on_a_read_only_disk_loads_by_branch_and_by_commit(
    hub: HubServer,
    tiny_files: dict[str, bytes],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kept: str,
) -> None:
    hub.add(NAME, tiny_files)
    vectors_of(NAME)
    hub.requests.clear()
    monkeypatch.delenv("ONNX_EMBEDDINGS_CACHE")  # in the home: can't be used, so there is none
    (tmp_path / "user").mkdir()
    if kept == "all but digests":  # they can't be kept, so they are computed each time
        shutil.rmtree(tmp_path / "home" / "digests")
    mount = f"mount --bind '{tmp_path}' '{tmp_path}'; mount -o remount,ro,bind '{tmp_path}'"
    read_only = [cache_folder()]
    if kept == "the snapshot alone":
        (tmp_path / "fresh").mkdir()
        monkeypatch.setenv("ONNX_EMBEDDINGS_HOME", str(tmp_path / "fresh"))
        mount += f"; mount -t tmpfs none '{tmp_path / 'fresh'}'"
    else:
        read_only.append(tmp_path / "home")
    said = in_a_namespace(mount, READ_ONLY, NAME, REVISION, *read_only)
    assert said == "(1, 32)\n" * 6
    assert hub.requests == []


def test_nothing_is_written_into_the_folder_of_a_whole_model(
    hub: HubServer, tiny_files: dict[str, bytes], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    hub.add(NAME, tiny_files)
    vectors_of(NAME)

    def state() -> dict[Path, int]:
        return {path: path.lstat().st_mtime_ns for path in cache_folder().rglob("*")}

    before = state()
    monkeypatch.setenv("ONNX_EMBEDDINGS_HOME", str(tmp_path / "fresh"))  # compiled anew
    for revision in (None, "main", REVISION):
        vectors_of(NAME, revision=revision)
    assert state() == before


# --- no file locks, as on some network file systems


OLD_FILELOCK = int(filelock.__version__.split(".")[0]) < 4
TAKES_IT_FOR_CONTENTION = pytest.mark.skipif(
    OLD_FILELOCK, reason="older filelocks wait for ever for a lock that can't be had"
)


@LINUX
@TAKES_IT_FOR_CONTENTION
@pytest.mark.filterwarnings("ignore:flock not supported")
@pytest.mark.parametrize("code", [errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS, errno.EIO])
def test_where_files_can_not_be_locked_a_model_is_compiled_all_the_same(
    tiny_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    code: int,
) -> None:
    import fcntl

    def flock(*_: Any) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(fcntl, "flock", flock)
    if code == errno.EIO:  # that is no lack of locks
        with pytest.raises(StoreError, match="ONNX_EMBEDDINGS_HOME"):
            vectors_of(tiny_folder)
        return
    found = at_once(lambda _: vectors_of(tiny_folder), 4)
    for vectors in found[1:]:
        np.testing.assert_array_equal(vectors, found[0])
    assert nothing_half_done()
    if code != errno.ENOSYS:  # for which newer filelocks have another lock
        assert caplog.text.count("can not be locked") == 1


@LINUX
@TAKES_IT_FOR_CONTENTION
def test_without_locks_the_first_of_two_writers_wins_and_neither_harms_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import fcntl

    def flock(*_: Any) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", flock)
    store = Store(tmp_path / "home")
    both = threading.Barrier(2)

    def write(folder: Path) -> None:
        (folder / "half").write_text("half of it")
        both.wait(5)  # each while the other is at it, too
        (folder / "rest").write_text("the rest")
        both.wait(5)

    places = at_once(lambda _: store.publish(store.compiled / "model", write), 2)
    assert places == [store.compiled / "model"] * 2
    assert content_of(places[0]) == {"half": b"half of it", "rest": b"the rest"}
    assert [place.name for place in store.compiled.iterdir()] == ["model"]


@LINUX
@TAKES_IT_FOR_CONTENTION
@pytest.mark.parametrize("code", [errno.ENOLCK, errno.ENOTSUP])
def test_where_the_hubs_cache_can_not_be_locked_the_error_says_so(
    hub: HubServer, config: EngineConfig, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    import fcntl

    hub.add(NAME, FILES)

    def flock(*_: Any) -> None:
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as patched:
        patched.setattr(fcntl, "flock", flock)
        with pytest.raises(StoreError, match="set HF_HUB_CACHE") as caught:
            find(config)
    assert os.strerror(code) in caught.value.reason
    assert caught.value.folder == str(cache_folder())
    assert content_of(find(config)) == FILES


# --- certificates of a company


@dataclass(frozen=True)
class Authority:
    """A certificate authority that nobody knows, and what a server of its needs."""

    certificate: Path
    server: ssl.SSLContext


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("no openssl here to make certificates with")
    folder = tmp_path_factory.mktemp("authority")

    def run(*arguments: str) -> None:
        subprocess.run([openssl, *arguments], cwd=folder, check=True, capture_output=True)

    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    (folder / "names").write_text(
        "subjectAltName=IP:127.0.0.1,DNS:localhost,DNS:hub.example\n"
        "basicConstraints=CA:FALSE\nextendedKeyUsage=serverAuth\n"
        "subjectKeyIdentifier=hash\nauthorityKeyIdentifier=keyid\n"
    )
    run("req", "-x509", *key, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=A company",
        "-days", "3", "-addext", "keyUsage=critical,keyCertSign,cRLSign")  # fmt: skip
    run("req", *key, "-keyout", "hub.key", "-out", "hub.csr", "-subj", "/CN=hub")
    run("x509", "-req", "-in", "hub.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial",
        "-days", "3", "-extfile", "names", "-out", "hub.pem")  # fmt: skip
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "hub.pem", folder / "hub.key")
    return Authority(folder / "ca.pem", context)


@pytest.fixture
def tls_hub(
    config: EngineConfig, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> Iterator[HubServer]:
    assert config.home is not None  # the environment is isolated first
    with HubServer(tls=authority.server) as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        server.add(NAME, FILES)
        yield server


def certificates_variable() -> str:
    """Which one huggingface_hub follows: since 1.0 it stands on httpx, before on requests."""
    return "REQUESTS_CA_BUNDLE" if OLD_HUB else "SSL_CERT_FILE"


def test_a_certificate_that_nobody_knows_is_one_error_that_names_the_variable_to_set(
    tls_hub: HubServer,
    config: EngineConfig,
    authority: Authority,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    start = time.perf_counter()
    with pytest.raises(DownloadError, match="CERTIFICATE_VERIFY_FAILED") as caught:
        find(config)
    assert time.perf_counter() - start < 3
    assert certificates_variable() in str(caught.value.hint)
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert tls_hub.requests == []  # verification was not turned off
    # In the same process: what is set now counts, though the library keeps its session.
    monkeypatch.setenv(certificates_variable(), str(authority.certificate))
    assert content_of(find(config)) == FILES


# --- proxies


class Proxy:
    """Takes everything for `hub.example` to one hub; what is asked of it is in `requests`."""

    def __init__(self, hub: HubServer) -> None:
        self.requests: list[str] = []
        proxy = self
        address = urlsplit(hub.url)

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: object) -> None:
                pass

            def do_CONNECT(self) -> None:
                proxy.requests.append(f"CONNECT {self.path}")
                _, _, port = self.path.rpartition(":")
                port = str(address.port) if port == "443" else port
                with socket.create_connection(("127.0.0.1", int(port))) as other:
                    self.send_response(200)
                    self.end_headers()
                    with suppress(ConnectionError):
                        _pipe(self.connection, other)
                self.close_connection = True

            def do_GET(self) -> None:
                proxy.requests.append(f"{self.command} {self.path}")
                asked = urlsplit(self.path)
                there = http.client.HTTPConnection("127.0.0.1", asked.port or address.port or 80)
                path = f"{asked.path or '/'}{'?' if asked.query else ''}{asked.query}"
                there.request(self.command, path, headers=dict(self.headers))
                answer = there.getresponse()
                body = answer.read()
                self.send_response(answer.status)
                for name, value in answer.getheaders():
                    if name not in {"Server", "Date"}:
                        self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)
                there.close()

            do_HEAD = do_GET  # noqa: N815 - the base class's own name

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def _pipe(one: socket.socket, other: socket.socket) -> None:
    while True:
        ready, _, _ = select.select([one, other], [], [], 10)
        for side in ready:
            block = side.recv(65536)
            if not block:
                return
            (other if side is one else one).sendall(block)
        if not ready:
            return


def test_everything_goes_through_the_proxy_that_is_set(
    hub: HubServer, config: EngineConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.add(NAME, FILES)
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name)
    with Proxy(hub) as proxy:
        monkeypatch.setenv("HF_ENDPOINT", "http://hub.example")  # no such name: only a proxy helps
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        assert content_of(find(config)) == FILES
        assert len(proxy.requests) == len(hub.requests)
    assert [line for line in proxy.requests if "http://hub.example" in line]


def test_tls_goes_through_the_proxy_and_is_verified_behind_it(
    tls_hub: HubServer,
    config: EngineConfig,
    authority: Authority,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name)
    with Proxy(tls_hub) as proxy:
        monkeypatch.setenv("HF_ENDPOINT", "https://hub.example")
        monkeypatch.setenv("HTTPS_PROXY", proxy.url)
        with pytest.raises(DownloadError, match="CERTIFICATE_VERIFY_FAILED"):
            find(config)
        monkeypatch.setenv(certificates_variable(), str(authority.certificate))
        assert content_of(find(config)) == FILES
    assert "CONNECT hub.example:443" in proxy.requests


def test_a_proxy_that_is_not_there_is_named_as_what_to_check(
    hub: HubServer, config: EngineConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.add(NAME, FILES)
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{port}")
    with pytest.raises(DownloadError, match="HTTPS_PROXY"):
        find(config)
    assert hub.requests == []
    # Without it, in the same process.
    monkeypatch.delenv("HTTP_PROXY")
    assert content_of(find(config)) == FILES


# --- offline


@pytest.fixture
def no_sockets(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Connections and look-ups of names that were tried; each fails."""
    tried: list[str] = []

    def refuse(*arguments: Any, **_: Any) -> None:
        tried.append(str(arguments[-1]))
        raise OSError(errno.ENETUNREACH, "no network in this test")

    for name in ("connect", "connect_ex", "sendto"):
        monkeypatch.setattr(socket.socket, name, refuse)
    for name in ("getaddrinfo", "gethostbyname", "create_connection"):
        monkeypatch.setattr(socket, name, refuse)
    return tried


@pytest.mark.parametrize("word", ["1", "TRUE", "yes", "on"])
def test_offline_a_whole_model_opens_no_socket_and_takes_no_second(
    hub: HubServer,
    tiny_files: dict[str, bytes],
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
    word: str,
) -> None:
    hub.add(NAME, tiny_files)
    expected = vectors_of(NAME)
    hub.requests.clear()
    monkeypatch.setenv("HF_HUB_OFFLINE", word)  # huggingface_hub was imported long before
    tried = request.getfixturevalue("no_sockets")
    start = time.perf_counter()
    with onnx_embeddings.load(NAME) as engine:
        loaded = time.perf_counter() - start
        np.testing.assert_array_equal(engine.embed_documents(TEXTS), expected)
    assert tried == []
    assert hub.requests == []
    assert loaded < 1


OFFLINE = """
import socket, sys, time
def refuse(*arguments, **_):
    raise AssertionError(f"network: {arguments}")
socket.socket.connect = socket.socket.connect_ex = socket.getaddrinfo = refuse
if sys.argv[2] == "first":
    import huggingface_hub.constants
import onnx_embeddings
start = time.perf_counter()
with onnx_embeddings.load(sys.argv[1]) as engine:
    print(engine.embed_documents(["the cat"]).shape, time.perf_counter() - start < 1)
"""


@pytest.mark.parametrize("order", ["first", "never"])
def test_offline_from_the_start_of_a_process(
    hub: HubServer, tiny_files: dict[str, bytes], monkeypatch: pytest.MonkeyPatch, order: str
) -> None:
    hub.add(NAME, tiny_files)
    vectors_of(NAME)
    monkeypatch.setenv("HF_HUB_OFFLINE", "yes")
    command = [sys.executable, "-c", OFFLINE, NAME, order]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (result.stdout, result.stderr) == ("(1, 32) True\n", "")


@pytest.mark.parametrize("missing", [WEIGHTS, "modules.json", "tokenizer.json"])
def test_offline_what_is_missing_is_named_at_once(
    config: EngineConfig, monkeypatch: pytest.MonkeyPatch, no_sockets: list[str], missing: str
) -> None:
    snapshot = cache_snapshot(FILES)
    (snapshot / missing).unlink()
    monkeypatch.setenv("HF_HUB_OFFLINE", "on")
    start = time.perf_counter()
    with pytest.raises(ModelNotFoundError) as caught:
        find(EngineConfig(lanes=1).resolved())
    assert time.perf_counter() - start < 1
    said = str(caught.value)
    assert missing in said
    assert str(snapshot) in said
    assert "HF_HUB_OFFLINE" in said
    assert no_sockets == []
    assert config.offline is False


def test_a_library_that_was_imported_offline_says_why_it_stays_so(
    hub: HubServer, config: EngineConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.add(NAME, FILES)
    # What an import with HF_HUB_OFFLINE=1 leaves behind; unset since.
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(DownloadError, match="huggingface_hub was imported") as caught:
        find(config)
    assert "HF_HUB_OFFLINE" in str(caught.value)
    assert "start the process again" in str(caught.value.hint)
    assert hub.requests == []


FROZEN = """
import os, sys
import huggingface_hub.constants
del os.environ["HF_HUB_OFFLINE"]
import onnx_embeddings
try:
    onnx_embeddings.load(sys.argv[1])
except onnx_embeddings.errors.DownloadError as error:
    print(error)
"""


def test_offline_when_the_library_was_imported_and_unset_later(
    hub: HubServer, tiny_files: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.add(NAME, tiny_files)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    command = [sys.executable, "-c", FROZEN, NAME]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "huggingface_hub was imported" in result.stdout
    assert hub.requests == []


# --- silence


def test_a_cached_model_does_not_wait_for_a_hub_that_never_answers(
    hub: HubServer, tiny_files: dict[str, bytes]
) -> None:
    hub.add(NAME, tiny_files)
    expected = vectors_of(NAME)
    hub.requests.clear()
    hub.silent = True
    start = time.perf_counter()
    np.testing.assert_array_equal(vectors_of(NAME), expected)
    np.testing.assert_array_equal(vectors_of(NAME, revision="main"), expected)
    assert time.perf_counter() - start < 2
    assert hub.requests == []


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("trouble", ["stalled", "cut"])
def test_a_body_that_stops_half_way_is_gone_on_with(
    hub: HubServer, config: EngineConfig, monkeypatch: pytest.MonkeyPatch, trouble: str
) -> None:
    if OLD_HUB and trouble == "cut":
        pytest.skip("older libraries go on with it when they are called again")
    hub.add(NAME, FILES)
    # The library keeps of a body what came in whole pieces of this size: 10 MB.
    monkeypatch.setattr(constants, "DOWNLOAD_CHUNK_SIZE", 4096)
    getattr(hub, trouble).update({WEIGHTS: 2, "config.json": 1})
    assert content_of(find(config)) == FILES
    assert hub.ranges[0].startswith(f"{WEIGHTS} bytes=")
    assert not hub.ranges[0].startswith(f"{WEIGHTS} bytes=0-")
    assert nothing_half_done()


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("name", [WEIGHTS, "config.json"])
@pytest.mark.parametrize("trouble", ["stalled", "cut"])
def test_a_body_that_always_stops_half_way_is_given_up_and_never_taken(
    hub: HubServer, config: EngineConfig, trouble: str, name: str
) -> None:
    hub.add(NAME, FILES)
    getattr(hub, trouble)[name] = 99
    start = time.perf_counter()
    with pytest.raises(DownloadError) as caught:
        find(config)
    assert time.perf_counter() - start < 5
    assert name in caught.value.reason
    assert "Hugging Face cache" in caught.value.reason
    assert nothing_half_done()
    with pytest.raises(ModelNotFoundError):
        find(replace(config, offline=True))
    before = list(hub.whole)
    getattr(hub, trouble).clear()
    assert content_of(find(config)) == FILES
    assert not set(before) & set(hub.whole[len(before) :])  # what was whole is not fetched again


@pytest.mark.usefixtures("impatient")
def test_a_slow_body_is_waited_for(
    hub: HubServer, config: EngineConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.add(NAME, FILES)
    monkeypatch.setattr(constants, "HF_HUB_DOWNLOAD_TIMEOUT", 0.6)
    hub.pause_s = 0.2  # each piece comes within the library's patience, the whole does not
    assert content_of(find(config)) == FILES
    assert len(FILES[WEIGHTS]) > 3 * 2**14
    assert eventually(lambda: hub.whole.count(WEIGHTS) == 1)
    assert hub.fetched().count(WEIGHTS) == 1


# --- refusals and failures, at every step

STEPS = {
    "listing": "GET /api/",
    "metadata": "HEAD /org/tiny/resolve/[^/]+/model.safetensors",
    "small body": "GET /org/tiny/resolve/[^/]+/config.json",
    "large body": "GET /cdn/",
}


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("status", [401, 403, 404, 429, 500, 503])
def test_a_hub_that_refuses_or_fails_is_an_error_and_nothing_half_done_is_taken(
    hub: HubServer, config: EngineConfig, step: str, status: int
) -> None:
    hub.add(NAME, FILES)
    hub.fail[STEPS[step]] = status
    refused = {401, 403, 404} if step == "listing" else {401, 403}
    arrives = ModelNotFoundError if status in refused else DownloadError
    with pytest.raises(arrives, match=str(status)):
        find(config)
    assert nothing_half_done()
    with pytest.raises(ModelNotFoundError, match=r"incomplete|nothing"):
        find(replace(config, offline=True))
    hub.fail.clear()
    assert content_of(find(config)) == FILES
    assert eventually(lambda: sorted(hub.whole) == sorted(FILES))  # each once, whenever


@pytest.mark.skipif(OLD_HUB, reason="older libraries do not ask again")
@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    ("step", "status"), [("metadata", 503), ("metadata", 429), ("large body", 429)]
)
def test_a_hub_that_is_busy_for_a_moment_is_asked_again(
    hub: HubServer, config: EngineConfig, step: str, status: int
) -> None:
    hub.add(NAME, FILES)
    hub.fail[STEPS[step]] = status
    hub.failures[STEPS[step]] = 2
    assert content_of(find(config)) == FILES


# --- what goes while it is in use


@pytest.mark.skipif(sys.platform == "win32", reason="Windows says by itself where that is")
def test_by_default_models_lie_where_nobody_cleans_up(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("ONNX_EMBEDDINGS_HOME")
    monkeypatch.delenv("HF_HOME")
    user = tmp_path / "user"
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    for place in (EngineConfig().home_path, hub_cache.folder()):
        assert place.is_relative_to(user), place
    monkeypatch.setenv("ONNX_EMBEDDINGS_HOME", str(tmp_path / "named"))
    assert EngineConfig().home_path == tmp_path / "named"


def test_an_engine_goes_on_without_its_folders_and_the_next_process_makes_them_again(
    hub: HubServer, tiny_files: dict[str, bytes]
) -> None:
    hub.add(NAME, tiny_files)
    compiled = Path(os.environ["ONNX_EMBEDDINGS_HOME"]) / "compiled"
    with onnx_embeddings.load(NAME) as engine:
        expected = engine.embed_documents(TEXTS)
        shutil.rmtree(os.environ["HF_HOME"])
        shutil.rmtree(compiled)
        for _ in range(2):
            np.testing.assert_array_equal(engine.embed_documents(TEXTS), expected)
        hub.whole.clear()
        result = subprocess.run(
            [sys.executable, "-c", LOADS, NAME], capture_output=True, text=True, check=False
        )
        assert result.returncode == 0, result.stderr
        assert sorted(hub.whole) == sorted(set(hub.whole))
        assert WEIGHTS in hub.whole
        assert len(list(compiled.iterdir())) == 1
        # And one more engine beside the first, in this process.
        hub.whole.clear()
        shutil.rmtree(compiled)
        np.testing.assert_array_equal(vectors_of(NAME), expected)
        assert hub.whole == []


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", WEIGHTS])
def test_the_next_start_fetches_only_the_file_that_went(
    hub: HubServer, tiny_files: dict[str, bytes], name: str
) -> None:
    hub.add(NAME, tiny_files)
    with onnx_embeddings.load(NAME) as engine:
        expected = engine.embed_documents(TEXTS)
        (snapshot,) = (cache_folder() / "models--org--tiny" / "snapshots").iterdir()
        (snapshot / name).resolve().unlink()
        np.testing.assert_array_equal(engine.embed_documents(TEXTS), expected)
    hub.requests.clear()
    np.testing.assert_array_equal(vectors_of(NAME), expected)
    assert hub.fetched() == [name]


@pytest.mark.parametrize("offline", [False, True])
def test_weights_that_went_and_no_network_are_told_as_that_and_not_as_a_matter_of_keys(
    hub: HubServer,
    tiny_files: dict[str, bytes],
    monkeypatch: pytest.MonkeyPatch,
    *,
    offline: bool,
) -> None:
    hub.add(NAME, tiny_files)
    vectors_of(NAME)
    (snapshot,) = (cache_folder() / "models--org--tiny" / "snapshots").iterdir()
    (snapshot / WEIGHTS).resolve().unlink()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{port}")
    arrives = ModelNotFoundError if offline else DownloadError
    with pytest.raises(arrives) as caught:
        vectors_of(NAME, config=EngineConfig(offline=offline))
    said = str(caught.value)
    assert NAME in said
    assert f"{snapshot}: incomplete, without {WEIGHTS}" in said
    assert ("offline is set" if offline else f"127.0.0.1:{port}") in said
    assert not KEYS.search(said), said


def test_a_part_that_can_not_be_opened_says_why(
    hub: HubServer, config: EngineConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.add(NAME, FILES)
    real = Path.open

    def refuse(self: Path, mode: str = "r", **options: Any) -> Any:
        if self.name.endswith(".resumable.incomplete") and mode == "ab":
            raise OSError(errno.EACCES, "Permission denied", str(self))
        return real(self, mode, **options)

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(StoreError, match="Permission denied"):
        find(config)
