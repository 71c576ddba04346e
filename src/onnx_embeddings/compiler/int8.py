"""Numbers of a graph in 8 bits: how far channels reach, and what scales follow.

Scales never depend on the batch. Weights have one for each column, tables one for each row. Inputs
of a linear layer have fixed ones, one for each channel, found from the ranges of sample texts and
divided between inputs and weights as SmoothQuant does (Xiao et al., arXiv:2211.10438), around the
middle of each channel's range (Wei et al., arXiv:2304.09145).

Input scales lie on a coarse grid, so that powers and logarithms that differ in their last bits from
machine to machine come to the same ones, but for rare cases at its edges.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from onnx_embeddings.compiler.encoder import Array

_TOP = 127
_TO_WEIGHTS = 0.65  # of the difficulty: SmoothQuant's alpha (others: docs/how-it-works.md)
_STEPS = 16  # of the grid to an octave, 4 % apart
_GRID = np.exp2(np.arange(_STEPS) / _STEPS).astype(np.float32)
_ROWS = 8192  # of a table at a time
_LEAST = np.float32(2.0**-20)  # of the largest: no range and no weight is taken as smaller
_TINY = np.finfo(np.float32).tiny


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """How far the channels of a linear layer's input reach.

    Attributes:
        least: (channels,) float32, on the grid.
        largest: (channels,) float32, on the grid.
    """

    least: Array
    largest: Array


def to_grid(values: npt.NDArray[np.floating[Any]]) -> Array:
    """The next values of the grid that are farther from zero, or as far; zero is on it.

    What is not finite is returned as it is.
    """
    sizes = np.abs(values.astype(np.float64))
    counts = np.isfinite(sizes) & (sizes > 0)
    exponents = np.ceil(np.log2(np.where(counts, sizes, 1)) * _STEPS - 1e-3).astype(np.int64)
    found = np.ldexp(_GRID[exponents % _STEPS], exponents // _STEPS)
    result: Array = np.where(counts, np.copysign(found, values), values).astype(np.float32)
    return result


def input_scales(reach: Range, weight: Array, *, room: float = 1.0) -> tuple[Array, Array]:
    """Both (in,): the middle of each channel, and what one step of 8 bits is worth in it.

    ``(x - middle) / scale`` lies within -127 and 127 for all that the range holds.

    Args:
        reach: of the inputs.
        weight: (in, out), all layers that take this input side by side.
        room: how many times as far as the range values may reach.
    """
    middle = (reach.least + reach.largest) / np.float32(2)
    half = _positive((reach.largest - reach.least) / np.float32(2)) * np.float32(room)
    largest = _positive(np.abs(weight).max(axis=1))
    smooth = half.astype(np.float64) ** _TO_WEIGHTS / largest.astype(np.float64) ** (
        1 - _TO_WEIGHTS
    )
    step = (half / smooth).max() / _TOP
    return middle, to_grid(smooth * step)


def _positive(sizes: Array) -> Array:
    """Sizes to divide by: none is zero, or far below the largest."""
    largest = sizes.max()
    result: Array = np.maximum(sizes, largest * _LEAST if largest else np.float32(1))
    return result


def by_column(weight: Array) -> tuple[npt.NDArray[np.int8], Array]:
    """(in, out) weights as int8, and the (out,) scales to multiply them by."""
    quantized, scales = by_row(weight.T)
    return np.ascontiguousarray(quantized.T), scales


def by_row(table: Array) -> tuple[npt.NDArray[np.int8], Array]:
    """(rows, columns) as int8, and the (rows,) scales to multiply them by."""
    scales = np.empty(len(table), np.float32)
    quantized = np.empty(table.shape, np.int8)
    for start in range(0, len(table), _ROWS):  # word tables are large
        part = table[start : start + _ROWS]
        scale = np.abs(part).max(axis=1) / np.float32(_TOP)
        scale[scale < _TINY] = 1  # a row of zeros, or of what is too small to divide by
        steps = np.rint(part / scale[:, None])
        scales[start : start + _ROWS] = scale
        quantized[start : start + _ROWS] = np.clip(steps, -_TOP, _TOP)
    return quantized, scales
