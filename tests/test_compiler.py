from __future__ import annotations

import hashlib
import itertools
import json
import struct
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import onnx
import pytest
from compiled_models import MODELS, WORDS, all_nodes, prepared, random_ids, run, unit_means
from onnx import TensorProto, numpy_helper
from reference_bert import ReferenceBert, read_weights
from safetensors.numpy import load_file, save_file

import onnx_embeddings
from onnx_embeddings import EngineConfig
from onnx_embeddings.errors import ModelFormatError
from onnx_embeddings.runtime.onnxruntime import Session
from onnx_embeddings.store import Store
from onnx_embeddings.testing import write_tiny_model

if TYPE_CHECKING:
    from pathlib import Path

    import numpy.typing as npt

    from onnx_embeddings.arrays import Ids

DTYPES: tuple[Literal["float32", "float16", "bfloat16"], ...] = ("float32", "float16", "bfloat16")
TEXTS = ["the cat sits", "", "a dog runs on the red moon by the sea", "x1 2y", "two " * 40]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "home")


def pooled(reference: ReferenceBert, texts: list[Ids]) -> npt.NDArray[np.float64]:
    """(N, H) float64: means of unit length."""
    return unit_means([reference.token_vectors(ids) for ids in texts])


def edit(file: Path, **changes: Any) -> None:
    values = json.loads(file.read_text("utf-8")) | changes
    file.write_text(json.dumps(values), encoding="utf-8")


def write_raw(file: Path, tensors: dict[str, tuple[str, list[int], bytes]]) -> None:
    """A safetensors file by hand, for types that numpy does not have."""
    header, data = {}, b""
    for name, (dtype, shape, content) in tensors.items():
        place = [len(data), len(data) + len(content)]
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": place}
        data += content
    text = json.dumps(header).encode()
    file.write_bytes(struct.pack("<Q", len(text)) + text + data)


# The numbers.


@pytest.mark.parametrize("config", MODELS.values(), ids=MODELS.keys())
def test_token_vectors_are_those_of_the_reference(
    tmp_path: Path, store: Store, config: dict[str, Any]
) -> None:
    folder = write_tiny_model(tmp_path / "model", config=config, max_tokens=None)
    reference = ReferenceBert.read(folder)
    session = Session(prepared(folder, store))
    texts = random_ids(5, 1, 12, 2, 9)
    if "max_position_embeddings" in config:
        texts += random_ids(config["max_position_embeddings"])
    for ids, tokens in zip(texts, run(session, texts), strict=True):
        assert tokens.dtype == np.float32
        expected = reference.token_vectors(ids)
        assert np.abs(tokens - expected).max() < 1e-5 * max(1, np.abs(expected).max())


