"""The folder given, the choice of files, the Hugging Face cache: nothing here uses a network."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from source_models import (
    FILES,
    NAME,
    REVISION,
    cache_snapshot,
    catalog_of,
    isolate,
    write_files,
)

from onnx_embeddings import sources
from onnx_embeddings.errors import ModelNotFoundError
from onnx_embeddings.request import ModelRequest
from onnx_embeddings.sources import hub_cache
from onnx_embeddings.store import Store

if TYPE_CHECKING:
    from onnx_embeddings.config import EngineConfig

OTHER_COMMIT = "beef" + 36 * "0"


@pytest.fixture(autouse=True)
def config(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> EngineConfig:
    return replace(isolate(monkeypatch, tmp_path), offline=True)


def find(config: EngineConfig, **values: Any) -> Path:
    return sources.find(ModelRequest(model=NAME, **values), config, models={})[0]


def find_known(config: EngineConfig, **values: Any) -> Path:
    return sources.find(ModelRequest(model="tiny", **values), config, models=catalog_of())[0]


# --- a folder


def test_a_given_folder_is_taken_as_it_is(
    config: EngineConfig, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = write_files(tmp_path / "user" / "my model", {"model.onnx": b"graph"})
    monkeypatch.chdir(tmp_path)
    given: list[Any] = [folder, str(folder), f"{folder}/", "./user/my model", Path("user/my model")]
    for model in given:
        assert sources.find(ModelRequest(model=model), config)[0].resolve() == folder
    assert sources.find(ModelRequest(model="~/my model"), config)[0] == folder


@pytest.mark.parametrize(("name", "what"), [("gone", "does not exist"), ("file", "is a file")])
def test_a_given_folder_that_is_none(
    config: EngineConfig, tmp_path: Path, name: str, what: str
) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ModelNotFoundError, match="no hub was asked") as caught:
        sources.find(ModelRequest(model=str(tmp_path / name)), config)
    assert caught.value.looked_in == (f"{tmp_path / name}: {what}",)


def without(*names: str) -> dict[str, bytes]:
    return {name: content for name, content in FILES.items() if name not in names}


# --- the Hugging Face cache


def test_a_complete_snapshot_is_found_by_branch_and_by_commit(config: EngineConfig) -> None:
    snapshot = cache_snapshot(FILES)
    assert find(config) == snapshot
    assert find(config, revision="main") == snapshot
    assert find(config, revision=REVISION) == snapshot
    with pytest.raises(ModelNotFoundError, match="Hugging Face cache"):
        find(config, revision="v2")
    with pytest.raises(ModelNotFoundError, match="Hugging Face cache"):
        find(config, revision="../refs/main/x")


@pytest.mark.parametrize(
    "name", sorted(set(FILES) - {"sentence_bert_config.json", "tokenizer_config.json"})
)
@pytest.mark.parametrize("damage", ["missing", "empty", "broken link"])
def test_an_incomplete_snapshot_is_refused(config: EngineConfig, name: str, damage: str) -> None:
    snapshot = cache_snapshot(FILES)
    if damage == "missing":
        (snapshot / name).unlink()
    elif damage == "empty":
        (snapshot / name).write_bytes(b"")
    else:
        (snapshot / name).resolve().unlink()
    with pytest.raises(ModelNotFoundError) as caught:
        find(config)
    (place,) = [place for place in caught.value.looked_in if "cache" in place]
    assert f"incomplete, without {name}" in place


def test_no_modules_json_is_believed_where_the_library_noted_it(config: EngineConfig) -> None:
    snapshot = cache_snapshot(without("modules.json", "1_Pooling/config.json"))
    with pytest.raises(ModelNotFoundError, match=r"without modules\.json"):
        find(config)
    markers = snapshot.parents[1] / ".no_exist" / REVISION
    write_files(markers, {"modules.json": b""})
    assert find(config) == snapshot


def test_an_onnx_file_alone_does_not_prove_that_there_are_no_weights(config: EngineConfig) -> None:
    snapshot = cache_snapshot(without("model.safetensors") | {"onnx/model.onnx": b"graph"})
    with pytest.raises(ModelNotFoundError, match=r"without model\.safetensors"):
        find(config)
    assert find(config, variant="onnx/model.onnx") == snapshot
    markers = snapshot.parents[1] / ".no_exist" / REVISION
    write_files(markers, {"model.safetensors": b"", "model.safetensors.index.json": b""})
    assert find(config) == snapshot


def test_damaged_json_in_the_cache_is_refused(config: EngineConfig) -> None:
    cache_snapshot(FILES | {"modules.json": b"{"})
    with pytest.raises(ModelNotFoundError, match="not valid JSON"):
        find(config)


def test_a_known_model_is_verified_once(config: EngineConfig) -> None:
    snapshot = cache_snapshot(FILES, ref=None)
    assert find_known(config) == snapshot
    assert find_known(config, revision=REVISION) == snapshot
    assert config.home is not None
    assert len(list((Path(config.home) / "digests").iterdir())) == len(FILES)


def test_a_known_model_with_another_content_is_refused(
    config: EngineConfig, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    cache_snapshot(FILES | {"model.safetensors": bytes(51_200)})
    with pytest.raises(ModelNotFoundError, match=r"model\.safetensors has not the content"):
        find_known(config)
    assert "is not used: model.safetensors" in caplog.text
    # Another revision than the catalog's is not the catalog's business.
    find_known(config, revision="main")


def test_a_known_model_needs_all_that_the_catalog_names(config: EngineConfig) -> None:
    cache_snapshot(without("sentence_bert_config.json"))
    with pytest.raises(ModelNotFoundError, match=r"without sentence_bert_config\.json"):
        find_known(config)


def test_a_known_model_may_come_from_any_commit(config: EngineConfig) -> None:
    other = cache_snapshot(FILES, commit=OTHER_COMMIT)
    assert find_known(config) == other
    pinned = cache_snapshot(FILES)
    assert find_known(config) == pinned


def test_where_the_cache_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert hub_cache.folder() == tmp_path / "hf" / "hub"
    monkeypatch.setenv("HUGGINGFACE_HUB_CACHE", str(tmp_path / "old"))
    assert hub_cache.folder() == tmp_path / "old"
    monkeypatch.setenv("HF_HUB_CACHE", "$HOME/new")
    assert hub_cache.folder() == tmp_path / "user" / "new"
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME"):
        monkeypatch.delenv(name)
    assert hub_cache.folder() == tmp_path / "user" / ".cache" / "huggingface" / "hub"
    monkeypatch.setenv("XDG_CACHE_HOME", "~/caches")
    assert hub_cache.folder() == tmp_path / "user" / "caches" / "huggingface" / "hub"


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
@pytest.mark.parametrize("damage", ["zeros", "cut", "one byte"])
def test_a_file_that_is_not_what_its_link_says_is_named(
    config: EngineConfig, name: str, damage: str
) -> None:
    snapshot = cache_snapshot(FILES)
    assert find(config) == snapshot
    content = FILES[name]
    changed = {
        "zeros": b"{}".ljust(len(content), b" ") if name == "config.json" else bytes(len(content)),
        "cut": b"{}" if name == "config.json" else content[: len(content) // 2],
        "one byte": content[:-1] + (b"\n" if name == "config.json" else b"x"),
    }[damage]
    if damage == "one byte" and name == "config.json":
        changed = content + b" "
    (snapshot / name).resolve().write_bytes(changed)
    with pytest.raises(ModelNotFoundError, match="is damaged") as caught:
        find(config)
    (place,) = [place for place in caught.value.looked_in if "damaged" in place]
    assert f"{name}: is damaged: its {len(changed)} bytes" in place
    (snapshot / name).resolve().write_bytes(content)
    assert find(config) == snapshot


def test_what_arrived_is_compared_where_the_cache_has_no_links(config: EngineConfig) -> None:
    snapshot = cache_snapshot(FILES)
    for name, content in FILES.items():
        (snapshot / name).unlink()
        (snapshot / name).write_bytes(content)
    assert find(config) == snapshot
    store = Store(config.home_path)
    store.keep_arrived(snapshot, {name: store.sha256(snapshot / name) for name in FILES})
    (snapshot / "model.safetensors").write_bytes(bytes(len(FILES["model.safetensors"])))
    with pytest.raises(ModelNotFoundError, match=r"model\.safetensors: is damaged"):
        find(config)


# --- offline


def test_offline_says_what_to_do(config: EngineConfig) -> None:
    with pytest.raises(ModelNotFoundError, match="EngineConfig") as caught:
        find_known(config)
    store, cache, packages, network = caught.value.looked_in
    assert store.startswith("store ")
    assert cache.startswith("Hugging Face cache ")
    assert packages.startswith("installed packages")
    assert "offline" in network


def test_what_is_on_disk_is_found_without_the_hubs_library(config: EngineConfig) -> None:
    cache_snapshot(FILES)
    script = (
        "import sys\n"
        "from onnx_embeddings import sources\n"
        "from onnx_embeddings.config import EngineConfig\n"
        "from onnx_embeddings.request import ModelRequest\n"
        "config = EngineConfig(lanes=1, offline=True).resolved()\n"
        f"sources.find(ModelRequest(model={NAME!r}), config)\n"
        "heavy = {'huggingface_hub', 'numpy', 'onnx', 'tqdm', 'subprocess'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    assert config.offline
    subprocess.run([sys.executable, "-c", script], check=True)
