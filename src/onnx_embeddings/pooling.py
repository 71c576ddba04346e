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
    sizes = lengths.astype(np.float32)[:, None]
    match how:
        case Pooling.CLS:
            pooled = tokens[starts]
        case Pooling.LAST:
            pooled = tokens[ends - 1]
        case Pooling.MAX:
            pooled = np.maximum.reduceat(tokens, starts, axis=0)
        case Pooling.MEAN:
            pooled = np.add.reduceat(tokens, starts, axis=0) / sizes
        case Pooling.MEAN_SQRT_LEN:
            pooled = np.add.reduceat(tokens, starts, axis=0) / np.sqrt(sizes)
        case Pooling.WEIGHTED_MEAN:
            # The n-th token of a text counts n times.
            places = np.arange(1, len(tokens) + 1) - np.repeat(starts, lengths)
            weighted = tokens * places.astype(np.float32)[:, None]
            pooled = np.add.reduceat(weighted, starts, axis=0) / (sizes * (sizes + 1) / 2)
    return pooled.astype(np.float32, copy=False)
