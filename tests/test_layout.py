"""The choice of files, from names and a few JSON files: what is fetched, and what is read."""

from __future__ import annotations

import json
import platform
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from source_models import FILES, MODULES, MORE_FILES

from onnx_embeddings import processor
from onnx_embeddings.errors import ModelFormatError
from onnx_embeddings.layout import choose

if TYPE_CHECKING:
    from collections.abc import Mapping


class Listed:
    """Files as a hub lists them."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self._files = files

    def has(self, name: str) -> bool:
        return name in self._files

    def names(self, folder: str) -> list[str]:
        inside = [name.removeprefix(folder) for name in self._files if name.startswith(folder)]
        return [name for name in inside if "/" not in name]

    def json(self, name: str) -> Any:
        return json.loads(self._files[name])

    def place(self, name: str) -> str:
        return f"hub/{name}"


def chosen(files: Mapping[str, bytes], variant: str | None = None) -> set[str]:
    return set(choose(Listed(files), variant=variant).files)


def absent(files: Mapping[str, bytes]) -> set[str]:
    return set(choose(Listed(files)).absent)


def without(*names: str) -> dict[str, bytes]:
    return {name: content for name, content in FILES.items() if name not in names}


def test_one_format_of_weights_is_needed_not_all() -> None:
    assert chosen(FILES | MORE_FILES) == set(FILES)
    assert absent(FILES | MORE_FILES) == set()


def test_weights_come_last() -> None:
    assert choose(Listed(FILES)).files[-1] == "model.safetensors"


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
    dense = {"path": "2_Dense", "type": "sentence_transformers.models.Dense"}
    with pytest.raises(ModelFormatError, match="Dense is not supported") as caught:
        chosen(FILES | {"modules.json": json.dumps([*MODULES, dense]).encode()})
    assert caught.value.path == "hub/modules.json"


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
    with pytest.raises(ModelFormatError, match=r"hub/model\.safetensors\.index\.json"):
        chosen(FILES | {"model.safetensors.index.json": content})


def test_a_packed_model_has_a_graph_in_the_place_of_weights() -> None:
    graph = {f"onnx-embeddings/{n}": b"{}" for n in ("graph.json", "graph.onnx", "weights.bin")}
    files = {name: content for name, content in FILES.items() if name != "model.safetensors"}
    for there in (files | graph, FILES | graph):
        assert set(choose(Listed(there), packed=True).files) == set(files) | set(graph)
    # What a hub serves says by its weights alone which model it is.
    assert chosen(FILES | graph) == set(FILES)


# The best ready file for a processor.

SENTENCE_TRANSFORMERS = [
    *("model.onnx", "model_O1.onnx", "model_O2.onnx", "model_O3.onnx", "model_O4.onnx"),
    *("model_qint8_arm64.onnx", "model_qint8_avx512.onnx", "model_qint8_avx512_vnni.onnx"),
    "model_quint8_avx2.onnx",
]
TRANSFORMERS_JS = [
    *("model.onnx", "model_bnb4.onnx", "model_fp16.onnx", "model_int8.onnx", "model_q4.onnx"),
    *("model_q4f16.onnx", "model_quantized.onnx", "model_uint8.onnx"),
]


@pytest.mark.parametrize(
    ("kind", "names", "best"),
    [
        ("vnni", SENTENCE_TRANSFORMERS, "model_qint8_avx512_vnni.onnx"),
        ("other", SENTENCE_TRANSFORMERS, "model_quint8_avx2.onnx"),
        ("arm64", SENTENCE_TRANSFORMERS, "model_qint8_arm64.onnx"),
        ("vnni", SENTENCE_TRANSFORMERS[:7], "model_qint8_avx512.onnx"),
        ("arm64", SENTENCE_TRANSFORMERS[:4], "model_O3.onnx"),
        ("vnni", TRANSFORMERS_JS, "model_quantized.onnx"),
        ("arm64", TRANSFORMERS_JS[:4], "model_int8.onnx"),
        ("other", ["model.onnx", "model_fp16.onnx", "model_q4.onnx"], "model.onnx"),
        ("other", ["model_optimized.onnx", "model.onnx"], "model_optimized.onnx"),
    ],
)
@pytest.mark.parametrize("folder", ["onnx/", ""])
def test_the_best_variant_is_that_of_the_processor(
    monkeypatch: pytest.MonkeyPatch, kind: str, names: list[str], best: str, folder: str
) -> None:
    monkeypatch.setattr(processor, "kind", lambda: kind)
    data = {f"{folder}{best}_data": b""}
    files = FILES | {f"{folder}{name}": b"" for name in names} | data
    layout = choose(Listed(files), variant="auto")
    assert layout.ready == f"{folder}{best}"
    assert layout.ready_data == tuple(data)
    assert layout.weights == ()


def test_data_is_found_where_nothing_is_listed() -> None:
    """A server of plain files says only whether it has a file."""

    class Unlisted(Listed):
        def names(self, folder: str) -> list[str]:
            del folder
            return []

    for name in ("model_O4.onnx_data", "model_O4.onnx.data", "model_O4.data"):
        files = FILES | {
            "onnx/model_O4.onnx": b"",
            f"onnx/{name}": b"",
            "onnx/model.onnx_data": b"",
        }
        layout = choose(Unlisted(files), variant="onnx/model_O4.onnx")
        assert layout.ready_data == (f"onnx/{name}",)


def test_there_must_be_a_variant_to_be_the_best() -> None:
    for names in ({}, {"model_fp16.onnx": b""}, {"other.onnx": b""}):
        with pytest.raises(ModelFormatError, match="no ONNX file of a usual name") as caught:
            choose(Listed(FILES | names), variant="auto")
        assert "variant" in str(caught.value.hint)


def test_the_kind_of_this_processor_is_known() -> None:
    assert processor.kind() in {"arm64", "vnni", "other"}


@pytest.mark.parametrize(
    ("machine", "flags", "kind"),
    [
        ("x86_64", "flags : fpu avx2 avx512f avx512_vnni", "vnni"),
        ("AMD64", "flags\t\t: avx2 avx_vnni", "vnni"),
        ("x86_64", "flags : fpu avx2", "other"),
        ("x86_64", "nothing of the kind", "other"),
        ("aarch64", "Features : fp asimd", "arm64"),
        ("arm64", "", "arm64"),
    ],
)
def test_the_kind_of_a_processor(
    monkeypatch: pytest.MonkeyPatch, machine: str, flags: str, kind: str
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: machine)
    monkeypatch.setattr(Path, "read_text", lambda *_, **__: f"vendor_id : x\n{flags}\n")
    assert processor.kind.__wrapped__() == kind
