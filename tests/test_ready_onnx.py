from __future__ import annotations

import json
import os
import shutil
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from padded_export import (
    COUNT,
    IDS,
    MASK,
    PLACES,
    POOLED,
    TOKENS,
    TYPES,
    export,
    ready_folder,
    write,
)
from reference_bert import ReferenceBert

import onnx_embeddings
from onnx_embeddings import EngineConfig, ModelRequest
from onnx_embeddings.errors import ModelFormatError, OnnxEmbeddingsError, SettingError
from onnx_embeddings.testing import write_tiny_model

if TYPE_CHECKING:
    from pathlib import Path

    import numpy.typing as npt

    from onnx_embeddings import Engine

WORDS = ["the", "cat", "sits", "on", "a", "red", "moon", "and", "two", "dogs", "run", "to", "it"]
TEXTS = [
    "the cat sits",
    "",
    "a",
    "x1 2y z",
    *(" ".join(WORDS[:n]) for n in (2, 5, 9, 13)),
    "two " * 40,
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A tiny model that still has its weights."""
    return write_tiny_model(tmp_path / "model")


@pytest.fixture(scope="module")
def expected(tiny_folder: Path) -> npt.NDArray[np.float64]:
    """What the reference gives for `TEXTS`."""
    with onnx_embeddings.load(tiny_folder) as engine:
        texts = engine._opened().encoder.encode(TEXTS).ids
    reference = ReferenceBert.read(tiny_folder)
    means = np.array([reference.token_vectors(ids).mean(axis=0) for ids in texts])
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    return means


def put(folder: Path, model: onnx.ModelProto, *, data: str | None = None) -> Path:
    """Make this the only model in the folder."""
    file = write(model, folder / "onnx" / "model.onnx", data=data)
    (folder / "model.safetensors").unlink(missing_ok=True)
    return file


def edit(file: Path, **changes: Any) -> None:
    values = json.loads(file.read_text("utf-8")) | changes
    file.write_text(json.dumps(values), encoding="utf-8")


def refusal(folder: Path, **request: Any) -> ModelFormatError:
    """The error that the model brings before the first text."""
    with pytest.raises(ModelFormatError) as caught:
        onnx_embeddings.load(folder, **request)
    return caught.value


def alone(engine: Engine) -> npt.NDArray[np.float32]:
    return np.concatenate([engine.embed_documents([text]) for text in TEXTS])


# What works.

VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "other order of inputs": {"inputs": (TYPES, IDS, MASK)},
    "without types": {"inputs": (IDS, MASK)},
    "ids only": {"inputs": (IDS,)},
    "ids and types": {"inputs": (IDS, TYPES)},
    "int32": {"input_types": dict.fromkeys((IDS, MASK, TYPES), TensorProto.INT32)},
    "mixed integers": {"input_types": {MASK: TensorProto.INT32}},
    "mask of floats": {"input_types": {MASK: TensorProto.FLOAT}},
    "odd outputs": {"outputs": (COUNT, POOLED, TOKENS), "names": {TOKENS: "1234", COUNT: "x"}},
    "pooled beside": {"outputs": (TOKENS, POOLED)},
    "whole numbers of three axes first": {"outputs": (PLACES, TOKENS), "names": {TOKENS: "y"}},
    "width left open": {"width": "H"},
}


@pytest.mark.parametrize("options", VARIANTS.values(), ids=VARIANTS.keys())
def test_a_ready_file_gives_the_vectors_of_its_weights(
    folder: Path, expected: npt.NDArray[np.float64], options: dict[str, Any]
) -> None:
    with onnx_embeddings.load(ready_folder(folder, **options)) as engine:
        vectors = engine.embed_documents(TEXTS)
        assert engine.spec.precision == "fp32"
        assert engine.spec.scheme.startswith("onnx/")
        np.testing.assert_array_equal(alone(engine), vectors)
    np.testing.assert_allclose(vectors, expected, atol=1e-5)
    assert vectors.dtype == np.float32


def test_half_precision_is_the_files_own_and_comes_out_as_float32(
    folder: Path, expected: npt.NDArray[np.float64]
) -> None:
    with onnx_embeddings.load(ready_folder(folder, kind=TensorProto.FLOAT16)) as engine:
        vectors = engine.embed_documents(TEXTS)
        assert engine.spec.precision == "own"
        np.testing.assert_array_equal(alone(engine), vectors)
    assert vectors.dtype == np.float32
    assert 1e-5 < np.abs(vectors - expected).max() < 1e-2
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)


@pytest.mark.parametrize("positions", [200])
def test_a_text_has_the_same_bits_alone_and_in_any_batch(tmp_path: Path, positions: int) -> None:
    config = {"max_position_embeddings": positions}
    folder = write_tiny_model(tmp_path / "model", config=config, max_tokens=None)
    random = np.random.default_rng(0)
    texts = [" ".join(random.choice(WORDS, size)) for size in (*range(20), 31, 63, 64, 100, 198)]
    settings = [
        EngineConfig(batch_tokens=budget, lanes=lanes) for budget, lanes in ((4096, 1), (300, 2))
    ]
    with onnx_embeddings.load(ready_folder(folder)) as engine:
        single = np.concatenate([engine.embed_documents([text]) for text in texts])
    for config_ in settings:
        with onnx_embeddings.load(folder, config=config_) as engine:
            for _ in range(4):
                rows = random.permutation(len(texts))[: int(random.integers(2, len(texts)))]
                vectors = engine.embed_documents([texts[row] for row in rows])
                np.testing.assert_array_equal(vectors, single[rows])


@pytest.mark.parametrize("in_function", [False, True])
def test_a_graph_that_quantises_by_batch_runs_one_text_at_a_time(
    folder: Path,
    expected: npt.NDArray[np.float64],
    caplog: pytest.LogCaptureFixture,
    *,
    in_function: bool,
) -> None:
    model = export(folder, quantized=True)
    if in_function:
        hide_in_function(model, "DynamicQuantizeLinear")
    put(folder, model)
    with onnx_embeddings.load(folder) as engine:
        vectors = engine.embed_documents(TEXTS)
        assert engine.stats().batches == len(TEXTS)
        assert engine.spec.precision == "own"
        np.testing.assert_array_equal(alone(engine), vectors)
        onnx_embeddings.load(folder).close()
    (said,) = [record for record in caplog.records if "one at a time" in record.getMessage()]
    assert str(folder / "onnx" / "model.onnx") in said.getMessage()
    assert 1e-4 < np.abs(vectors - expected).max() < 0.1


def hide_in_function(model: onnx.ModelProto, kind: str) -> None:
    """Wrap every node of this kind into a function of the model, as newer exporters do."""
    opsets = [helper.make_opsetid("", 18)]
    body = [helper.make_node(kind, ["x"], ["y", "scale", "zero"])]
    function = helper.make_function("local", "Wrapped", ["x"], ["y", "scale", "zero"], body, opsets)
    model.functions.append(function)
    model.opset_import.append(helper.make_opsetid("local", 1))
    for node in model.graph.node:
        if node.op_type == kind:
            node.op_type, node.domain = "Wrapped", "local"


def test_without_a_mask_texts_run_alone(folder: Path) -> None:
    with onnx_embeddings.load(ready_folder(folder, inputs=(IDS,))) as engine:
        engine.embed_documents(TEXTS)
        assert engine.stats().batches == len(TEXTS)
        assert engine.stats().padded_tokens == engine.stats().tokens


def test_empty_places_hold_the_models_padding_token(folder: Path, tmp_path: Path) -> None:
    # A graph that shows its ids: each token's vector is the sum of all ids in its row.
    model = export(folder)
    del model.graph.node[:]
    axes = numpy_helper.from_array(np.array([1], np.int64), "axes")
    last = numpy_helper.from_array(np.array([2], np.int64), "last")
    shape = numpy_helper.from_array(np.array([1, 1, 32], np.int64), "shape")
    model.graph.initializer.extend([axes, last, shape])
    model.graph.node.extend(
        [
            helper.make_node("ReduceSum", [IDS, "axes"], ["sums"], keepdims=1),
            helper.make_node("Add", [IDS, MASK], ["a"]),
            helper.make_node("Mul", [TYPES, "a"], ["zeros"]),
            helper.make_node("Add", ["zeros", "sums"], ["all"]),
            helper.make_node("Cast", ["all"], ["floats"], to=TensorProto.FLOAT),
            helper.make_node("Unsqueeze", ["floats", "last"], ["column"]),
            helper.make_node("Expand", ["column", "shape"], [TOKENS]),
        ]
    )
    put(folder, model)
    edit(folder / "config.json", pad_token_id=100)
    (folder / "modules.json").unlink()
    with onnx_embeddings.load(folder, config=EngineConfig(home=tmp_path / "home")) as engine:
        short, long = engine.embed_documents(["a", "a a a"])[:, 0]
        (single,) = engine.embed_documents(["a"])[:, 0]
    assert short == single + 2 * 100
    assert long == single + 2 * 5


def test_the_padding_token_is_the_models(folder: Path) -> None:
    # Without its mask this graph would let the padding in; with it the token may be any.
    edit(folder / "config.json", pad_token_id=7)
    plain = write_tiny_model(folder.parent / "plain")
    with (
        onnx_embeddings.load(ready_folder(folder)) as one,
        onnx_embeddings.load(ready_folder(plain)) as other,
    ):
        np.testing.assert_array_equal(one.embed_documents(TEXTS), other.embed_documents(TEXTS))


@pytest.mark.parametrize("data", ["model.onnx_data", "model.onnx.data", "model.data"])
def test_weights_may_lie_in_a_file_beside(
    folder: Path, expected: npt.NDArray[np.float64], data: str
) -> None:
    file = put(folder, export(folder), data=data)
    assert (file.parent / data).stat().st_size > 10_000
    with onnx_embeddings.load(folder) as engine:
        np.testing.assert_allclose(engine.embed_documents(TEXTS), expected, atol=1e-5)


@pytest.mark.skipif(os.name == "nt", reason="links need a right there")
def test_files_may_be_links_as_in_the_cache_of_the_hub(
    folder: Path, expected: npt.NDArray[np.float64]
) -> None:
    file = put(folder, export(folder), data="model.onnx_data")
    blobs = folder.parent / "blobs"
    blobs.mkdir()
    for number, path in enumerate(sorted(file.parent.iterdir())):
        blob = path.rename(blobs / str(number))
        path.symlink_to(os.path.relpath(blob, path.parent))
    with onnx_embeddings.load(folder) as engine:
        np.testing.assert_allclose(engine.embed_documents(TEXTS), expected, atol=1e-5)


def test_other_weights_beside_the_same_file_are_another_model(folder: Path) -> None:
    put(folder, export(folder), data="model.onnx_data")
    with onnx_embeddings.load(folder) as engine:
        space = engine.spec.space
        vectors = engine.embed_documents(TEXTS)
    other = folder.parent / "other"
    shutil.copytree(folder, other)
    data = other / "onnx" / "model.onnx_data"
    numbers = np.fromfile(data, np.float32)
    (numbers * np.float32(1.1)).tofile(data)
    with onnx_embeddings.load(other) as engine:
        assert engine.spec.space != space
        assert np.abs(engine.embed_documents(TEXTS) - vectors).max() > 1e-3


def test_a_ready_file_works_without_any_other_file_but_the_tokenizer(
    folder: Path, expected: npt.NDArray[np.float64]
) -> None:
    ready_folder(folder)
    for path in folder.rglob("*.json"):
        if path.name != "tokenizer.json":
            path.unlink()
    with onnx_embeddings.load(folder, max_tokens=32) as engine:
        assert (engine.spec.normalize, engine.spec.dim) == (False, 32)
        vectors = engine.embed_documents(TEXTS)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    np.testing.assert_allclose(vectors, expected, atol=1e-5)


def test_a_ready_file_is_neither_changed_nor_copied(folder: Path) -> None:
    file = put(folder, export(folder))
    before = (file.read_bytes(), sorted(folder.rglob("*")))
    with onnx_embeddings.load(folder) as engine:
        engine.embed_documents(TEXTS)
    assert (file.read_bytes(), sorted(folder.rglob("*"))) == before
    kept = [path for path in (folder.parent / "home" / "compiled").rglob("*") if path.is_file()]
    assert [path.name for path in kept] == ["graph.json"]


# Choosing.


def test_a_variant_picks_one_of_several(folder: Path) -> None:
    file = put(folder, export(folder))
    file.rename(file.with_name("model_O4.onnx"))
    another = write_tiny_model(folder.parent / "another", seed=2)
    write(export(another), file.with_name("model_int8.onnx"))
    error = refusal(folder)
    assert "onnx/model_O4.onnx, onnx/model_int8.onnx" in error.reason
    assert "variant" in str(error.hint)
    with (
        onnx_embeddings.load(folder, variant="onnx/model_O4.onnx") as one,
        onnx_embeddings.load(folder, variant="onnx/model_int8.onnx") as other,
    ):
        assert one.spec.space != other.spec.space
        assert np.abs(one.embed_documents(TEXTS) - other.embed_documents(TEXTS)).max() > 1e-3


def test_a_variant_is_run_though_there_are_weights(folder: Path) -> None:
    write(export(folder), folder / "onnx" / "model.onnx")
    with (
        onnx_embeddings.load(folder) as compiled,
        onnx_embeddings.load(folder, variant="onnx/model.onnx") as ready,
    ):
        assert compiled.spec.scheme == "fp32/1"
        assert ready.spec.scheme.startswith("onnx/")
        difference = compiled.embed_documents(TEXTS) - ready.embed_documents(TEXTS)
        assert np.abs(difference).max() < 1e-5


def test_a_precision_that_the_file_does_not_have_is_refused(folder: Path) -> None:
    put(folder, export(folder, kind=TensorProto.FLOAT16))
    with pytest.raises(SettingError, match="precision='fp32'"):
        onnx_embeddings.load(folder, precision="fp32")


@pytest.mark.parametrize("kind", [TensorProto.FLOAT, TensorProto.FLOAT16])
def test_a_ready_file_is_not_made_int8(folder: Path, kind: Any) -> None:
    put(folder, export(folder, kind=kind))
    with pytest.raises(SettingError, match="precision='int8'") as caught:
        onnx_embeddings.load(folder, precision="int8")
    assert "model.onnx" in str(caught.value)


def test_weights_beside_a_ready_file_make_int8_possible(folder: Path) -> None:
    write(export(folder), folder / "onnx" / "model.onnx")
    with onnx_embeddings.load(folder, precision="int8") as engine:
        assert engine.spec.scheme == "int8/1"
    with pytest.raises(SettingError, match="precision='int8'"):
        onnx_embeddings.load(folder, precision="int8", variant="onnx/model.onnx")


def test_the_precision_that_the_file_has_may_be_asked_for(folder: Path) -> None:
    with onnx_embeddings.load(ready_folder(folder), precision="fp32") as engine:
        assert engine.spec.precision == "fp32"


@pytest.mark.parametrize(
    "kind",
    [
        TensorProto.FLOAT16,
        TensorProto.BFLOAT16,
        TensorProto.DOUBLE,
        TensorProto.INT8,
        TensorProto.UINT8,
        TensorProto.INT4,
        TensorProto.UINT4,
        TensorProto.FLOAT8E4M3FN,
        TensorProto.FLOAT8E5M2,
    ],
    ids=TensorProto.DataType.Name,
)
def test_weights_in_another_format_are_not_called_fp32(folder: Path, kind: Any) -> None:
    from onnx_embeddings.compiler.ready import inspect

    model = export(folder)
    model.graph.initializer.append(helper.make_tensor("more", kind, [2], [0, 1]))
    assert not inspect(put(folder, model), ()).fp32


def test_whole_numbers_and_truths_leave_a_file_fp32(folder: Path) -> None:
    from onnx_embeddings.compiler.ready import inspect

    model = export(folder)
    for kind in (TensorProto.INT64, TensorProto.INT32, TensorProto.BOOL, TensorProto.FLOAT):
        model.graph.initializer.append(helper.make_tensor(f"more {kind}", kind, [2], [0, 1]))
    assert inspect(put(folder, model), ()).fp32


# What is refused, and when.


def test_an_input_of_unknown_name_is_named_at_once(folder: Path) -> None:
    for name in ("position_ids", "attention_masks", "pixel_values"):
        put(folder, export(folder_with_weights(folder, name), inputs=(IDS, MASK, name)))
        error = refusal(folder)
        assert f"{name!r}" in error.reason
        assert "input_ids" in str(error.hint)


def folder_with_weights(folder: Path, name: str) -> Path:
    return write_tiny_model(folder.parent / f"weights {name}")


def test_an_input_of_unknown_type_is_named_at_once(folder: Path) -> None:
    put(folder, export(folder, input_types={MASK: TensorProto.DOUBLE}))
    assert "attention_mask" in refusal(folder).reason


def test_a_graph_without_ids_is_refused(folder: Path) -> None:
    values = helper.make_tensor_value_info(MASK, TensorProto.FLOAT, ["B", "S", 32])
    result = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["B", "S", 32])
    graph = helper.make_graph([helper.make_node("Neg", [MASK], ["x"])], "g", [values], [result])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    model.ir_version = 8
    put(folder, model)
    assert "input_ids" in refusal(folder).reason


def test_a_graph_that_pools_is_refused_and_its_outputs_are_listed(folder: Path) -> None:
    put(folder, export(folder, outputs=(COUNT, POOLED)))
    error = refusal(folder)
    assert "sentence_embedding with 2 axes" in error.reason
    assert "count with 1 axes" in error.reason
    assert "last hidden state" in str(error.hint)


def test_a_newer_format_of_the_file_is_not_reported_as_damage(folder: Path) -> None:
    model = export(folder)
    model.ir_version = 99
    put(folder, model)
    error = refusal(folder)
    assert "99" in error.reason
    assert "IR version" in error.reason


def test_a_newer_operator_set_is_not_reported_as_damage(folder: Path) -> None:
    model = export(folder)
    model.opset_import[0].version = 999
    put(folder, model)
    error = refusal(folder)
    assert "999" in error.reason
    assert "opset" in error.reason


def test_operators_of_an_unknown_domain_are_named(folder: Path) -> None:
    model = export(folder)
    model.graph.node[0].domain = "nobody.knows"
    model.opset_import.append(helper.make_opsetid("nobody.knows", 1))
    put(folder, model)
    assert "nobody.knows" in refusal(folder).reason


@pytest.mark.parametrize(
    "location",
    [
        "../secret",
        "/etc/passwd",
        "..\\secret",
        "weights.bin",
        "sub/model.onnx_data",
        "",
        "model.onnx",
    ],
)
def test_weights_elsewhere_are_refused(folder: Path, location: str) -> None:
    (folder / "secret").write_bytes(bytes(128))
    model = export(folder)
    add_external(model, location)
    put(folder, model)
    (folder / "onnx" / "weights.bin").write_bytes(bytes(128))
    error = refusal(folder)
    assert repr(location) in error.reason
    assert "beside" in error.reason


def add_external(model: onnx.ModelProto, location: str) -> None:
    """Add zeros from a file to the result."""
    tensor = TensorProto(
        name="outside",
        data_type=TensorProto.FLOAT,
        dims=[32],
        data_location=TensorProto.EXTERNAL,
    )
    for key, value in {"location": location, "offset": "0", "length": "128"}.items():
        tensor.external_data.add(key=key, value=value)
    model.graph.initializer.append(tensor)
    model.graph.node[-1].output[0] = "inside"
    model.graph.node.append(helper.make_node("Add", ["inside", "outside"], [TOKENS]))


def test_a_constant_node_cannot_read_a_file_elsewhere(folder: Path) -> None:
    (folder / "secret").write_bytes(bytes(128))
    model = export(folder)
    add_external(model, "../secret")
    tensor = model.graph.initializer.pop()
    model.graph.node.insert(0, helper.make_node("Constant", [], ["outside"], value=tensor))
    put(folder, model)
    refusal(folder)


def test_weights_beside_that_are_missing_are_named(folder: Path) -> None:
    file = put(folder, export(folder), data="model.onnx_data")
    (file.parent / "model.onnx_data").unlink()
    assert "'model.onnx_data'" in refusal(folder).reason


def test_weights_beside_that_are_cut_are_refused(folder: Path) -> None:
    file = put(folder, export(folder), data="model.onnx_data")
    data = file.parent / "model.onnx_data"
    data.write_bytes(data.read_bytes()[:1000])
    assert refusal(folder).path == str(file)


@pytest.mark.parametrize(
    "content",
    [b"", b"hello", b"\x00" * 100, b"version https://git-lfs.github.com/spec/v1\n", b"{}"],
    ids=["empty", "text", "zeros", "pointer", "json"],
)
def test_a_file_that_is_no_graph_is_refused(folder: Path, content: bytes) -> None:
    file = put(folder, export(folder))
    file.write_bytes(content)
    assert refusal(folder).path == str(file)


def test_a_cut_file_is_refused_wherever_it_is_cut(folder: Path) -> None:
    file = put(folder, export(folder))
    content = file.read_bytes()
    for size in (1, 10, 1000, len(content) // 2, len(content) - 1):
        file.write_bytes(content[:size])
        assert refusal(folder).path == str(file)


# Sizes that files get wrong.


@pytest.mark.parametrize("size", [1, 16, 31, 33, 64, 0, -1, True, 10**30])
def test_a_config_that_is_wrong_about_the_size_is_not_believed(folder: Path, size: object) -> None:
    put(folder, export(folder, width="H"))
    edit(folder / "config.json", hidden_size=size)
    check_size(folder)


@pytest.mark.parametrize("width", [1, 16, 31, 33, 64, -1])
def test_a_graph_that_is_wrong_about_its_size_is_not_believed(folder: Path, width: int) -> None:
    put(folder, export(folder, width=width))
    check_size(folder)


def check_size(folder: Path) -> None:
    """The right vectors or an error of ours, but never some of the numbers of a vector."""
    try:
        with onnx_embeddings.load(folder) as engine:
            vectors = engine.embed_documents(TEXTS)
    except OnnxEmbeddingsError:
        return
    assert vectors.shape == (len(TEXTS), 32)


@pytest.mark.parametrize("size", [None, "32", 32.0, []])
def test_a_size_that_nobody_says_is_asked_for(folder: Path, size: object) -> None:
    put(folder, export(folder, width="H"))
    edit(folder / "config.json", hidden_size=size)
    error = refusal(folder)
    assert "last_hidden_state" in error.reason
    assert "last axis" in error.reason


def test_a_config_that_was_put_right_is_believed(folder: Path) -> None:
    put(folder, export(folder, width="H"))
    edit(folder / "config.json", hidden_size=16)
    check_size(folder)
    edit(folder / "config.json", hidden_size=32)
    with onnx_embeddings.load(folder) as engine:
        assert engine.embed_documents(TEXTS).shape == (len(TEXTS), 32)


def test_an_output_of_unknown_shape_is_refused(folder: Path) -> None:
    model = export(folder)
    model.graph.output[0].type.tensor_type.ClearField("shape")
    put(folder, model)
    assert "last_hidden_state" in refusal(folder).reason


@pytest.mark.parametrize(("axis", "size"), [(0, 1), (1, 16)])
def test_a_graph_of_fixed_shape_is_an_error_of_ours(folder: Path, axis: int, size: int) -> None:
    model = export(folder)
    for value in model.graph.input:
        value.type.tensor_type.shape.dim[axis].dim_value = size
    put(folder, model)
    with pytest.raises(OnnxEmbeddingsError), onnx_embeddings.load(folder) as engine:
        engine.embed_documents(TEXTS)


# The note in the store.


@pytest.mark.parametrize(
    "content", ["", "{", "[]", "{}", "null", '"x"', "5", '{"output": 5}', '{"graph_format": 1}']
)
def test_a_damaged_note_in_the_store_says_what_to_delete(folder: Path, content: str) -> None:
    put(folder, export(folder))
    home = folder.parent / "store"
    config = EngineConfig(home=home)
    onnx_embeddings.load(folder, config=config).close()
    (note,) = (home / "compiled").glob("*/graph.json")
    note.write_text(content, encoding="utf-8")
    error = refusal(folder, config=config)
    assert str(note.parent) in str(error.hint)
    shutil.rmtree(note.parent)
    onnx_embeddings.load(folder, config=config).close()


def test_a_request_for_a_variant_survives_json(folder: Path) -> None:
    write(export(folder), folder / "onnx" / "model.onnx")
    request = ModelRequest(model=str(folder), variant="onnx/model.onnx")
    again = ModelRequest.from_dict(json.loads(json.dumps(request.to_dict())))
    with onnx_embeddings.load(request) as one, onnx_embeddings.load(again) as other:
        assert one.spec == other.spec


def test_of_two_outputs_of_token_vectors_the_wrong_one_is_never_taken(folder: Path) -> None:
    """Exports with all hidden states list them in any order; the last one has its usual name."""
    model = export(folder)
    model.graph.node.append(helper.make_node("Neg", [TOKENS], ["hidden_states.0"]))
    first = helper.make_tensor_value_info("hidden_states.0", TensorProto.FLOAT, ["B", "S", 32])
    outputs = [first, *model.graph.output]
    del model.graph.output[:]
    model.graph.output.extend(outputs)
    put(folder, model)
    plain = ready_folder(write_tiny_model(folder.parent / "plain"))
    with onnx_embeddings.load(plain) as engine:
        right = engine.embed_documents(TEXTS)
    # To refuse the file would be as good.
    with suppress(ModelFormatError), onnx_embeddings.load(folder) as engine:
        np.testing.assert_allclose(engine.embed_documents(TEXTS), right, atol=1e-5)