@pytest.mark.parametrize(
    "options",
    [
        {"prefix": "bert."},
        {"legacy_names": True},
        {"prefix": "bert.", "legacy_names": True, "shards": 3},
        {"shards": 2},
        {"shards": 37},
        {"dtype": "float16"},
        {"dtype": "bfloat16"},
        {"dtype": "bfloat16", "shards": 2},
    ],
    ids=str,
)
def test_however_a_checkpoint_is_written_its_vectors_are_the_references(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    folder = write_tiny_model(tmp_path / "model", **options)
    with onnx_embeddings.load(folder) as engine:
        vectors = engine.embed_documents(TEXTS)
        ids = engine._opened().encoder.encode(TEXTS).ids
    np.testing.assert_allclose(vectors, pooled(ReferenceBert.read(folder), ids), atol=1e-5)


def test_names_and_shards_do_not_change_a_bit(tmp_path: Path) -> None:
    ways: list[dict[str, Any]] = [
        {},
        {"prefix": "bert."},
        {"legacy_names": True},
        {"shards": 5},
    ]
    vectors = []
    for number, way in enumerate(ways):
        folder = write_tiny_model(tmp_path / str(number), **way)
        with onnx_embeddings.load(folder) as engine:
            vectors.append(engine.embed_documents(TEXTS))
    for other in vectors[1:]:
        np.testing.assert_array_equal(other, vectors[0])


def test_half_precision_weights_move_a_vector(tmp_path: Path) -> None:
    """Or the two tests above could not tell which weights were taken."""
    vectors = {}
    for dtype in DTYPES:
        folder = write_tiny_model(tmp_path / dtype, dtype=dtype)
        with onnx_embeddings.load(folder) as engine:
            vectors[dtype] = engine.embed_documents(TEXTS)
    assert np.abs(vectors["float16"] - vectors["float32"]).max() > 5e-5
    assert np.abs(vectors["bfloat16"] - vectors["float32"]).max() > 5e-4


def test_tensors_that_no_text_vector_needs_may_be_there(tmp_path: Path) -> None:
    plain = write_tiny_model(tmp_path / "plain")
    folder = write_tiny_model(tmp_path / "more")
    weights = load_file(folder / "model.safetensors")
    weights["embeddings.position_ids"] = np.arange(48, dtype=np.int64)[None]
    weights["pooler.dense.weight"] = np.ones((32, 32), np.float32)
    weights["cls.predictions.bias"] = np.ones(WORDS, np.float32)
    save_file(weights, folder / "model.safetensors")
    with onnx_embeddings.load(plain) as one, onnx_embeddings.load(folder) as other:
        np.testing.assert_array_equal(one.embed_documents(TEXTS), other.embed_documents(TEXTS))


WRONG: dict[str, dict[str, Any]] = {
    "half the heads": {"heads": 2},
    "twice the heads": {"heads": 8},
    "positions from 1": {"first_position": 1},
    "no token type": {"token_type": None},
    "the second token type": {"token_type": 1},
    "relu": {"activation": "relu"},
    "large epsilon": {"epsilon": 0.1},
    "queries and keys swapped": {"swapped": True},
    "scores not scaled": {"scale": 1.0},
    "scores scaled by the hidden size": {"scale": 32**-0.5},
    "a layer less": {"layers": 1},
}


def test_a_reference_with_anything_wrong_misses_clearly(tmp_path: Path, store: Store) -> None:
    folder = write_tiny_model(tmp_path / "model")
    texts = random_ids(5, 14, 3)
    reference = ReferenceBert.read(folder)
    right = pooled(reference, texts)
    session = Session(prepared(folder, store))
    ours = unit_means(run(session, texts))
    assert np.abs(ours - right).max() < 1e-5
    for what, wrong in WRONG.items():
        misses = np.abs(pooled(replace(reference, **wrong), texts) - ours).max(axis=1)
        assert misses.min() > 1e-3, what


def test_the_two_kinds_of_gelu_are_told_apart(tmp_path: Path, store: Store) -> None:
    # They differ by 5e-4 at most, so the pooled vectors miss by less than for the switches above.
    folder = write_tiny_model(tmp_path / "model", config={"num_hidden_layers": 4})
    (ids,) = random_ids(30)
    (tokens,) = run(Session(prepared(folder, store)), [ids])
    reference = ReferenceBert.read(folder)
    other = replace(reference, activation="gelu_new")
    assert np.abs(tokens - reference.token_vectors(ids)).max() < 1e-5
    assert np.abs(tokens - other.token_vectors(ids)).max() > 3e-4


@pytest.mark.parametrize("precision", ["fp32", "int8"])
@pytest.mark.parametrize("name", ["tiny", "odd sizes", "wide", "very small", "relu"])
def test_a_text_has_the_same_bits_alone_and_in_any_batch(
    tmp_path: Path, store: Store, name: str, precision: str
) -> None:
    config = MODELS[name] | {"max_position_embeddings": 200}
    graph = prepared(write_tiny_model(tmp_path / "model", config=config), store, precision)
    session, wide = Session(graph), Session(graph, threads=2)
    lengths = [*range(1, 20), 24, 31, 32, 33, 48, 63, 64, 65, 100, 128, 129, 200]
    texts = random_ids(*lengths, *lengths)
    alone = [run(session, [ids])[0] for ids in texts]
    random = np.random.default_rng(1)
    mixed = [random.integers(0, len(texts), int(random.integers(2, 9))) for _ in range(15)]
    # Of one length: no place is empty, and nothing is masked.
    equal = [np.array([row, row + len(lengths), row]) for row in range(0, len(lengths), 3)]
    for rows in (*mixed, *equal):
        for runner in (session, wide):
            for row, tokens in zip(rows, run(runner, [texts[row] for row in rows]), strict=True):
                assert tokens.tobytes() == alone[row].tobytes(), len(texts[row])


# The file.


def test_a_graph_says_what_it_is(tmp_path: Path, store: Store) -> None:
    graph = prepared(write_tiny_model(tmp_path / "model"), store)
    assert graph.layout == "packed"
    assert graph.hidden_size == 32
    assert graph.precision == "fp32"
    assert graph.scheme == "fp32/1"
    assert not graph.one_by_one
    assert graph.path.parent.parent == store.compiled
    assert graph.path.parent.name.startswith("model-fp32-")


def test_weights_lie_in_one_file_beside_the_graph_and_are_whole(
    tmp_path: Path, store: Store
) -> None:
    folder = write_tiny_model(tmp_path / "model")
    graph = prepared(folder, store)
    model = onnx.load(graph.path, load_external_data=False)
    place = graph.path.parent
    outside = {}
    for tensor in model.graph.initializer:
        if tensor.data_location != TensorProto.EXTERNAL:
            assert len(tensor.raw_data) <= 1024
            continue
        data = {entry.key: entry.value for entry in tensor.external_data}
        (other_file,) = {path.name for path in place.iterdir()} - {graph.path.name, "graph.json"}
        assert data["location"] == other_file
        start, length = int(data["offset"]), int(data["length"])
        assert start % 4096 == 0
        assert length == 4 * np.prod(tensor.dims)
        assert start + length <= (place / data["location"]).stat().st_size
        outside[tensor.name] = range(start, start + length)
    ranges = sorted(outside.values(), key=lambda part: part.start)
    assert all(one.stop <= other.start for one, other in itertools.pairwise(ranges))
    assert graph.path.stat().st_size < 30_000
    onnx.checker.check_model(str(graph.path))
    whole = onnx.load(graph.path)
    arrays = [numpy_helper.to_array(tensor) for tensor in whole.graph.initializer]
    for name, weight in read_weights(folder).items():
        if name.endswith("intermediate.dense.weight"):
            expected = weight.T.astype(np.float32)
            assert any(np.array_equal(array, expected) for array in arrays)


def test_only_standard_operators_are_used(tmp_path: Path, store: Store) -> None:
    graph = prepared(write_tiny_model(tmp_path / "model"), store)
    model = onnx.load(graph.path, load_external_data=False)
    assert {node.domain for node in all_nodes(model.graph)} == {""}
    assert len(list(all_nodes(model.graph))) > len(model.graph.node)
    assert [opset.domain for opset in model.opset_import] == [""]
    (output,) = model.graph.output
    assert output.name == graph.output


def test_a_compiled_folder_may_be_moved(tmp_path: Path, store: Store) -> None:
    graph = prepared(write_tiny_model(tmp_path / "model"), store)
    texts = random_ids(4, 7)
    expected = run(Session(graph), texts)
    moved = graph.path.parent.rename(tmp_path / "moved")
    for one, other in zip(
        run(Session(replace(graph, path=moved / graph.path.name)), texts), expected, strict=True
    ):
        np.testing.assert_array_equal(one, other)


def snapshot(store: Store) -> dict[str, tuple[int, int]]:
    files = [path for path in store.compiled.rglob("*") if path.is_file()]
    return {
        str(path.relative_to(store.home)): (path.stat().st_mtime_ns, path.stat().st_ino)
        for path in files
    }


def test_a_graph_is_made_once(tmp_path: Path, store: Store) -> None:
    folder = write_tiny_model(tmp_path / "model")
    first = prepared(folder, store)
    written = snapshot(store)
    assert len(written) == 3
    assert prepared(folder, store) == first
    assert prepared(folder, Store(store.home), "fp32") == first
    assert snapshot(store) == written


def test_another_model_or_architecture_is_another_graph(tmp_path: Path, store: Store) -> None:
    folder = write_tiny_model(tmp_path / "model")
    seen = [prepared(folder, store)]
    same = json.loads((folder / "config.json").read_text("utf-8"))
    for change in ({"layer_norm_eps": 1e-5}, {"num_attention_heads": 2}, {"hidden_act": "relu"}):
        (folder / "config.json").write_text(json.dumps(same | change), encoding="utf-8")
        seen.append(prepared(folder, store))
    seen.append(prepared(write_tiny_model(tmp_path / "other", seed=1), store))
    assert len({graph.weights for graph in seen}) == len(seen)
    assert len({graph.path for graph in seen}) == len(seen)


def test_the_digest_of_weights_is_made_as_it_always_was(tmp_path: Path, store: Store) -> None:
    """People keep digests that are made of this one; tests/test_spec.py pins those."""
    folder = write_tiny_model(tmp_path / "model", shards=2)
    shards = sorted(folder.glob("*.safetensors"))
    files = [hashlib.sha256(file.read_bytes()).hexdigest() for file in shards]
    architecture = (
        '{"family":"bert","hidden_act":"gelu","hidden_size":32,"intermediate_size":64,'
        '"layer_norm_eps":1e-12,"max_position_embeddings":48,"num_attention_heads":4,'
        f'"num_hidden_layers":2,"type_vocab_size":2,"vocab_size":{WORDS}}}'
    )
    text = f'[["{files[0]}","{files[1]}"],{architecture}]'
    assert prepared(folder, store).weights == hashlib.sha256(text.encode()).hexdigest()


def test_what_does_not_change_a_vector_does_not_change_the_digest(
    tmp_path: Path, store: Store
) -> None:
    folder = write_tiny_model(tmp_path / "model")
    first = prepared(folder, store)
    edit(
        folder / "config.json",
        _name_or_path="elsewhere",
        transformers_version="9",
        architectures=None,
    )
    assert prepared(folder, store) == first
    copy = write_tiny_model(tmp_path / "copy")
    assert prepared(copy, store).weights == first.weights


# What is refused.


SIZES = [
    "vocab_size",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "max_position_embeddings",
    "type_vocab_size",
]
ODD_SIZES: list[Any] = [None, 0, -1, "32", 32.0, True, 10**30, []]
ODD_EPSILONS: list[Any] = [None, 0, 0.0, -1e-5, 1, "1e-5", True, 1e30]
ODD_ACTIVATIONS: list[Any] = [None, "swish", "", 5, [], {}]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *itertools.product(SIZES, ODD_SIZES),
        *itertools.product(["layer_norm_eps"], ODD_EPSILONS),
        *itertools.product(["hidden_act"], ODD_ACTIVATIONS),
        ("position_embedding_type", "relative_key"),
        ("is_decoder", True),
        ("add_cross_attention", True),
        ("num_attention_heads", 5),
    ],
)
def test_a_config_that_asks_for_what_is_not_supported_is_refused_by_name(
    tmp_path: Path, store: Store, name: str, value: object
) -> None:
    folder = write_tiny_model(tmp_path / "model")
    edit(folder / "config.json", **{name: value})
    with pytest.raises(ModelFormatError) as caught:
        prepared(folder, store)
    assert caught.value.path == str(folder / "config.json")
    assert any(word in caught.value.reason for word in (name, "decoder", "position"))
    assert not store.compiled.exists() or list(store.compiled.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("hidden_size", 64),
        ("vocab_size", WORDS - 1),
        ("vocab_size", WORDS + 1),
        ("num_hidden_layers", 3),
        ("intermediate_size", 32),
        ("max_position_embeddings", 512),
        ("type_vocab_size", 1),
    ],
)
def test_weights_that_do_not_fit_the_config_are_refused(
    tmp_path: Path, store: Store, name: str, value: int
) -> None:
    folder = write_tiny_model(tmp_path / "model")
    edit(folder / "config.json", **{name: value})
    with pytest.raises(ModelFormatError, match="tensor") as caught:
        prepared(folder, store)
    assert caught.value.path == str(folder / "model.safetensors")
    assert list(store.compiled.iterdir()) == []


