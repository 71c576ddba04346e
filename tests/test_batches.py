from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from onnx_embeddings.arrays import Tokens
from onnx_embeddings.batches import _FAIR_PART, pack, plan


def lengths_of(*lengths: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(lengths, np.int64)


def some_lengths(seed: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    random = np.random.default_rng(seed)
    lengths = random.integers(0, [8, 300, 4000][seed % 3], int(random.integers(1, 300)))
    lengths[random.random(len(lengths)) < 0.1] = 0
    return np.array(lengths, np.int64)


def tokens_of(*lengths: int) -> Tokens:
    """Texts whose ids say which text and which place they are of: 100 * row + place."""
    return Tokens(
        ids=[np.arange(length, dtype=np.int64) + 100 * row for row, length in enumerate(lengths)],
        lengths=lengths_of(*lengths),
        counts=lengths_of(*lengths),
    )


@pytest.mark.parametrize("budget", [1, 7, 64, 512, 100_000])
def test_every_text_that_has_tokens_is_in_one_batch(budget: int) -> None:
    for seed, one_by_one in itertools.product(range(30), (False, True)):
        lengths = some_lengths(seed)
        batches = plan(lengths, budget=budget, one_by_one=one_by_one)
        rows = [int(row) for batch in batches for row in batch]
        assert sorted(rows) == np.flatnonzero(lengths).tolist()
        assert all(len(batch) for batch in batches)


@pytest.mark.parametrize("budget", [1, 7, 64, 512, 100_000])
def test_a_batch_keeps_the_budget_or_is_a_single_text(budget: int) -> None:
    for lengths in map(some_lengths, range(30)):
        for batch in plan(lengths, budget=budget):
            cells = len(batch) * int(lengths[batch].max())
            assert cells <= budget or len(batch) == 1


def test_the_longest_texts_come_first() -> None:
    for lengths in map(some_lengths, range(30)):
        planned = [int(lengths[row]) for batch in plan(lengths, budget=64) for row in batch]
        assert planned == sorted(planned, reverse=True)


def test_texts_of_equal_length_keep_their_order() -> None:
    (batch,) = plan(lengths_of(3, 5, 3, 5, 3), budget=100)
    assert batch.tolist() == [1, 3, 0, 2, 4]


def test_a_batch_is_as_full_as_the_budget_allows() -> None:
    batches = plan(lengths_of(*[8] * 10), budget=32)
    assert [len(batch) for batch in batches] == [4, 4, 2]


FAIR = math.ceil(_FAIR_PART * 120 / 2)  # so many texts of 2 tokens are that of a budget of 120


def test_a_fair_part_of_the_budget_of_one_length_is_a_batch_of_its_own() -> None:
    batches = plan(lengths_of(*[2] * FAIR, *[1] * 5), budget=120)
    assert [batch.tolist() for batch in batches] == [
        list(range(FAIR)),
        list(range(FAIR, FAIR + 5)),
    ]


def test_less_than_a_fair_part_of_one_length_takes_shorter_texts_in() -> None:
    assert 1 < FAIR < 30
    (batch,) = plan(lengths_of(*[2] * (FAIR - 1), *[1] * 5), budget=120)
    assert batch.tolist() == list(range(FAIR + 4))


def test_texts_of_few_lengths_are_in_batches_of_one_length() -> None:
    lengths = np.repeat(np.array([4, 7, 9], np.int64), 100)
    batches = plan(lengths, budget=64)
    mixed = [batch for batch in batches if len(set(lengths[batch].tolist())) > 1]
    # What is left over of a length, which is less than a fair part, begins a mixed one.
    assert len(mixed) <= 2
    for batch in mixed:
        longest = lengths[batch].max()
        assert longest * np.count_nonzero(lengths[batch] == longest) < _FAIR_PART * 64


def test_a_graph_that_always_masks_gets_full_batches() -> None:
    (batch,) = plan(lengths_of(*[2] * FAIR, *[1] * 5), budget=120, always_masked=True)
    assert batch.tolist() == list(range(FAIR + 5))
    for lengths in map(some_lengths, range(30)):
        batches = plan(lengths, budget=512, always_masked=True)
        for batch, after in itertools.pairwise(batches):
            assert (len(batch) + 1) * int(lengths[batch].max()) > 512
            assert lengths[batch].min() >= lengths[after].max()


def test_a_batch_is_padded_or_has_a_fair_part_of_the_budget() -> None:
    for lengths in map(some_lengths, range(30)):
        batches = plan(lengths, budget=512)
        for batch in batches[:-1]:
            cells = len(batch) * int(lengths[batch].max())
            assert cells >= _FAIR_PART * 512


def test_long_texts_run_alone_whatever_the_budget_says() -> None:
    lengths = lengths_of(9, 3, 12, 0, 10, 10, 9)
    batches = plan(lengths, budget=1000, long_text=9)
    assert [batch.tolist() for batch in batches] == [[2], [4], [5], [0, 6, 1]]
    assert len(plan(lengths, budget=1000)) == 1
    for seed, budget in itertools.product(range(30), (64, 512, 100_000)):
        some = some_lengths(seed)
        batches = plan(some, budget=budget, long_text=100)
        assert sorted(np.concatenate([[], *batches])) == np.flatnonzero(some).tolist()
        assert all(len(batch) == 1 or some[batch].max() <= 100 for batch in batches)


def test_texts_without_tokens_are_in_no_batch() -> None:
    assert plan(lengths_of(), budget=64) == []
    assert plan(lengths_of(0, 0), budget=64) == []
    assert [batch.tolist() for batch in plan(lengths_of(0, 2, 0, 3), budget=64)] == [[3, 1]]


def test_one_by_one_means_one_text_to_a_batch() -> None:
    batches = plan(lengths_of(2, 0, 9, 2), budget=1000, one_by_one=True)
    assert [batch.tolist() for batch in batches] == [[2], [0], [3]]


def test_a_long_line_does_not_make_others_long() -> None:
    lengths = np.full(64, 7, np.int64)
    lengths[17] = 3500
    batches = plan(lengths, budget=512)
    assert batches[0].tolist() == [17]
    padded = sum(len(batch) * int(lengths[batch].max()) for batch in batches)
    assert padded == lengths.sum()


def test_padding_stays_small_for_texts_of_all_lengths() -> None:
    lengths = np.random.default_rng(0).integers(3, 257, 1024)
    padded = sum(len(batch) * int(lengths[batch].max()) for batch in plan(lengths, budget=512))
    assert padded < 1.05 * lengths.sum()


def test_packing_puts_the_texts_one_after_the_other() -> None:
    batch = pack(tokens_of(2, 0, 3, 1), np.array([2, 0, 3]))
    assert batch.rows.tolist() == [2, 0, 3]
    assert batch.ids.tolist() == [200, 201, 202, 0, 1, 300]
    assert batch.lengths.tolist() == [3, 2, 1]
    assert batch.shape == (3, 3)
    assert batch.ids.dtype == batch.lengths.dtype == np.int64


def test_a_single_text_packs_as_itself() -> None:
    batch = pack(tokens_of(2, 4), np.array([1]))
    assert batch.ids.tolist() == [100, 101, 102, 103]
    assert batch.shape == (1, 4)


def test_planned_and_packed_batches_hold_all_tokens() -> None:
    tokens = tokens_of(5, 2, 0, 9, 9, 1)
    batches = [pack(tokens, rows) for rows in plan(tokens.lengths, budget=12)]
    assert sorted(np.concatenate([batch.ids for batch in batches])) == sorted(
        np.concatenate(tokens.ids)
    )
