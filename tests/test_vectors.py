from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import onnx_embeddings
from onnx_embeddings.errors import InferenceError
from onnx_embeddings.testing import write_tiny_model
from onnx_embeddings.vectors import finish, unit

if TYPE_CHECKING:
    from pathlib import Path

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


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, 3e38])
def test_numbers_that_are_not_finite_are_an_error_and_no_warning(
    tmp_path: Path, value: float
) -> None:
    from safetensors.numpy import load_file, save_file

    folder = write_tiny_model(tmp_path / "model")
    weights = load_file(folder / "model.safetensors")
    weights["encoder.layer.1.output.LayerNorm.bias"][3] = value
    save_file(weights, folder / "model.safetensors")
    # Warnings are errors here, and would arrive instead of ours.
    with (
        onnx_embeddings.load(folder) as engine,
        pytest.raises(InferenceError, match="index 0 is not finite"),
    ):
        engine.embed_documents(["the cat sits"])
