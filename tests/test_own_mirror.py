"""A mirror of the user's own: a folder, or a server of plain files."""

from __future__ import annotations

import base64
import contextlib
import functools
import socket
import threading
import time
from dataclasses import replace
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from source_models import FILES, MORE_FILES, NAME, catalog_of, content_of, isolate, write_files

from onnx_embeddings import EngineConfig, sources
from onnx_embeddings.errors import (
    DownloadError,
    ModelFormatError,
    ModelNotFoundError,
    SettingError,
    StoreError,
)
from onnx_embeddings.request import ModelRequest
from onnx_embeddings.sources import plain_server

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def config(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> EngineConfig:
    return isolate(monkeypatch, tmp_path)


class Server:
    """A server of the files in a folder; `asked` is what it was asked for."""

    def __init__(self, folder: Path) -> None:
        asked: list[str] = []
        self.asked = asked
        self.authorizations: list[str | None] = []
        self.status = 0

        class Handler(SimpleHTTPRequestHandler):
            server_of = self

            def log_message(self, *_: object) -> None:
                pass

            def send_head(self) -> Any:
                asked.append(f"{self.command} {self.path}")
                self.server_of.authorizations.append(self.headers.get("Authorization"))
                if self.server_of.status:
                    self.send_error(self.server_of.status)
                    return None
                return super().send_head()

        handler = functools.partial(Handler, directory=str(folder))
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"


@pytest.fixture
def server(tmp_path: Path, config: EngineConfig) -> Iterator[Server]:
    assert config.home is not None  # the environment is isolated first
    write_files(tmp_path / "site" / "models" / NAME, FILES | MORE_FILES)
    server = Server(tmp_path / "site")
    thread = threading.Thread(target=server.server.serve_forever, args=(0.01,))
    thread.start()
    yield server
    server.server.shutdown()
    thread.join()
    server.server.server_close()


def find(config: EngineConfig, **values: Any) -> Path:
    return sources.find(ModelRequest(model=NAME, **values), config, models={})[0]


@pytest.mark.parametrize("form", ["{url}/models", "{url}/models/{{model}}/{{file}}"])
def test_what_is_needed_is_fetched_from_a_server_once(
    server: Server, config: EngineConfig, form: str
) -> None:
    config = replace(config, mirror=form.format(url=server.url))
    folder = find(config)
    assert content_of(folder) == FILES
    got = [line for line in server.asked if line.startswith("GET")]
    # Two are read to choose, and come again as files.
    assert len(got) == len(FILES) + 2
    server.asked.clear()
    assert find(config) == folder
    assert find(replace(config, offline=True)) == folder
    assert server.asked == []


def test_the_environment_names_a_mirror(
    server: Server, monkeypatch: pytest.MonkeyPatch, config: EngineConfig
) -> None:
    del config
    monkeypatch.setenv("ONNX_EMBEDDINGS_MIRROR", f"{server.url}/models/")
    config = EngineConfig().resolved()
    assert content_of(find(config)) == FILES


def test_a_variant_comes_with_its_data(
    server: Server, config: EngineConfig, tmp_path: Path
) -> None:
    place = tmp_path / "site" / "models" / NAME / "onnx"
    (place / "model.onnx_data").write_bytes(b"numbers")
    config = replace(config, mirror=f"{server.url}/models")
    folder = find(config, variant="onnx/model.onnx")
    assert (folder / "onnx" / "model.onnx_data").read_bytes() == b"numbers"
    assert not (folder / "model.safetensors").exists()


@pytest.mark.parametrize("form", ["{folder}", "{folder}/{{model}}"])
def test_a_folder_is_read_where_it_lies_also_offline(
    config: EngineConfig, tmp_path: Path, form: str
) -> None:
    place = write_files(tmp_path / "share" / NAME, FILES)
    config = replace(config, mirror=form.format(folder=tmp_path / "share"), offline=True)
    assert find(config) == place
    with pytest.raises(ModelNotFoundError) as caught:
        sources.find(ModelRequest(model="org/other"), config, models={})
    assert any("no such folder" in where for where in caught.value.looked_in)


def test_a_revision_is_part_of_the_place(config: EngineConfig, tmp_path: Path) -> None:
    write_files(tmp_path / "share" / "v2" / NAME, FILES)
    config = replace(config, mirror=str(tmp_path / "share" / "{revision}" / "{model}"))
    assert find(config, revision="v2") == tmp_path / "share" / "v2" / NAME


@pytest.mark.parametrize("status", [404, 403, 500, 503])
def test_a_mirror_that_does_not_serve_is_named_and_the_hub_is_asked(
    server: Server, config: EngineConfig, status: int
) -> None:
    server.status = status
    with pytest.raises(DownloadError) as caught:  # nobody listens where the hub should be
        find(replace(config, mirror=f"{server.url}/models"))
    told = "it has no" if status in {404, 403} else f"answers {status}"
    assert server.url in caught.value.reason
    assert told in caught.value.reason
    assert "hub" in caught.value.reason


def test_a_known_model_must_have_the_content_of_the_catalog(
    server: Server, config: EngineConfig, tmp_path: Path
) -> None:
    wrong = tmp_path / "site" / "models" / NAME / "model.safetensors"
    wrong.write_bytes(bytes(len(FILES["model.safetensors"])))
    for mirror in (f"{server.url}/models", str(tmp_path / "site" / "models")):
        with pytest.raises((ModelFormatError, DownloadError), match="not the content"):
            sources.find(
                ModelRequest(model=NAME), replace(config, mirror=mirror), models=catalog_of()
            )
    assert [p for p in Path(config.home_path / "models").rglob("*") if p.is_file()] == []


def test_a_mirror_must_be_a_place(monkeypatch: pytest.MonkeyPatch) -> None:
    odd: list[Any] = ["", 5, [], "a\0b"]
    for mirror in odd:
        with pytest.raises(SettingError, match="mirror"):
            EngineConfig(mirror=mirror)
    monkeypatch.chdir("/")
    assert EngineConfig(mirror="https://host/x").absolute().mirror == "https://host/x"
    assert str(EngineConfig(mirror="models").absolute().mirror) == str(Path("/models").absolute())


@pytest.mark.parametrize("damage", ["cut", "one byte", "missing"])
def test_a_copy_that_is_damaged_later_is_fetched_again(
    server: Server, config: EngineConfig, damage: str
) -> None:
    config = replace(config, mirror=f"{server.url}/models")
    folder = find(config)
    weights = folder / "model.safetensors"
    content = weights.read_bytes()
    if damage == "missing":
        weights.unlink()
    else:
        weights.write_bytes(content[:100] if damage == "cut" else content[:-1] + b"x")
    again = find(config)
    assert again != folder  # which may be in use
    assert content_of(again) == FILES
    server.asked.clear()
    assert find(config) == again
    assert server.asked == []


def test_a_copy_is_found_whatever_mirror_is_named_now(server: Server, config: EngineConfig) -> None:
    folder = find(replace(config, mirror=f"{server.url}/models"))
    server.asked.clear()
    assert find(replace(config, mirror=f"{server.url}/models/")) == folder
    assert find(replace(config, offline=True)) == folder
    assert server.asked == []


@pytest.mark.parametrize("said", [b"garbage\r\n\r\n", b""])
def test_a_server_that_talks_nonsense_is_named(config: EngineConfig, said: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def talk() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    connection.recv(1000)
                    connection.sendall(said)
                    connection.close()

        threading.Thread(target=talk, daemon=True).start()
        url = f"http://user:secret@127.0.0.1:{listener.getsockname()[1]}"
        with pytest.raises(DownloadError) as caught:
            find(replace(config, mirror=url))
        listener.shutdown(socket.SHUT_RDWR)
    assert "mirror http://127.0.0.1" in caught.value.reason
    assert "secret" not in str(caught.value.reason.split("mirror ")[1].split("hub")[0])


def test_a_user_and_a_password_are_sent(server: Server, config: EngineConfig) -> None:
    url = server.url.replace("http://", "http://me:p%40ss@")
    find(replace(config, mirror=f"{url}/models"))
    assert set(server.authorizations) == {"Basic " + base64.b64encode(b"me:p@ss").decode()}


def test_a_disk_that_is_full_is_no_trouble_of_the_mirror(
    server: Server, config: EngineConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Path.open

    def full(self: Path, mode: str = "r", **options: Any) -> Any:
        if mode == "xb":
            raise OSError(28, "No space left on device")
        return real(self, mode, **options)

    monkeypatch.setattr(Path, "open", full)
    with pytest.raises(StoreError, match="No space left"):
        find(replace(config, mirror=f"{server.url}/models"))


def test_a_body_that_hardly_comes_is_given_up(
    config: EngineConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plain_server, "STALL_S", 0.3)
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n"
    small = {"modules.json": b"[]", "config.json": FILES["config.json"]}
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def drip(connection: socket.socket) -> None:
            with contextlib.suppress(OSError), connection:
                method, path, _ = connection.recv(1000).decode().split(" ", 2)
                name = path.rpartition("/")[2]
                if method == "HEAD" or name in small:
                    found = name in {"config.json", "tokenizer.json", "model.safetensors"}
                    body = small.get(name, b"") if method == "GET" else b""
                    status = "200 OK" if found else "404 no"
                    connection.sendall(
                        f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
                    )
                    return
                connection.sendall(head)
                while True:
                    connection.sendall(b"x")
                    time.sleep(0.05)

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    threading.Thread(target=drip, args=(connection,), daemon=True).start()

        threading.Thread(target=serve, daemon=True).start()
        begun = time.monotonic()
        with pytest.raises(DownloadError, match="hardly any"):
            find(replace(config, mirror=f"http://127.0.0.1:{listener.getsockname()[1]}"))
        assert time.monotonic() - begun < 8
        listener.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("revision", ["../../private", "/etc", "a/../../b", "..\\x"])
def test_a_revision_does_not_lead_out_of_a_folder(
    config: EngineConfig, tmp_path: Path, revision: str
) -> None:
    config = replace(config, mirror=str(tmp_path / "share" / "{revision}" / "{model}"))
    with pytest.raises(SettingError, match="leads out"):
        find(config, revision=revision)