def tensor_names() -> list[str]:
    linear = ["query", "key", "value"]
    layer = [
        *[f"attention.self.{part}.{kind}" for part in linear for kind in ("weight", "bias")],
        *[
            f"{place}.{kind}"
            for place in (
                "attention.output.dense",
                "attention.output.LayerNorm",
                "intermediate.dense",
                "output.dense",
                "output.LayerNorm",
            )
            for kind in ("weight", "bias")
        ],
    ]
    return [
        "embeddings.word_embeddings.weight",
        "embeddings.position_embeddings.weight",
        "embeddings.token_type_embeddings.weight",
        "embeddings.LayerNorm.weight",
        "embeddings.LayerNorm.bias",
        *[f"encoder.layer.1.{name}" for name in layer],
    ]


@pytest.mark.parametrize("name", tensor_names())
def test_a_tensor_that_is_missing_or_odd_is_named(tmp_path: Path, store: Store, name: str) -> None:
    folder = write_tiny_model(tmp_path / "model")
    weights = load_file(folder / "model.safetensors")
    whole = weights[name]
    wrong: dict[str, npt.NDArray[Any] | None] = {
        "missing": None,
        "turned": np.ascontiguousarray(whole.reshape(-1, 1)),
        "cut": whole[:-1].copy(),
        "int64": whole.astype(np.int64),
        "bool": whole > 0,
        "float64": whole.astype(np.float64),
    }
    for what, array in wrong.items():
        file = folder / "model.safetensors"
        changed = {key: tensor for key, tensor in weights.items() if key != name}
        if array is not None:
            changed[name] = array
        save_file(changed, file)
        with pytest.raises(ModelFormatError) as caught:
            prepared(folder, Store(tmp_path / what))
        # A missing "weight" of a normalisation is looked for under its older name too.
        stem = name.rpartition(".")[0] if "LayerNorm" in name else name
        assert stem in caught.value.reason
        assert caught.value.path == str(file)
        assert list((tmp_path / what / "compiled").iterdir()) == []
    assert not store.compiled.exists()


