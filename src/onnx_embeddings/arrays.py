"""The values that pass between the stages, with their shapes.

Axis letters: N texts of a call, B texts of a batch, T tokens of all texts of a batch together,
S tokens of its longest text, H hidden size, D size of a vector.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from pathlib import Path

Ids = npt.NDArray[np.int64]
"""(T,) int64: token ids, the texts of a batch one after the other."""

Lengths = npt.NDArray[np.int64]
"""(N,) or (B,) int64: tokens of each text, special tokens included."""

TokenVectors = npt.NDArray[np.float32]
"""(T, H) float32: one vector per token, in the order of `Ids`."""

Vectors = npt.NDArray[np.float32]
"""(N, D) float32, C order: one vector per text."""

Vector = npt.NDArray[np.float32]
"""(D,) float32: that of one text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """Texts as token ids.

    Attributes:
        ids: N arrays (length,) int64, cut to the model's limit.
        lengths: (N,) int64, their lengths.
        counts: (N,) int64, what the lengths were before the cut.
    """

    ids: list[Ids]
    lengths: Lengths
    counts: Lengths


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Some texts of a call, packed: no padding between them.

    Attributes:
        rows: (B,) int64, the place of each text in the call.
        ids: (T,) int64, their tokens one after the other.
        lengths: (B,) int64, tokens of each text, all at least 1.
        shape: (B, S), texts and tokens of the longest.
    """

    rows: Lengths
    ids: Ids
    lengths: Lengths
    shape: tuple[int, int] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", (len(self.lengths), int(self.lengths.max())))


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """An ONNX file that is ready to run.

    Attributes:
        path: the file.
        layout: ``packed``: a graph of our own compiler, which takes texts without padding;
            ``padded``: any other, which takes (B, S) ids and a mask. Both return token vectors.
        hidden_size: size of a token vector.
        weights: digest of the numbers and of the architecture they belong to.
        precision: what it computes in: ``fp32``, ``int8``, or ``own`` for another format of a
            ready file.
        scheme: what the precision means exactly.
        output: the name of the graph's output that holds the token vectors.
        one_by_one: whether a result depends on the batch, so that texts must run alone.
        pad_id: the token for empty places of a padded batch.
        long_text: a text of more tokens runs alone, in a way of its own; None where no text does.
        content: digest of the files, of a compiled graph.
    """

    path: Path
    layout: Literal["packed", "padded"]
    hidden_size: int
    weights: str
    precision: str
    scheme: str
    output: str
    one_by_one: bool = False
    pad_id: int = 0
    long_text: int | None = None
    content: str = ""
