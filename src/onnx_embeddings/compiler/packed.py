"""An encoder in, a packed graph in float32 out.

All tokens of a batch stand in one row of length T, the texts one after the other, and every
linear layer, normalisation and activation works on that row: no work on padding. Only attention
sees a grid of texts times places (B, S). Where all texts of a batch are equally long the grid is
full, and no mask is added; a very long text runs alone, through an operator that never builds the
matrix of scores.

Inputs of the graph::

    ids (T,) int64            token ids of all texts, one text after the other
    rows (T,) int64           the text of each token, from 0
    positions (T,) int64      the place of each token in its text
    unpack (B, S) int64       for each place of the grid, which token stands there
    mask (B, 1, 1, S) float32 0 for a token, a huge negative number for an empty place
    padded () bool            whether the grid has empty places
    long () bool              whether this is one long text; only for models that take such
"""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from onnx_embeddings.compiler.encoder import Linear

if TYPE_CHECKING:
    from pathlib import Path

    from onnx_embeddings.compiler.encoder import Encoder, Layer, Norm
    from onnx_embeddings.compiler.graph import Dtype, GraphWriter

OUTPUT = "token_vectors"
"""(T, H) float32: the output of the graph."""

TAKEN = ("query", "key", "value")
"""What attention takes of each token: side by side in a row, heads beside heads."""

SITES = ("in", "mixed", "attended")
"""Of each layer, what its linear layers multiply and `Observed` looks at, (T, H) each."""

LONG_TEXT = 512
"""A text of more tokens runs alone, without a matrix of scores.

Of one layer of 12 heads that takes as long at 512 and 1,024 tokens, and 0.65 times as long at
4,096; the matrix takes 25 MB at 512, 1.6 GB at 4,096.
"""

_CONTRIB = "com.microsoft"


