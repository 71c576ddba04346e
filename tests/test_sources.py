"""The folder given, the choice of files, the Hugging Face cache: nothing here uses a network."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from source_models import (
    FILES,
    MORE_FILES,
    NAME,
    REVISION,
    cache_snapshot,
    catalog_of,
    isolate,
    write_files,
)

from onnx_embeddings import sources
from onnx_embeddings.errors import ModelFormatError, ModelNotFoundError
from onnx_embeddings.request import ModelRequest
from onnx_embeddings.sources import hub_cache
from onnx_embeddings.sources.files import needed

if TYPE_CHECKING:
    from onnx_embeddings.config import EngineConfig

OTHER_COMMIT = "beef" + 36 * "0"


@pytest.fixture(autouse=True)
def config(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> EngineConfig:
    return replace(isolate(monkeypatch, tmp_path), offline=True)


def find(config: EngineConfig, **values: Any) -> Path:
    return sources.find(ModelRequest(model=NAME, **values), config, models={})


def find_known(config: EngineConfig, **values: Any) -> Path:
    return sources.find(ModelRequest(model="tiny", **values), config, models=catalog_of())


# --- a folder


def test_a_given_folder_is_taken_as_it_is(
    config: EngineConfig, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = write_files(tmp_path / "user" / "my model", {"model.onnx": b"graph"})
    monkeypatch.chdir(tmp_path)
    given: list[Any] = [folder, str(folder), f"{folder}/", "./user/my model", Path("user/my model")]
    for model in given:
        assert sources.find(ModelRequest(model=model), config).resolve() == folder
    assert sources.find(ModelRequest(model="~/my model"), config) == folder


@pytest.mark.parametrize(("name", "what"), [("gone", "does not exist"), ("file", "is a file")])
def test_a_given_folder_that_is_none(
    config: EngineConfig, tmp_path: Path, name: str, what: str
) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ModelNotFoundError, match="no hub was asked") as caught:
        sources.find(ModelRequest(model=str(tmp_path / name)), config)
    assert caught.value.looked_in == (f"{tmp_path / name}: {what}",)


# --- which files are needed


def chosen(files: dict[str, bytes], variant: str | None = None) -> set[str]:
    return set(needed(files, lambda name: json.loads(files[name]), variant=variant).files)


def absent(files: dict[str, bytes]) -> set[str]:
    return set(needed(files, lambda name: json.loads(files[name])).absent)


def without(*names: str) -> dict[str, bytes]:
    return {name: content for name, content in FILES.items() if name not in names}


def test_one_format_of_weights_is_needed_not_all() -> None:
    assert chosen(FILES | MORE_FILES) == set(FILES)
    assert absent(FILES | MORE_FILES) == set()


def test_weights_come_last() -> None:
    files = needed(FILES, lambda name: json.loads(FILES[name])).files
    assert files[-1] == "model.safetensors"


def test_a_variant_takes_the_place_of_the_weights() -> None:
    data = {
        "onnx/model_O4.onnx_data": b"",
        "onnx/model_O4.onnx.data": b"",
        "onnx/model_O4.data": b"",
    }
    files = FILES | MORE_FILES | data
    expected = set(without("model.safetensors")) | {"onnx/model_O4.onnx", *data}
    assert chosen(files, "onnx/model_O4.onnx") == expected
    assert "onnx/gone.onnx" in chosen(files, "onnx/gone.onnx")


def test_shards_are_those_that_the_index_names() -> None:
    index = json.dumps({"weight_map": {"a": "model-2.safetensors", "b": "model-1.safetensors"}})
    files = without("model.safetensors") | {
        "model.safetensors.index.json": index.encode(),
        "model-1.safetensors": b"1",
        "model-9.safetensors": b"9",
    }
    assert chosen(files) == set(without("model.safetensors")) | {
        "model.safetensors.index.json",
        "model-1.safetensors",
        "model-2.safetensors",
    }


def test_an_onnx_file_where_the_weights_cannot_be_compiled() -> None:
    files = FILES | MORE_FILES | {"config.json": b'{"model_type": "mpnet"}', "model.onnx": b""}
    assert chosen(files) == set(without("model.safetensors")) | {"onnx/model.onnx"}
    assert absent(files) == set()
    del files["onnx/model.onnx"]
    assert "model.onnx" in chosen(files)
    assert absent(files) == {"onnx/model.onnx"}


def test_an_onnx_file_where_there_are_no_weights() -> None:
    only = without("model.safetensors") | {"model_int8.onnx": b""}
    assert "model_int8.onnx" in chosen(only)
    assert {"model.safetensors", "model.safetensors.index.json"} <= absent(only)
    with pytest.raises(ModelFormatError, match=r"(?s)several.*model_int8\.onnx.*variant"):
        chosen(only | {"onnx/model_fp16.onnx": b""})


def test_a_ready_file_can_do_without_config_json() -> None:
    only = without("config.json", "model.safetensors") | {"model.onnx": b""}
    assert "config.json" not in chosen(only)
    assert "config.json" in absent(only)
    assert "config.json" in chosen(without("config.json"))


def test_weights_that_nothing_can_run_are_an_error() -> None:
    with pytest.raises(ModelFormatError, match="'mpnet'"):
        chosen(FILES | {"config.json": b'{"model_type": "mpnet"}'})


def test_vocab_txt_where_there_is_no_tokenizer_json() -> None:
    assert "vocab.txt" in chosen(without("tokenizer.json") | {"vocab.txt": b""})
    assert "tokenizer.json" in chosen(without("tokenizer.json"))


def test_a_transformer_in_a_folder() -> None:
    modules = [
        {"path": "./0_Transformer/", "type": "sentence_transformers.models.Transformer"},
        {"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
    ]
    files = {
        "modules.json": json.dumps(modules).encode(),
        "0_Transformer/config.json": b'{"model_type": "bert"}',
        "0_Transformer/model.safetensors": b"1",
        "0_Transformer/sentence_bert_config.json": b"{}",
        "tokenizer.json": b"{}",
    }
    assert chosen(files | {"pytorch_model.bin": b"1"}) == {*files, "1_Pooling/config.json"}


def test_a_module_that_is_not_supported_is_known_before_the_download() -> None:
    modules = [{"path": "2_Dense", "type": "sentence_transformers.models.Dense"}]
    with pytest.raises(ModelFormatError, match="Dense"):
        chosen({"modules.json": json.dumps(modules).encode(), "2_Dense/model.safetensors": b"1"})


@pytest.mark.parametrize("path", ["../outside", "/etc", "a/../../b", "C:/x"])
def test_modules_and_shards_must_stay_inside(path: str) -> None:
    modules = json.dumps([{"path": path, "type": "x.Transformer"}]).encode()
    with pytest.raises(ModelFormatError, match="leads out"):
        chosen(FILES | {"modules.json": modules})
    index = json.dumps({"weight_map": {"a": path}}).encode()
    with pytest.raises(ModelFormatError, match="leads out"):
        chosen(FILES | {"model.safetensors.index.json": index})


@pytest.mark.parametrize("content", [b"{}", b"[1]", b"null"])
def test_odd_json_is_an_error(content: bytes) -> None:
    with pytest.raises(ModelFormatError, match=r"modules\.json"):
        chosen(FILES | {"modules.json": content})
    with pytest.raises(ModelFormatError, match="names no files"):
        chosen(FILES | {"model.safetensors.index.json": content})


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


# --- offline


def test_offline_says_what_to_do(config: EngineConfig) -> None:
    with pytest.raises(ModelNotFoundError, match="EngineConfig") as caught:
        find_known(config)
    store, cache, network = caught.value.looked_in
    assert store.startswith("store ")
    assert cache.startswith("Hugging Face cache ")
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
