"""A batch in, the inputs of a graph out: packed for our own graphs, padded for all others."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    from onnx_embeddings.arrays import Batch, Lengths, TokenVectors

_LONGEST_KEPT = 64  # tokens
_EMPTY_PLACE = np.float32(-1e9)  # exp() of it is 0, and a sum with it does not overflow


def packed(batch: Batch, *, long_text: int | None = None) -> dict[str, npt.NDArray[Any]]:
    """The inputs of a graph of our compiler; `compiler.packed` says what they are.

    Args:
        batch: the texts.
        long_text: a text of more tokens is alone in its batch; None for a graph that takes none.
    """
    texts, longest = batch.shape
    if texts == 1:
        build = _of_one if longest <= _LONGEST_KEPT else _of_one.__wrapped__
        return {"ids": batch.ids} | build(longest, long_text)
    row, position = _places(batch.lengths)
    unpack = np.zeros((texts, longest), np.int64)
    unpack[row, position] = np.arange(len(batch.ids))
    empty = np.arange(longest) >= batch.lengths[:, None]
    mask = np.where(empty, _EMPTY_PLACE, np.float32(0))
    values = {
        "ids": batch.ids,
        "rows": row,
        "positions": position,
        "unpack": unpack,
        "mask": mask[:, None, None, :],
        "padded": np.array(empty.any()),
    }
    if long_text is not None:
        values["long"] = np.array(longest > long_text)
    return values


@lru_cache(maxsize=_LONGEST_KEPT)
def _of_one(longest: int, long_text: int | None) -> dict[str, npt.NDArray[Any]]:
    """All inputs but ids of one text; for a lone query, to make them anew costs 40 µs."""
    positions = np.arange(longest)
    values: dict[str, npt.NDArray[Any]] = {
        "rows": np.zeros(longest, np.int64),
        "positions": positions,
        "unpack": positions[None, :],
        "mask": np.zeros((1, 1, 1, longest), np.float32),
        "padded": np.zeros((), np.bool_),
    }
    if long_text is not None:
        values["long"] = np.array(longest > long_text)
    for value in values.values():
        value.flags.writeable = False
    return values


def padded(batch: Batch, pad_id: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """(ids, mask), both (B, S) int64; padding stands to the right."""
    shape = batch.shape
    row, position = _places(batch.lengths)
    ids = np.full(shape, pad_id, np.int64)
    ids[row, position] = batch.ids
    mask = np.zeros(shape, np.int64)
    mask[row, position] = 1
    return ids, mask


def unpadded(hidden: TokenVectors, lengths: Lengths) -> TokenVectors:
    """(B, S, H) -> (T, H): the vectors of the tokens, without those of the padding."""
    tokens: TokenVectors = hidden[_places(lengths)]
    return tokens


def _places(lengths: Lengths) -> tuple[Lengths, Lengths]:
    """For each token: (the row of its text, its place in the text)."""
    ends = np.cumsum(lengths)
    row = np.repeat(np.arange(len(lengths)), lengths)
    position = np.arange(ends[-1]) - np.repeat(ends - lengths, lengths)
    return row, position