class Packed:
    """Writes an encoder into a graph."""

    mixed_dtype: Dtype = "float32"
    """Of what attention hands to its output layer."""

    graph: GraphWriter

    def __init__(self, encoder: Encoder) -> None:
        """Write nothing yet."""
        self.encoder = encoder
        self.takes_long = encoder.positions > LONG_TEXT

    def write(self, weights: BinaryIO, weights_name: str, path: Path) -> None:
        """Write the graph.

        Args:
            weights: the file that large constants are written to.
            weights_name: its name beside the graph.
            path: where the graph goes.
        """
        from onnx_embeddings.compiler.graph import GraphWriter

        self.graph = GraphWriter(weights, weights_name)
        self.graph.output(OUTPUT, "float32", ["T", self.encoder.hidden_size])
        self.inputs()
        self.places_of_heads()
        total, norm = self.embeddings(), self.encoder.norm()
        for number, layer in enumerate(self.encoder.layers()):
            total, norm = self.layer(total, norm, layer, f"layer{number}"), layer.norm
        self.norm(total, OUTPUT, norm)
        self.graph.save(path)

    def inputs(self) -> None:
        """Declare the inputs, and the shapes that many nodes use."""
        graph = self.graph
        for name in ("ids", "rows", "positions"):
            graph.input(name, "int64", ["T"])
        graph.input("unpack", "int64", ["B", "S"])
        graph.input("mask", "float32", ["B", 1, 1, "S"])
        graph.input("padded", "bool", [])
        if self.takes_long:
            graph.input("long", "bool", [])
        head = self.encoder.hidden_size // self.encoder.heads
        graph.constant("shape.heads", [-1, head], "int64")
        graph.constant("shape.flat", [-1, self.encoder.hidden_size], "int64")
        for axis in (0, 1, -1):
            graph.constant(f"axis.{axis}", [axis], "int64")

    def places_of_heads(self) -> None:
        """Where the heads of each token are: in the row, and in the grid.

        With rows of one head each as the unit, a Gather each brings what is taken into the order
        (B, heads, S), and one brings them back, with no transposition of its own.
        """
        graph, heads = self.graph, self.encoder.heads
        numbers = np.arange(heads)
        graph.constant("heads", np.array(heads), "int64")
        graph.constant("heads.taken", np.array(len(TAKEN) * heads), "int64")
        graph.constant("heads.of.row", numbers[None, :], "int64")
        # (B, 1, S) * 3 heads + (heads, 1) -> (B, heads, S)
        grid = graph.node("Unsqueeze", ["unpack", "axis.1"], "grid.tokens")
        grid = graph.node("Mul", [grid, "heads.taken"], "grid.tokens.start")
        for number, part in enumerate(TAKEN):
            of_part = numbers[:, None] + number * heads
            graph.constant(f"heads.of.{part}", of_part, "int64")
            graph.node("Add", [grid, f"heads.of.{part}"], f"row.to.{part}")
        # ((T, 1) * heads + (1, heads)) * S + (T, 1) -> (T, heads)
        longest = graph.node("Shape", ["unpack"], "longest", start=1, end=2)
        row = graph.node("Unsqueeze", ["rows", "axis.-1"], "row.texts")
        row = graph.node("Mul", [row, "heads"], "row.texts.start")
        row = graph.node("Add", [row, "heads.of.row"], "row.heads")
        row = graph.node("Mul", [row, longest], "row.heads.start")
        position = graph.node("Unsqueeze", ["positions", "axis.-1"], "row.positions")
        graph.node("Add", [row, position], "grid.to.row")

    def embeddings(self) -> str:
        """(T, H): the sum of words and places."""
        table = self.graph.constant("places", self.encoder.places())
        place = self.graph.node("Gather", [table, "positions"], "embeddings.places")
        return self.graph.node("Add", [self.words(), place], "embeddings.sum")

    def words(self) -> str:
        """(T, H): the vector of each token."""
        table = self.graph.constant("words", self.encoder.words())
        return self.graph.node("Gather", [table, "ids"], "embeddings.words")

    def layer(self, total: str, norm: Norm, layer: Layer, name: str) -> str:
        """A layer, from the sum before its normalisation to the sum before the next one's."""
        x = self.observed(f"{name}.in", self.norm(total, f"{name}.in", norm))
        taken = Linear.beside(layer.query, layer.key, layer.value)
        y = self.attention(self.linear(x, f"{name}.taken", taken), name)
        y = self.linear(self.observed(f"{name}.mixed", y), f"{name}.out", layer.out)
        y = self.graph.node("Add", [y, x], f"{name}.attended.sum")
        x = self.norm(y, f"{name}.attended", layer.attended)
        y = self.linear(self.observed(f"{name}.attended", x), f"{name}.up", layer.up)
        y = self.linear(self.active(y, f"{name}.active"), f"{name}.down", layer.down)
        return self.graph.node("Add", [y, x], f"{name}.sum")

    def attention(self, taken: str, name: str) -> str:
        """Self-attention: rows (T, 3 H) -> grid (B, heads, S, head) -> rows (T, H)."""
        if not self.takes_long:
            return self.in_grid(taken, name)
        return self.graph.choose(
            "long",
            f"{name}.attention",
            lambda: self.at_length(taken, name),
            lambda: self.in_grid(taken, name),
            dtype=self.mixed_dtype,
        )

    def in_grid(self, taken: str, name: str) -> str:
        """Attention spelled out."""
        graph = self.graph
        rows = graph.node("Reshape", [taken, "shape.heads"], f"{taken}.heads")
        query, key, value = (
            graph.node("Gather", [rows, f"row.to.{part}"], f"{name}.{part}") for part in TAKEN
        )
        turned = graph.node("Transpose", [key], f"{key}.turned", perm=[0, 1, 3, 2])
        scores = graph.node("MatMul", [query, turned], f"{name}.scores")
        shares = graph.choose(
            "padded",
            f"{name}.shares",
            lambda: graph.node(
                "Softmax",
                [graph.node("Add", [scores, "mask"], f"{name}.masked")],
                f"{name}.shares.padded",
                axis=-1,
            ),
            lambda: graph.node("Softmax", [scores], f"{name}.shares.full", axis=-1),
        )
        mixed = graph.node("MatMul", [shares, value], f"{name}.mixed.grid")
        mixed = self.after_attention(mixed, f"{name}.grid")
        mixed = graph.node("Reshape", [mixed, "shape.heads"], f"{name}.mixed.heads")
        mixed = graph.node("Gather", [mixed, "grid.to.row"], f"{name}.mixed.row")
        return graph.node("Reshape", [mixed, "shape.flat"], f"{name}.mixed")

    def at_length(self, taken: str, name: str) -> str:
        """Attention of one long text, block by block."""
        graph = self.graph
        text = graph.node("Unsqueeze", [taken, "axis.0"], f"{taken}.long")
        parts = [f"{name}.{part}.long" for part in TAKEN]
        batch = graph.split(text, parts, axis=-1)
        mixed = graph.node(
            "MultiHeadAttention",
            batch,
            f"{name}.mixed.batch",
            domain=_CONTRIB,
            num_heads=self.encoder.heads,
            scale=1.0,
        )
        mixed = self.after_attention(mixed, f"{name}.long")
        return graph.node("Reshape", [mixed, "shape.flat"], f"{name}.mixed.long")

    def after_attention(self, mixed: str, name: str) -> str:  # noqa: ARG002  for int8
        """What is done to the mixed values before they go back to rows."""
        return mixed

    def observed(self, site: str, value: str) -> str:  # noqa: ARG002  for the ranges
        """A value that a linear layer multiplies; `Observed` looks at it."""
        return value

    def active(self, x: str, name: str) -> str:
        """The activation between the two layers of a feed-forward block."""
        activation = self.encoder.activation
        return self.graph.node(activation.operator, [x], name, **activation.attributes)

    def linear(self, x: str, name: str, linear: Linear) -> str:
        """A linear layer."""
        return self.graph.linear(x, name, linear.weight, linear.bias)

    def norm(self, x: str, name: str, norm: Norm) -> str:
        """A layer normalisation."""
        return self.graph.layer_norm(x, name, norm.scale, norm.shift, self.encoder.epsilon)


class Observed(Packed):
    """The same graph, which also returns the range of each input that int8 has fixed scales for.

    For each site two outputs, ``<site>.least`` and ``<site>.largest``, (channels,) float32.
    """

    def observed(self, site: str, value: str) -> str:
        """Add both outputs."""
        for what, operator in (("least", "ReduceMin"), ("largest", "ReduceMax")):
            name = f"{site}.{what}"
            self.graph.node(operator, [value, "axis.0"], name, keepdims=0)
            self.graph.output(name, "float32", [f"{site}.channels"])
        return value