@pytest.mark.parametrize("dtype", ["F8_E4M3", "F8_E5M2", "F8_E8M0", "I8", "U8", "C64", "F4", "NEW"])
def test_numbers_of_other_types_are_refused(tmp_path: Path, store: Store, dtype: str) -> None:
    folder = write_tiny_model(tmp_path / "model")
    file = folder / "model.safetensors"
    bits = {"C64": 64, "F4": 4}.get(dtype, 8)
    tensors = {
        name: ("F32", list(array.shape), array.tobytes()) for name, array in load_file(file).items()
    }
    tensors["embeddings.LayerNorm.bias"] = (dtype, [32], bytes(32 * bits // 8))
    write_raw(file, tensors)
    with pytest.raises(ModelFormatError) as caught:
        prepared(folder, store)
    assert caught.value.path == str(file)
    assert list(store.compiled.iterdir()) == []


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 100, 1000, 5000, -5000, -4, -1])
def test_a_weights_file_that_is_cut_is_refused(tmp_path: Path, store: Store, size: int) -> None:
    folder = write_tiny_model(tmp_path / "model")
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:size])
    with pytest.raises(ModelFormatError) as caught:
        prepared(folder, store)
    assert caught.value.path == str(file)
    assert list(store.compiled.iterdir()) == []


