"""Token vectors in, one vector per text out.

Pooling happens here and not in the graph because sums run in a fixed order here: one text's rows,
top to bottom, whatever else is in the batch. So a text's vector has the same bits in every batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from onnx_embeddings.spec import Pooling

if TYPE_CHECKING:
    from onnx_embeddings.arrays import Lengths, TokenVectors, Vectors


def pool(tokens: TokenVectors, lengths: Lengths, how: Pooling) -> Vectors:
    """Reduce (T, H) token vectors to (B, H) float32 text vectors, not normalised.

    Args:
        tokens: the vectors of all texts, one text after the other, without padding.
        lengths: (B,) tokens of each text, all at least 1.
        how: the reduction that the model was trained with.

    Source: `Pooling.forward` of sentence-transformers, written for packed texts.
    """
    ends = np.cumsum(lengths)
    starts = ends - lengths
    if how is Pooling.CLS:
        firsts: Vectors = tokens[starts]
        return firsts
    if how is Pooling.LAST:
        lasts: Vectors = tokens[ends - 1]
        return lasts
    if how is Pooling.MAX:
        largest: Vectors = np.maximum.reduceat(tokens, starts, axis=0)
        return largest
    sizes = lengths.astype(np.float32)[:, None]
    if how is Pooling.WEIGHTED_MEAN:
        # The n-th token of a text counts n times.
        places = np.arange(1, len(tokens) + 1) - np.repeat(starts, lengths)
        tokens = np.multiply(tokens, places.astype(np.float32)[:, None])
        sizes = np.multiply(sizes, sizes + np.float32(1)) / np.float32(2)
    elif how is Pooling.MEAN_SQRT_LEN:
        sizes = np.sqrt(sizes)
    sums: Vectors = np.add.reduceat(tokens, starts, axis=0)
    return sums / sizes
