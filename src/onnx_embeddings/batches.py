"""Token ids in, packed batches out: texts of similar length together, within a budget."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from onnx_embeddings.arrays import Batch

if TYPE_CHECKING:
    from onnx_embeddings.arrays import Lengths, Tokens

_FAIR_PART = 1 / 6


def plan(
    lengths: Lengths,
    *,
    budget: int,
    one_by_one: bool = False,
    always_masked: bool = False,
    long_text: int | None = None,
) -> list[Lengths]:
    """The rows of each batch, longest texts first; a text of no tokens is in none.

    Sorted by length a batch wastes little on its longest text, and the longest first keeps the
    lanes equally busy to the end. A batch with a fair part of the budget ends where texts become
    shorter: texts of one length need no mask, which is worth more than a few tokens more.

    Args:
        lengths: (N,) tokens of each text.
        budget: padded cells of a batch, its texts times the tokens of its longest. A longer
            text runs alone.
        one_by_one: one text to a batch, for graphs whose result depends on the batch.
        always_masked: for graphs that gain nothing where texts are of one length: batches are full.
        long_text: texts of more tokens run alone whatever the budget says.
    """
    if len(lengths) == 1:  # a lone query has no time for what follows
        return [np.zeros(1, np.int64)] if lengths[0] else []
    order = np.argsort(-lengths, kind="stable")
    order = order[: np.count_nonzero(lengths)]
    ordered = lengths[order]
    batches = []
    first = 0
    while first < len(order):
        longest = int(ordered[first])
        alone = one_by_one or (long_text is not None and longest > long_text)
        texts = 1 if alone else max(1, budget // longest)
        same = int(np.count_nonzero(ordered[first : first + texts] == longest))
        if not always_masked and same * longest >= _FAIR_PART * budget:
            texts = same
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
