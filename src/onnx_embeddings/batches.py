"""Token ids in, packed batches out: texts of similar length together, within a budget."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from onnx_embeddings.arrays import Batch

if TYPE_CHECKING:
    from onnx_embeddings.arrays import Lengths, Tokens


def plan(lengths: Lengths, *, budget: int, one_by_one: bool = False) -> list[Lengths]:
    """The rows of each batch, longest texts first; a text of no tokens is in none.

    Sorted by length a batch wastes little on its longest text, and the longest first keeps the
    lanes equally busy to the end.

    Args:
        lengths: (N,) tokens of each text.
        budget: padded cells of a batch, its texts times the tokens of its longest. A longer
            text runs alone.
        one_by_one: one text to a batch, for graphs whose result depends on the batch.
    """
    order = np.argsort(-lengths, kind="stable")
    order = order[: np.count_nonzero(lengths)]
    batches = []
    first = 0
    while first < len(order):
        texts = 1 if one_by_one else max(1, budget // int(lengths[order[first]]))
        batches.append(order[first : first + texts])
        first += texts
    return batches


def pack(tokens: Tokens, rows: Lengths) -> Batch:
    """The texts of these rows as one batch."""
    return Batch(
        rows=rows,
        ids=np.concatenate([tokens.ids[row] for row in rows]),
        lengths=tokens.lengths[rows],
    )
