from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

import onnx_embeddings
from onnx_embeddings.errors import InferenceError
from onnx_embeddings.testing import write_tiny_model
from onnx_embeddings.vectors import finish, unit

if TYPE_CHECKING:
    import numpy.typing as npt


def random_vectors(number: int, size: int, seed: int = 0) -> npt.NDArray[np.float32]:
    random = np.random.default_rng(seed)
    return (random.standard_normal((number, size)) * 5).astype(np.float32)


@pytest.mark.parametrize("size", [1, 2, 31, 384, 1024])
@pytest.mark.parametrize("scale", [1e-8, 1.0, 6e4])
def test_rows_get_unit_length_and_keep_their_direction(size: int, scale: float) -> None:
    vectors = random_vectors(9, size) * np.float32(scale)
    exact = vectors.astype(np.float64)
    exact /= np.linalg.norm(exact, axis=1, keepdims=True)
    np.testing.assert_allclose(unit(vectors), exact, atol=1e-6)


def test_a_vector_of_zeros_stays_one_and_harms_nobody() -> None:
    vectors = random_vectors(5, 16)
    clean = unit(vectors)
    vectors[2] = 0
    finished = finish(vectors, dim=16, normalize=True)
    assert finished[2].tolist() == [0] * 16
    rows = [0, 1, 3, 4]
    assert finished[rows].tobytes() == clean[rows].tobytes()


def test_a_cut_comes_before_the_length() -> None:
    vectors = np.array([[3, 4, 100, 100]], np.float32)
    np.testing.assert_allclose(finish(vectors, dim=2, normalize=True), [[0.6, 0.8]], rtol=1e-7)
    assert finish(vectors, dim=2, normalize=False).tolist() == [[3, 4]]
    assert finish(vectors, dim=4, normalize=False).tolist() == [[3, 4, 100, 100]]


def test_a_vector_whose_cut_is_zero_gets_zeros() -> None:
    vectors = np.array([[0, 0, 1]], np.float32)
    assert finish(vectors, dim=2, normalize=True).tolist() == [[0, 0]]


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("size", [1, 2, 3, 8, 31, 384])
def test_a_row_has_the_same_bits_alone_and_among_others(size: int, *, normalize: bool) -> None:
    for seed in range(10):
        vectors = random_vectors(1 + 7 * seed, size, seed)
        for dim in {1, (size + 1) // 2, size}:
            finished = finish(vectors, dim=dim, normalize=normalize)
            for row, vector in zip(vectors, finished, strict=True):
                alone = finish(row[None].copy(), dim=dim, normalize=normalize)
                assert alone.tobytes() == vector.tobytes()


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("rows", [0, 1, 2, 5])
@pytest.mark.parametrize("dim", [1, 6, 8])
def test_vectors_are_float32_rows_in_c_order(rows: int, dim: int, *, normalize: bool) -> None:
    finished = finish(random_vectors(rows, 8), dim=dim, normalize=normalize)
    assert finished.shape == (rows, dim)
    assert finished.dtype == np.float32
    assert finished.flags.c_contiguous


@pytest.mark.parametrize("normalize", [True, False])
def test_the_pooled_vectors_are_not_changed(*, normalize: bool) -> None:
    vectors = random_vectors(4, 8)
    before = vectors.copy()
    vectors.flags.writeable = False
    finish(vectors, dim=8, normalize=normalize)
    finish(vectors, dim=3, normalize=normalize)
    np.testing.assert_array_equal(vectors, before)


WITHOUT_TOKENS = """
import sys
import numpy as np
import onnx_embeddings

config = onnx_embeddings.EngineConfig(lanes=2, batch_tokens=8)
with onnx_embeddings.load(sys.argv[1], config=config) as engine:
    many = ["cat", "dog sits", "the moon", "a red sea"] * 5
    expected = engine.embed_documents(many)
    for _ in range(5):
        assert not engine.embed_documents(["", " "]).any()
        assert not engine.embed_documents([""]).any()
    mixed = engine.embed_documents(["", *many, " "])
    assert not mixed[[0, -1]].any()
    assert np.array_equal(mixed[1:-1], expected)
"""


def test_texts_without_a_single_token_get_zeros_and_harm_no_later_call(tmp_path: Path) -> None:
    folder = write_tiny_model(tmp_path / "model")
    file = folder / "tokenizer.json"
    values = json.loads(file.read_text("utf-8")) | {"post_processor": None}
    file.write_text(json.dumps(values), encoding="utf-8")
    # In a process of its own: what a broken lane leaves behind is a program that waits for ever.
    source = str(Path(onnx_embeddings.__file__).parent.parent)
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TOKENS, str(folder)],
        env=os.environ | {"PYTHONPATH": source},
        capture_output=True,
        text=True,
        check=False,
        timeout=20,
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, 3e38])
def test_numbers_that_are_not_finite_are_an_error_and_no_warning(
    tmp_path: Path, value: float
) -> None:
    from safetensors.numpy import load_file, save_file

    folder = write_tiny_model(tmp_path / "model")
    weights = load_file(folder / "model.safetensors")
    if value == 3e38:  # finite token vectors, which pooling makes too large
        weights["encoder.layer.1.output.LayerNorm.bias"][3] = value
    else:
        # Of one word: a model that makes nothing of any text is refused when it is loaded.
        with onnx_embeddings.load(folder) as engine:
            _, cat, _ = engine._opened().encoder.encode(["cat"]).ids[0]
        weights["embeddings.word_embeddings.weight"][cat] = value
    save_file(weights, folder / "model.safetensors")
    # Warnings are errors here, and would arrive instead of ours.
    with (
        onnx_embeddings.load(folder) as engine,
        pytest.raises(InferenceError, match="index 0 is not finite"),
    ):
        engine.embed_documents(["the cat sits"])
