"""What a transformer encoder consists of: sizes, tables, linear layers, normalisations.

A family (`bert`) reads them from a checkpoint; a graph (`packed`, `packed_int8`) is written from
them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Iterator

Array = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class Linear:
    """``x @ weight + bias``.

    Attributes:
        weight: (in, out) float32.
        bias: (out,) float32.
    """

    weight: Array
    bias: Array

    @staticmethod
    def beside(*layers: Linear) -> Linear:
        """The layer whose outputs are those of several that take the same inputs, side by side."""
        return Linear(
            weight=np.concatenate([layer.weight for layer in layers], axis=1),
            bias=np.concatenate([layer.bias for layer in layers]),
        )

    def scaled(self, by: npt.ArrayLike) -> Linear:
        """The layer whose outputs are so many times larger; one factor, or (out,) of them."""
        factor = np.asarray(by, np.float32)
        return Linear(weight=self.weight * factor, bias=self.bias * factor)

    def shifted(self, by: Array) -> Linear:
        """The layer whose outputs are larger by (out,) values."""
        return Linear(weight=self.weight, bias=self.bias + by)

    def of(self, scale: Array, centre: Array) -> Linear:
        """The layer that takes ``(x - centre) / scale`` and returns what this one does for x."""
        # In float64: however a processor sums, it rounds to the same, but for very rare cases.
        more = centre.astype(np.float64) @ self.weight.astype(np.float64)
        return Linear(weight=self.weight * scale[:, None], bias=self.bias + more.astype(np.float32))


@dataclass(frozen=True, slots=True, kw_only=True)
class Norm:
    """A layer normalisation over the last axis.

    Attributes:
        scale: (H,) float32.
        shift: (H,) float32.
    """

    scale: Array
    shift: Array


@dataclass(frozen=True, slots=True, kw_only=True)
class Activation:
    """The nonlinearity between the two linear layers of a feed-forward block.

    Attributes:
        operator: its name in ONNX.
        attributes: of the operator.
        least: its smallest value.
    """

    operator: str
    attributes: dict[str, str]
    least: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """One layer of an encoder that normalises after each residual sum, as BERT does.

    The scale of the scores is folded into the queries.
    """

    query: Linear
    key: Linear
    value: Linear
    out: Linear
    attended: Norm
    up: Linear
    down: Linear
    norm: Norm


class Encoder(Protocol):
    """A checkpoint of a known family, read piece by piece as it is written into a graph."""

    hidden_size: int
    heads: int
    epsilon: float
    activation: Activation
    positions: int
    """The most tokens that a text may have."""

    def words(self) -> Array:
        """(vocabulary, H): the vector of each token."""

    def places(self) -> Array:
        """(positions, H): the vector of each place in a text, with that of the token's type."""

    def norm(self) -> Norm:
        """The normalisation of the embeddings."""

    def layers(self) -> Iterator[Layer]:
        """From the first to the last."""
