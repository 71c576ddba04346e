"""A mirror of the user's own: a folder, or a server of plain files."""

from __future__ import annotations

import functools
import threading
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
)
from onnx_embeddings.request import ModelRequest

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
        self.status = 0

        class Handler(SimpleHTTPRequestHandler):
            server_of = self

            def log_message(self, *_: object) -> None:
                pass

            def send_head(self) -> Any:
                asked.append(f"{self.command} {self.path}")
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
