"""Pooled vectors in, finished vectors out: fewer dimensions, then unit length."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from onnx_embeddings.arrays import Vectors

_SMALLEST_NORM = np.float32(1e-12)


def finish(pooled: Vectors, *, dim: int, normalize: bool) -> Vectors:
    """(B, dim) float32, of unit length if asked; a vector of zeros stays one.

    Args:
        pooled: (B, H) float32, with H at least `dim`.
        dim: how many numbers to keep, from the first on.
        normalize: divide by the Euclidean norm, after the cut.

    Source: torch.nn.functional.normalize, with its smallest norm of 1e-12.
    """
    cut = pooled[:, :dim]
    return unit(cut) if normalize else np.ascontiguousarray(cut)


def unit(vectors: Vectors) -> Vectors:
    """(B, D) float32 of unit length; a vector of zeros stays one."""
    squares = np.ascontiguousarray(np.square(vectors))
    norms = np.sqrt(np.add.reduce(squares, axis=1, keepdims=True))
    np.maximum(norms, _SMALLEST_NORM, out=norms)
    return np.divide(vectors, norms)
