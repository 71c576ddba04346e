"""Precision int8: the numbers of 8 bits, the graph made of them, and how near its vectors are."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest
from compiled_models import MODELS, all_nodes, prepared
from onnx import numpy_helper
from safetensors.numpy import load_file, save_file

import onnx_embeddings
from onnx_embeddings import EngineConfig, ModelRequest, Precision
from onnx_embeddings.compiler import packed_int8
from onnx_embeddings.compiler.encoder import Linear, Norm
from onnx_embeddings.compiler.int8 import Range, by_column, by_row, input_scales, to_grid
from onnx_embeddings.compiler.packed_int8 import PackedInt8
from onnx_embeddings.errors import ModelFormatError, SpecMismatchError
from onnx_embeddings.keys import keys
from onnx_embeddings.store import Store
from onnx_embeddings.testing import write_tiny_model

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from onnx_embeddings.compiler.encoder import Array

WORDS = "the of a cat dog bird sits runs red moon sea long one two three x y 7 . , ?"


def some_texts() -> list[str]:
    random = np.random.default_rng(0)
    words = WORDS.split()
    return [" ".join(random.choice(words, size)) for size in list(range(41)) * 3]


# The numbers.


def normal(*shape: int, seed: int = 0) -> Array:
    # Rows of very different size, so that one scale for all would not do.
    random = np.random.default_rng(seed)
    sizes = np.exp2(random.integers(-12, 6, (shape[0], 1)))
    return (random.normal(0, 1, shape) * sizes).astype(np.float32)


def test_a_table_is_right_within_half_a_step() -> None:
    table = normal(200, 33)
    quantized, scales = by_row(table)
    assert quantized.dtype == np.int8
    assert scales.dtype == np.float32
    assert (quantized.shape, scales.shape) == ((200, 33), (200,))
    assert np.abs(quantized.astype(int)).max(axis=1).tolist() == [127] * 200
    error = np.abs(quantized * scales[:, None].astype(np.float64) - table)
    assert (error <= 0.5001 * scales[:, None]).all()


def test_weights_are_right_within_half_a_step_of_their_column() -> None:
    weight = normal(50, 17).T
    quantized, scales = by_column(weight)
    assert quantized.dtype == np.int8
    assert (quantized.shape, scales.shape) == ((17, 50), (50,))
    assert quantized.flags.c_contiguous
    error = np.abs(quantized * scales.astype(np.float64) - weight)
    assert (error <= 0.5001 * scales).all()
    assert scales == pytest.approx(np.abs(weight).max(axis=0) / 127)


def test_zeros_stay_zeros() -> None:
    table = np.array([[0, 0, 0], [0, 1, -1], [1e-40, 0, 0]], np.float32)
    quantized, scales = by_row(table)
    assert quantized.tolist() == [[0, 0, 0], [0, 127, -127], [0, 0, 0]]
    assert (scales > 0).all()
    quantized, scales = by_column(np.zeros((3, 2), np.float32))
    assert not quantized.any()
    assert np.isfinite(1 / scales).all()


@pytest.mark.parametrize("factor", [1e-30, 1e-8, 1e8, 1e30])
def test_numbers_of_any_size_are_as_right(factor: float) -> None:
    table = normal(200, 33)
    # By a power of two, so that not even a rounding differs.
    power = np.float32(2.0 ** round(math.log2(factor)))
    quantized, scales = by_row(table * power)
    expected, sizes = by_row(table)
    np.testing.assert_array_equal(quantized, expected)
    np.testing.assert_array_equal(scales, sizes * power)


@pytest.mark.parametrize("factor", [2.0**-40, 2.0**-20, 2.0**20])
def test_ranges_and_weights_of_any_size_have_scales_as_right(factor: float) -> None:
    """Fixed floors cut the channels of models whose normalisations have tiny gains."""
    power = np.float32(factor)
    reach, weight = ranges_and_weight(0)
    middle, scale = input_scales(reach, weight)
    small = Range(least=reach.least * power, largest=reach.largest * power)
    smaller_middle, smaller = input_scales(small, weight / power)
    np.testing.assert_array_equal(smaller_middle, middle * power)
    np.testing.assert_array_equal(smaller, scale * power)
    # Where nothing reaches anywhere there still are scales to divide by.
    still = Range(least=np.zeros(40, np.float32), largest=np.zeros(40, np.float32))
    for none in (weight, weight * 0):
        assert (input_scales(still, none)[1] > 0).all()
        assert np.isfinite(1 / input_scales(reach, none)[1]).all()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_the_grid_never_makes_a_number_of_what_is_none(bad: float) -> None:
    found = to_grid(np.array([1, bad, 0], np.float32))
    np.testing.assert_array_equal(found, np.array([1, bad, 0], np.float32))


def test_the_grid_takes_the_next_number_away_from_zero() -> None:
    random = np.random.default_rng(0)
    sizes = np.exp2(random.uniform(-30, 30, 5000))
    values = (sizes * random.choice([-1, 1], 5000)).astype(np.float32)
    found = to_grid(values)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(np.sign(found), np.sign(values))
    ratios = found.astype(np.float64) / values
    # What rounding puts beyond a number of the grid is still that number.
    assert ratios.min() > 1 - 1e-4
    assert ratios.max() < 2 ** (1 / 16) * (1 + 1e-4)
    assert len({math.frexp(value)[0] for value in np.abs(found).tolist()}) == 16


def test_numbers_of_the_grid_stay_and_zero_is_one() -> None:
    values = to_grid(normal(50, 20).ravel())
    np.testing.assert_array_equal(to_grid(values), values)
    powers = np.exp2(np.arange(-20, 20)).astype(np.float32)
    np.testing.assert_array_equal(to_grid(powers), powers)
    np.testing.assert_array_equal(to_grid(-powers), -powers)
    assert to_grid(np.array([0, -0.0, 1], np.float32)).tolist() == [0, 0, 1]


def test_the_grid_hides_how_a_processor_rounds() -> None:
    random = np.random.default_rng(1)
    values = to_grid(normal(50, 20).ravel())
    for off in (1e-6, 1e-7, -1e-7, -1e-6):
        near = (values * (1 + off * random.random(len(values)))).astype(np.float32)
        np.testing.assert_array_equal(to_grid(near), values)


def ranges_and_weight(seed: int) -> tuple[Range, Array]:
    random = np.random.default_rng(seed)
    least = random.normal(-1, 3, 40).astype(np.float32)
    # Even where both are rounded by a step of the grid, the largest is not below the least.
    largest = least + (0.1 + np.exp2(random.uniform(-6, 6, 40))).astype(np.float32) * 8
    least[3] = largest[3] = 2.5  # a channel that never moves
    least[4] = largest[4] = 0
    return Range(least=to_grid(least), largest=to_grid(largest)), normal(40, 30, seed=seed)


def test_all_that_a_range_holds_fits_into_8_bits() -> None:
    for seed in range(20):
        reach, weight = ranges_and_weight(seed)
        middle, scale = input_scales(reach, weight)
        assert middle.dtype == scale.dtype == np.float32
        assert scale.shape == (40,)
        np.testing.assert_array_equal(middle, (reach.least + reach.largest) / 2)
        assert (scale > 0).all()
        sides = np.array([reach.least, reach.largest])
        steps = (sides - middle) / scale
        assert np.abs(steps).max() < 127.5
        # And not far less: the channel that decides the step fills its bits.
        assert np.abs(steps).max() > 127 / 2 ** (1 / 16) - 1


def test_a_channel_with_larger_weights_gets_finer_steps() -> None:
    reach = Range(least=np.full(40, -2, np.float32), largest=np.full(40, 2, np.float32))
    weight = np.exp2(np.arange(40) / 4).astype(np.float32)[:, None] * np.ones((40, 5), np.float32)
    _, scale = input_scales(reach, weight)
    assert (np.diff(scale) <= 0).all()
    assert scale[-1] < 0.6 * scale[0]


def test_a_channel_that_reaches_farther_gets_larger_steps_but_fewer_of_the_weights() -> None:
    half = np.exp2(np.arange(40) / 4).astype(np.float32)
    reach = Range(least=-half, largest=half)
    _, scale = input_scales(reach, np.ones((40, 5), np.float32))
    assert (np.diff(scale) >= 0).all()
    growth = scale[-1] / scale[0]
    assert 2 < growth < half[-1] / half[0]


def test_room_makes_every_step_larger() -> None:
    reach, weight = ranges_and_weight(0)
    (middle, scale), (same, wider) = (input_scales(reach, weight, room=r) for r in (1, 1.25))
    np.testing.assert_array_equal(middle, same)
    assert (wider > scale).all()
    assert (np.abs((reach.largest - middle) / wider) < 127 / 1.2).all()


def test_scales_are_the_same_numbers_each_time_and_near_by() -> None:
    for seed in range(20):
        reach, weight = ranges_and_weight(seed)
        first, again = input_scales(reach, weight), input_scales(reach, weight.copy())
        assert [part.tobytes() for part in first] == [part.tobytes() for part in again]
        off = (1 + 1e-7 * np.random.default_rng(seed).normal(0, 1, weight.shape)).astype(np.float32)
        assert input_scales(reach, weight * off)[1].tobytes() == first[1].tobytes()


def test_what_a_layer_folds_in_does_not_depend_on_how_a_processor_sums() -> None:
    """Or the file of a model would not be the same on every machine."""
    random = np.random.default_rng(0)
    weight = random.normal(0, 1, (384, 96)).astype(np.float32)
    centre = random.normal(0, 1, 384).astype(np.float32)
    ones, bias = np.ones(384, np.float32), np.zeros(96, np.float32)
    expected = Linear(weight=weight, bias=bias).of(ones, centre).bias
    np.testing.assert_allclose(expected, centre @ weight, atol=1e-4)
    for _ in range(5):
        order = random.permutation(384)
        found = Linear(weight=weight[order], bias=bias).of(ones, centre[order]).bias
        np.testing.assert_array_equal(found, expected)


# The graph.


@pytest.fixture(scope="module")
def graph(tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> onnx.GraphProto:
    store = Store(tmp_path_factory.mktemp("int8"))
    return onnx.load(prepared(tiny_folder, store, "int8").path).graph


def test_every_linear_layer_multiplies_integers(graph: onnx.GraphProto) -> None:
    nodes = list(all_nodes(graph))
    made = {name: node for node in nodes for name in node.output}
    arrays = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    products = [node for node in nodes if node.op_type == "MatMulIntegerToFloat"]
    sizes = {"taken": 96, "out": 32, "up": 64, "down.steps": 32}
    assert {node.output[0]: arrays[node.input[1]].shape[1] for node in products} == {
        f"layer{number}.{part}": size for number in (0, 1) for part, size in sizes.items()
    }
    for node in products:
        weight = arrays[node.input[1]]
        assert weight.dtype == np.int8
        assert np.abs(weight.astype(int)).max(axis=0).tolist() == [127] * weight.shape[1]
        assert arrays[node.input[3]].shape == (weight.shape[1],)
    # The only products of floats are those of attention, of two values that texts make.
    floats = [node for node in nodes if node.op_type == "MatMul"]
    assert [name for node in floats for name in node.output] == [
        f"layer{number}.{part}" for number in (0, 1) for part in ("scores", "mixed.grid")
    ]
    assert all(name in made for node in floats for name in node.input)


def test_no_scale_is_taken_from_a_batch(graph: onnx.GraphProto) -> None:
    nodes = list(all_nodes(graph))
    kinds = {node.op_type for node in nodes}
    assert "DynamicQuantizeLinear" not in kinds
    # What is largest is looked for within a token, and nowhere else.
    largest = [node for node in nodes if node.op_type.startswith("Reduce")]
    assert [node.input[1] for node in largest] == ["axis.-1"] * 2
    arrays = {tensor.name: tensor for tensor in graph.initializer}
    assert numpy_helper.to_array(arrays["axis.-1"]).tolist() == [-1]
    assert not kinds & {"MatMulInteger", "QLinearMatMul", "Gemm"}
    scales = [node.input[1] for node in nodes if node.op_type == "QuantizeLinear"]
    assert sorted(set(scales) - arrays.keys()) == [f"layer{i}.active.step" for i in (0, 1)]


def test_nothing_large_is_kept_in_float32(graph: onnx.GraphProto) -> None:
    arrays = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    assert arrays["words"].dtype == np.int8
    assert arrays["words"].shape == (147, 32)
    assert arrays["words.scale"].shape == (147,)
    large = {name for name, array in arrays.items() if array.dtype == np.float32 and array.ndim > 1}
    assert large == {"places"}


def test_the_word_table_is_that_of_the_checkpoint(
    graph: onnx.GraphProto, tiny_folder: Path
) -> None:
    from reference_bert import read_weights

    arrays = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    scales = arrays["words.scale"][:, None].astype(np.float64)
    words = read_weights(tiny_folder)["embeddings.word_embeddings.weight"]
    assert (np.abs(arrays["words"] * scales - words) <= 0.5001 * scales).all()


# The vectors.


def cosines(folder: Path, home: Path) -> tuple[Array, Array, Array]:
    """Of each text, and the vectors in float32 and in 8 bits."""
    config = EngineConfig(home=home)
    with (
        onnx_embeddings.load(folder, config=config) as exact,
        onnx_embeddings.load(folder, precision="int8", config=config) as engine,
    ):
        right, vectors = (one.embed_documents(some_texts()) for one in (exact, engine))
    found: Array = (right.astype(np.float64) * vectors).sum(axis=1).astype(np.float32)
    return found, right, vectors


@pytest.mark.parametrize("config", MODELS.values(), ids=MODELS.keys())
def test_vectors_are_near_those_of_float32(tmp_path: Path, config: dict[str, Any]) -> None:
    folder = write_tiny_model(tmp_path / "model", config=config, max_tokens=None)
    found, right, vectors = cosines(folder, tmp_path / "home")
    # Random weights; of real ones tests/test_real_model.py asks for more.
    assert found.mean() > 0.998
    assert found.min() > 0.95
    # It is int8: not one vector comes out as in float32.
    assert (np.abs(vectors - right).max(axis=1) > 1e-5).all()
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)


@pytest.mark.parametrize(
    ("activation", "bias"), [("gelu", -0.75), ("gelu_new", -0.75), ("relu", -9)]
)
def test_a_block_whose_activations_are_all_small_is_not_lost(
    tmp_path: Path, activation: str, bias: float
) -> None:
    """The largest value of a token is zero or below: nothing to find a scale from."""
    config = {"hidden_act": activation}
    folder = write_tiny_model(tmp_path / "model", config=config, max_tokens=None)
    weights = load_file(folder / "model.safetensors")
    for number in (0, 1):
        up = f"encoder.layer.{number}.intermediate.dense"
        weights[f"{up}.weight"] *= np.float32(0.02)
        weights[f"{up}.bias"][:] = bias
        # What comes of it counts, though it is the same for all tokens.
        weights[f"encoder.layer.{number}.output.dense.weight"] *= np.float32(3)
    save_file(weights, folder / "model.safetensors")
    found, _, _ = cosines(folder, tmp_path / "home")
    assert found.min() > 0.99


def test_the_size_of_numbers_within_a_model_costs_nothing(tmp_path: Path) -> None:
    """The same model, written with values a thousand times smaller between its layers."""
    folder = write_tiny_model(tmp_path / "model", max_tokens=None)
    usual, _, _ = cosines(folder, tmp_path / "home")
    weights = load_file(folder / "model.safetensors")
    small = np.float32(2.0**-13)
    for name, tensor in weights.items():
        if "LayerNorm" in name or "output.dense" in name:
            np.multiply(tensor, small, out=tensor)
        elif name.endswith(("self.query.weight", "key.weight", "value.weight", "te.dense.weight")):
            np.divide(tensor, small, out=tensor)
    save_file(weights, folder / "model.safetensors")
    found, _, _ = cosines(folder, tmp_path / "home")
    np.testing.assert_allclose(found, usual, atol=2e-4)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize(
    "name",
    [
        "embeddings.word_embeddings.weight",
        "embeddings.position_embeddings.weight",
        "encoder.layer.1.attention.self.value.weight",
        "encoder.layer.0.output.dense.bias",
        "encoder.layer.1.output.LayerNorm.weight",
    ],
)
def test_weights_that_are_not_finite_are_refused(tmp_path: Path, bad: float, name: str) -> None:
    """8 bits would make finite numbers of them, that mean nothing."""
    folder = write_tiny_model(tmp_path / "model")
    weights = load_file(folder / "model.safetensors")
    weights[name].flat[-1] = bad
    save_file(weights, folder / "model.safetensors")
    config = EngineConfig(home=tmp_path / "home")
    for _ in range(2):
        with pytest.raises(ModelFormatError, match=f"'{name}' holds numbers that") as caught:
            onnx_embeddings.load(folder, precision="int8", config=config)
        assert caught.value.path == str(folder / "model.safetensors")
    assert list((tmp_path / "home" / "compiled").iterdir()) == []


def test_a_model_that_overflows_on_sample_texts_is_refused(tmp_path: Path) -> None:
    folder = write_tiny_model(tmp_path / "model")
    weights = load_file(folder / "model.safetensors")
    weights["encoder.layer.0.intermediate.dense.weight"][:] = 3e38
    save_file(weights, folder / "model.safetensors")
    config = EngineConfig(home=tmp_path / "home")
    with pytest.raises(ModelFormatError, match=r"int8: layer1\.\w+\.\w+ of the sam") as caught:
        onnx_embeddings.load(folder, precision="int8", config=config)
    assert caught.value.hint == "use precision='fp32'"
    assert list((tmp_path / "home" / "compiled").iterdir()) == []


def no_smoothing(reach: Range, weight: Array, *, room: float = 1) -> tuple[Array, Array]:
    middle, _ = input_scales(reach, weight, room=room)
    half = (reach.largest - reach.least) / 2
    # A channel with an outlier, as real models have them, decides the steps of all.
    return middle, np.full(half.shape, 8 * half.max() / 127, np.float32)


def narrow(reach: Range, weight: Array, *, room: float = 1) -> tuple[Array, Array]:
    middle, scale = input_scales(reach, weight, room=room)
    return middle, scale / np.float32(4)


def off_centre(reach: Range, weight: Array, *, room: float = 1) -> tuple[Array, Array]:
    middle, scale = input_scales(reach, weight, room=room)
    return middle + 100 * scale, scale


def no_middle_in_the_layer(self: Linear, scale: Array, centre: Array) -> Linear:  # noqa: ARG001
    return Linear(weight=self.weight * scale[:, None], bias=self.bias)


def no_scale_in_the_layer(self: Linear, scale: Array, centre: Array) -> Linear:  # noqa: ARG001
    return Linear(weight=self.weight, bias=self.bias + centre @ self.weight)


def no_shift(self: Linear, by: Array) -> Linear:  # noqa: ARG001
    return self


def residual_not_scaled(self: PackedInt8, y: str, x: str, scale: Array, name: str) -> str:  # noqa: ARG001
    return self.graph.node("Add", [y, x], name)


def one_zero_for_all(  # noqa: PLR0913  as the method
    self: PackedInt8, x: str, name: str, linear: Linear, *, bias: bool = True, zero: str = "zero"
) -> str:
    del zero
    return product(self, x, name, linear, bias=bias)


def norm_not_centred(norm: Norm, middle: Array, scale: Array) -> Norm:  # noqa: ARG001
    return Norm(scale=norm.scale / scale, shift=norm.shift / scale)


product = PackedInt8.product
WRONG: dict[str, tuple[Any, str, Callable[..., Any] | int]] = {
    "one coarse scale for all channels": (packed_int8, "input_scales", no_smoothing),
    "ranges that are too narrow": (packed_int8, "input_scales", narrow),
    "a middle that is none": (packed_int8, "input_scales", off_centre),
    "the middle not given back by the layer": (Linear, "of", no_middle_in_the_layer),
    "the scale not given back by the layer": (Linear, "of", no_scale_in_the_layer),
    "no shift of values and of residual sums": (Linear, "shifted", no_shift),
    "the residual sum not scaled back": (PackedInt8, "residual", residual_not_scaled),
    "the normalisation not centred": (packed_int8, "_quantizing", norm_not_centred),
    "steps too small behind the activation": (packed_int8, "_TOP", 510),
    "another zero behind the activation": (PackedInt8, "product", one_zero_for_all),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_build_with_anything_wrong_misses_clearly(
    tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    right, _, _ = cosines(tiny_folder, tmp_path / "right")
    monkeypatch.setattr(*WRONG[what])
    wrong, _, _ = cosines(tiny_folder, tmp_path / "wrong")
    assert 1 - wrong.mean() > 5 * (1 - right.mean())
    assert wrong.mean() < 0.998


# What was asked for, what came, and what must not mix.


def test_int8_is_asked_for_by_name(tiny_folder: Path) -> None:
    by_name = ModelRequest(model=str(tiny_folder), precision="int8")
    assert by_name == ModelRequest(model=str(tiny_folder), precision=Precision.INT8)
    assert by_name.to_dict()["precision"] == "int8"
    assert ModelRequest.from_dict(json.loads(json.dumps(by_name.to_dict()))) == by_name
    with (
        onnx_embeddings.load(tiny_folder, precision="int8") as one,
        onnx_embeddings.load(by_name) as other,
    ):
        assert (one.spec.precision, one.spec.scheme) == ("int8", "int8/1")
        assert one.spec == other.spec
        np.testing.assert_array_equal(
            one.embed_documents(["the cat"]), other.embed_documents(["the cat"])
        )
    # It is never what nobody asked for.
    with onnx_embeddings.load(tiny_folder) as engine:
        assert engine.spec.precision == "fp32"


def test_the_space_is_that_of_fp32_and_the_guard_says_what_differs(tiny_folder: Path) -> None:
    with (
        onnx_embeddings.load(tiny_folder) as exact,
        onnx_embeddings.load(tiny_folder, precision="int8") as engine,
    ):
        assert engine.spec.space == exact.spec.space
        assert engine.spec.fingerprint != exact.spec.fingerprint
        assert engine.spec == dataclasses.replace(exact.spec, precision="int8", scheme="int8/1")
        with pytest.raises(SpecMismatchError) as caught:
            engine.spec.check(exact.spec, where="collection 'notes'")
        assert caught.value.same_space
        assert caught.value.differences == {"scheme": ("fp32/1", "int8/1")}
        assert "scheme: stored 'fp32/1', given 'int8/1'" in str(caught.value)
        engine.spec.check(exact.spec, where="collection 'notes'", accept="same-space")


def test_a_cached_vector_of_fp32_is_never_taken_for_int8(tiny_folder: Path, tmp_path: Path) -> None:
    texts = some_texts()
    config = EngineConfig(cache=tmp_path / "cache")
    plain = EngineConfig(cache=None)

    def vectors(precision: str, config: EngineConfig) -> Array:
        with onnx_embeddings.load(tiny_folder, precision=precision, config=config) as engine:
            seen.append(keys(engine.spec, "", texts[:1])[0])
            return engine.embed_documents(texts)

    seen: list[bytes] = []
    for precision in ("fp32", "int8", "fp32", "int8"):
        expected = vectors(precision, plain)
        np.testing.assert_array_equal(vectors(precision, config), expected)
    assert len(set(seen)) == 2


def test_both_precisions_of_a_model_are_loaded_side_by_side(tiny_folder: Path) -> None:
    before = onnx_embeddings.shared.loaded_models()
    with (
        onnx_embeddings.load(tiny_folder) as exact,
        onnx_embeddings.load(tiny_folder, precision="int8") as engine,
        onnx_embeddings.load(tiny_folder, precision="int8", max_tokens=8) as short,
    ):
        assert onnx_embeddings.shared.loaded_models() == before + 2
        assert engine._opened().sessions is short._opened().sessions
        assert engine._opened().sessions is not exact._opened().sessions
