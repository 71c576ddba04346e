from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest

from onnx_embeddings.pooling import pool
from onnx_embeddings.spec import Pooling

if TYPE_CHECKING:
    import numpy.typing as npt

TOKENS = np.array([[1, 2], [3, -4], [5, 9], [10, 20]], np.float32)
LENGTHS = np.array([3, 1], np.int64)


def naive(text: npt.NDArray[np.float32], how: Pooling) -> npt.NDArray[np.float64]:
    """The vector of one text, token by token, in float64."""
    total = np.zeros(text.shape[1])
    weights = 0
    largest = np.full(text.shape[1], -np.inf)
    for place, token in enumerate(text.astype(np.float64)):
        weight = place + 1 if how is Pooling.WEIGHTED_MEAN else 1
        total += weight * token
        weights += weight
        largest = np.maximum(largest, token)
    if how in {Pooling.CLS, Pooling.LAST}:
        one: npt.NDArray[np.float64] = text[0 if how is Pooling.CLS else -1].astype(np.float64)
        return one
    if how is Pooling.MAX:
        return largest
    return total / (math.sqrt(weights) if how is Pooling.MEAN_SQRT_LEN else weights)


def random_batch(
    seed: int, size: int, *, longest: int = 300
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
    random = np.random.default_rng(seed)
    lengths = random.integers(1, longest + 1, int(random.integers(1, 9)))
    tokens = (random.standard_normal((lengths.sum(), size)) * 10).astype(np.float32)
    tokens[random.random(tokens.shape) < 0.02] = 0
    return tokens, lengths


@pytest.mark.parametrize(
    ("how", "first"),
    [
        (Pooling.CLS, [1, 2]),
        (Pooling.LAST, [5, 9]),
        (Pooling.MAX, [5, 9]),
        (Pooling.MEAN, [9 / 3, 7 / 3]),
        (Pooling.MEAN_SQRT_LEN, [9 / math.sqrt(3), 7 / math.sqrt(3)]),
        (Pooling.WEIGHTED_MEAN, [(1 + 6 + 15) / 6, (2 - 8 + 27) / 6]),
    ],
)
def test_a_case_that_is_computed_by_hand(how: Pooling, first: list[float]) -> None:
    pooled = pool(TOKENS, LENGTHS, how)
    np.testing.assert_allclose(pooled[0], first, rtol=1e-7)
    # A text of one token is that token, however it is pooled.
    assert pooled[1].tolist() == [10, 20]


@pytest.mark.parametrize("how", list(Pooling))
@pytest.mark.parametrize("size", [1, 2, 33, 384])
def test_every_mode_is_what_a_naive_loop_gives(how: Pooling, size: int) -> None:
    for seed in range(4):
        tokens, lengths = random_batch(seed, size)
        pooled = pool(tokens, lengths, how)
        texts = np.split(tokens, np.cumsum(lengths)[:-1])
        expected = np.array([naive(text, how) for text in texts])
        np.testing.assert_allclose(pooled, expected, rtol=1e-5, atol=2e-5)


@pytest.mark.parametrize("how", [Pooling.MEAN, Pooling.MEAN_SQRT_LEN, Pooling.WEIGHTED_MEAN])
def test_sums_over_long_texts_stay_exact(how: Pooling) -> None:
    random = np.random.default_rng(0)
    text = (1000 + random.standard_normal((8192, 3))).astype(np.float32)
    pooled = pool(text, np.array([8192]), how)
    np.testing.assert_allclose(pooled[0], naive(text, how), rtol=2e-6)


@pytest.mark.parametrize("how", list(Pooling))
@pytest.mark.parametrize("size", [1, 7, 32, 384])
def test_a_text_has_the_same_bits_alone_and_in_any_batch(how: Pooling, size: int) -> None:
    for seed in range(12):
        tokens, lengths = random_batch(seed, size)
        pooled = pool(tokens, lengths, how)
        for text, vector in zip(np.split(tokens, np.cumsum(lengths)[:-1]), pooled, strict=True):
            (alone,) = pool(text.copy(), np.array([len(text)]), how)
            assert alone.tobytes() == vector.tobytes()
        order = np.random.default_rng(seed).permutation(len(lengths))
        texts = np.split(tokens, np.cumsum(lengths)[:-1])
        shuffled = pool(np.concatenate([texts[i] for i in order]), lengths[order], how)
        assert shuffled.tobytes() == pooled[order].tobytes()


@pytest.mark.parametrize("how", list(Pooling))
def test_vectors_are_float32_rows_in_c_order(how: Pooling) -> None:
    tokens, lengths = random_batch(1, 16)
    pooled = pool(tokens, lengths, how)
    assert pooled.dtype == np.float32
    assert pooled.shape == (len(lengths), 16)
    assert pooled.flags.c_contiguous


@pytest.mark.parametrize("how", list(Pooling))
def test_the_token_vectors_are_not_changed(how: Pooling) -> None:
    tokens, lengths = random_batch(2, 16)
    tokens.flags.writeable = lengths.flags.writeable = False
    before = tokens.copy()
    pool(tokens, lengths, how)[:] = 0
    np.testing.assert_array_equal(tokens, before)


@pytest.mark.parametrize("how", list(Pooling))
@pytest.mark.parametrize("bad", [np.nan, 1e30])
def test_what_one_text_holds_does_not_reach_its_neighbours(how: Pooling, bad: float) -> None:
    tokens, lengths = random_batch(3, 8, longest=20)
    lengths = np.append(lengths, [5, 4])
    tokens = np.concatenate([tokens, np.ones((9, 8), np.float32)])
    clean = pool(tokens, lengths, how)
    tokens[-9:-4] = bad
    dirty = pool(tokens, lengths, how)
    assert clean[:-2].tobytes() == dirty[:-2].tobytes()
    assert clean[-1].tobytes() == dirty[-1].tobytes()