@pytest.mark.parametrize(
    "content",
    [
        b"not a model at all",
        struct.pack("<Q", 2) + b"{}",
        struct.pack("<Q", 2**60) + b"{}",
        struct.pack("<Q", 4) + b"null",
        struct.pack("<Q", 2) + b"\xff\xff",
        struct.pack("<Q", 90_000) + b"[" * 90_000,
        b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n",
    ],
    ids=["text", "nothing", "huge", "null", "bytes", "nested", "pointer"],
)
def test_a_weights_file_of_another_kind_is_refused(
    tmp_path: Path, store: Store, content: bytes
) -> None:
    folder = write_tiny_model(tmp_path / "model")
    (folder / "model.safetensors").write_bytes(content)
    with pytest.raises(ModelFormatError) as caught:
        prepared(folder, store)
    assert caught.value.path == str(folder / "model.safetensors")
    assert list(store.compiled.iterdir()) == []


def test_a_damaged_shard_is_named(tmp_path: Path, store: Store) -> None:
    folder = write_tiny_model(tmp_path / "model", shards=3)
    shard = folder / "model-00002-of-00003.safetensors"
    shard.write_bytes(shard.read_bytes()[:500])
    with pytest.raises(ModelFormatError) as caught:
        prepared(folder, store)
    assert caught.value.path == str(shard)


