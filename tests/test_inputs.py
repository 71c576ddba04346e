from __future__ import annotations

import numpy as np
import pytest

from onnx_embeddings.arrays import Batch
from onnx_embeddings.runtime.inputs import packed, padded, unpadded


def batch_of(*lengths: int) -> Batch:
    """Ids from 10 on, so that none is the token of an empty place."""
    return Batch(
        rows=np.arange(len(lengths)),
        ids=np.arange(10, 10 + sum(lengths), dtype=np.int64),
        lengths=np.array(lengths, np.int64),
    )


def random_batch(seed: int) -> Batch:
    random = np.random.default_rng(seed)
    return batch_of(*random.integers(1, 40, int(random.integers(1, 12))).tolist())


def test_a_packed_batch_that_is_written_out() -> None:
    values = packed(batch_of(3, 1, 2))
    assert values["ids"].tolist() == [10, 11, 12, 13, 14, 15]
    assert values["rows"].tolist() == [0, 0, 0, 1, 2, 2]
    assert values["positions"].tolist() == [0, 1, 2, 0, 0, 1]
    # Places of empty cells hold any token, the mask hides it.
    mask = values["mask"]
    unpack = values["unpack"]
    assert mask.shape == (3, 1, 1, 3)
    assert np.where(mask[:, 0, 0] == 0, unpack, -1).tolist() == [[0, 1, 2], [3, -1, -1], [4, 5, -1]]
    assert ((unpack >= 0) & (unpack < 6)).all()


def test_types_and_shapes_are_what_the_graph_asks_for() -> None:
    for seed in range(20):
        batch = random_batch(seed)
        values = packed(batch)
        texts, longest = batch.shape
        tokens = len(batch.ids)
        shapes = {
            "ids": (tokens,),
            "rows": (tokens,),
            "positions": (tokens,),
            "unpack": (texts, longest),
            "mask": (texts, 1, 1, longest),
            "padded": (),
        }
        assert {name: value.shape for name, value in values.items()} == shapes
        floats = {name for name, value in values.items() if value.dtype == np.float32}
        truths = {name for name, value in values.items() if value.dtype == np.bool_}
        whole = {name for name, value in values.items() if value.dtype == np.int64}
        assert floats == {"mask"}
        assert truths == {"padded"}
        assert whole == shapes.keys() - floats - truths


def test_a_batch_is_padded_where_one_of_its_texts_is_shorter() -> None:
    for lengths in ([5], [1], [4, 4, 4], [1, 1]):
        assert packed(batch_of(*lengths))["padded"].item() is False
    for lengths in ([5, 4], [1, 2], [4, 4, 3, 4]):
        assert packed(batch_of(*lengths))["padded"].item() is True
    for seed in range(50):
        values = packed(random_batch(seed))
        # Or a token would see what stands in an empty place.
        assert values["padded"].item() == bool((values["mask"] != 0).any())


def test_a_graph_that_takes_long_texts_is_told_of_one() -> None:
    for length, long in ((1, False), (6, False), (7, True), (30, True)):
        value = packed(batch_of(length), long_text=6)["long"]
        assert value.item() is long
        assert value.shape == ()
        assert value.dtype == np.bool_
    assert packed(batch_of(3, 4, 2), long_text=6)["long"].item() is False
    assert "long" not in packed(batch_of(30))


def test_every_token_finds_its_place_in_the_grid_and_back() -> None:
    for seed in range(50):
        batch = random_batch(seed)
        values = packed(batch)
        rows, positions = values["rows"].astype(int), values["positions"].astype(int)
        assert values["unpack"][rows, positions].tolist() == list(range(len(batch.ids)))
        # Each text sees its own tokens and no others.
        visible = values["mask"][:, 0, 0] == 0
        assert visible.sum(axis=1).tolist() == batch.lengths.tolist()
        assert visible[rows, positions].all()


def test_what_is_hidden_has_no_share_at_all() -> None:
    mask = packed(batch_of(4, 1))["mask"][1, 0, 0]
    scores = mask + np.array([-300, 300, 300, 300], np.float32)
    shares = np.exp(scores - scores.max())
    assert (shares / shares.sum()).tolist() == [1, 0, 0, 0]
    assert np.isfinite(mask).all()


@pytest.mark.parametrize("pad_id", [0, 1, 250_001])
def test_padding_stands_to_the_right_and_is_masked(pad_id: int) -> None:
    ids, mask = padded(batch_of(3, 1, 2), pad_id)
    assert ids.tolist() == [[10, 11, 12], [13, pad_id, pad_id], [14, 15, pad_id]]
    assert mask.tolist() == [[1, 1, 1], [1, 0, 0], [1, 1, 0]]
    assert ids.dtype == mask.dtype == np.int64


def test_unpadding_takes_the_tokens_in_their_order() -> None:
    for seed in range(50):
        batch = random_batch(seed)
        ids, mask = padded(batch, 0)
        hidden = np.stack([ids, np.where(mask, 1, 999)], axis=-1).astype(np.float32)
        tokens = unpadded(hidden, batch.lengths)
        assert tokens[:, 0].tolist() == batch.ids.tolist()
        assert set(tokens[:, 1]) == {1}
        assert tokens.flags.c_contiguous


def test_a_text_alone_has_no_padding() -> None:
    ids, mask = padded(batch_of(5), 0)
    assert ids.tolist() == [[10, 11, 12, 13, 14]]
    assert mask.all()


@pytest.mark.parametrize("length", [1, 2, 12, 64, 65, 700])
def test_a_lone_text_has_the_inputs_of_the_first_of_two(length: int) -> None:
    """What is kept for lone texts of one length, and made anew for longer ones."""
    of_two = packed(batch_of(length, length))
    for ids in (batch_of(length), Batch(rows=np.zeros(1, int), **_other(length))):
        alone = packed(ids)
        np.testing.assert_array_equal(alone["ids"], ids.ids)
        for name in ("rows", "positions"):
            np.testing.assert_array_equal(alone[name], of_two[name][:length])
        np.testing.assert_array_equal(alone["unpack"], of_two["unpack"][:1])
        np.testing.assert_array_equal(alone["mask"], of_two["mask"][:1])
        assert not alone["padded"]
        assert {name: value.dtype for name, value in alone.items()} == {
            name: value.dtype for name, value in of_two.items()
        }
        # Who gets them can't change what the next one gets.
        assert not any(alone[name].flags.writeable for name in alone if name != "ids")
    assert [
        bool(packed(batch_of(length), long_text=limit)["long"])
        for limit in (length, length - 1, length)
    ] == [False, True, False]
    assert "long" not in packed(batch_of(length))


def _other(length: int) -> dict[str, np.ndarray[tuple[int], np.dtype[np.int64]]]:
    return {"ids": np.arange(length)[::-1], "lengths": np.array([length])}