def test_a_tensor_in_two_shards_is_refused(tmp_path: Path, store: Store) -> None:
    folder = write_tiny_model(tmp_path / "model", shards=2)
    shards = sorted(folder.glob("*.safetensors"))
    more = load_file(shards[1]) | {"encoder.layer.0.output.dense.bias": np.zeros(32, np.float32)}
    more["embeddings.LayerNorm.bias"] = np.zeros(32, np.float32)
    save_file(more, shards[1])
    with pytest.raises(ModelFormatError, match="so does another file"):
        prepared(folder, store)


def test_a_compile_that_failed_leaves_nothing_and_may_be_repeated(
    tmp_path: Path, store: Store
) -> None:
    folder = write_tiny_model(tmp_path / "model")
    file = folder / "model.safetensors"
    whole = load_file(file)
    # The last tensor is read when nearly everything has been written.
    last = "encoder.layer.1.output.LayerNorm.bias"
    save_file({name: array for name, array in whole.items() if name != last}, file)
    for _ in range(2):
        with pytest.raises(ModelFormatError, match=last.replace("bias", "(bias|beta)")):
            prepared(folder, store)
        assert list(store.compiled.iterdir()) == []
    save_file(whole, file)
    graph = prepared(folder, store)
    assert [path.name for path in store.compiled.iterdir()] == [graph.path.parent.name]


@pytest.mark.parametrize("name", ["graph.onnx", "weights.bin", "graph.json"])
@pytest.mark.parametrize("gone", [False, True])
def test_a_compiled_folder_that_is_not_whole_is_compiled_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str, *, gone: bool
) -> None:
    folder = write_tiny_model(tmp_path / "model", seed=4)
    config = EngineConfig(home=tmp_path / "home")
    with onnx_embeddings.load(folder, config=config) as engine:
        expected = engine.embed_documents(TEXTS)
    (place,) = (tmp_path / "home" / "compiled").iterdir()
    content = (place / name).read_bytes()
    if gone:
        (place / name).unlink()
    else:
        (place / name).write_bytes(content[: len(content) // 2])
    for _ in range(2):
        with onnx_embeddings.load(folder, config=config) as engine:
            np.testing.assert_array_equal(engine.embed_documents(TEXTS), expected)
    assert f"{place} is damaged" in caplog.text
    assert len(list((tmp_path / "home" / "compiled").iterdir())) == 2


@pytest.mark.parametrize("name", ["graph.onnx", "weights.bin"])
def test_a_compiled_file_with_another_content_is_noticed_and_made_again(
    tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Not only where its size differs: a bit in the weights is a wrong vector without a word."""
    folder = write_tiny_model(tmp_path / "model", seed=4)
    config = EngineConfig(home=tmp_path / "home")
    with onnx_embeddings.load(folder, config=config) as engine:
        expected = engine.embed_documents(["the cat"])
    (place,) = (tmp_path / "home" / "compiled").iterdir()
    content = bytearray((place / name).read_bytes())
    content[len(content) // 2] ^= 64
    (place / name).write_bytes(content)
    with onnx_embeddings.load(folder, config=config) as engine:
        np.testing.assert_array_equal(engine.embed_documents(["the cat"]), expected)
    assert f"{place} is damaged" in caplog.text
    onnx_embeddings.load(folder, config=config).close()
    assert len(list((tmp_path / "home" / "compiled").iterdir())) == 2


def test_a_graph_that_the_runtime_refuses_says_what_to_delete(
    tiny_folder: Path, store: Store
) -> None:
    graph = prepared(tiny_folder, store)
    graph.path.write_bytes(b"\xff" * 100)
    with pytest.raises(ModelFormatError) as caught:
        Session(graph)
    assert str(graph.path.parent) in str(caught.value.hint)
