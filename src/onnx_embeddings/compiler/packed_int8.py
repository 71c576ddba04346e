"""An encoder and the ranges of its values in, a packed graph in 8 bits out.

As `packed`, with the products of all linear layers on 8-bit integers. What a product takes:

- Behind a normalisation and behind attention, fixed scales. They cost nothing: the normalisation,
  or the layer that makes the values of attention, returns ``(x - middle) / scale`` at once, and the
  residual sum gets x back with one multiplication.
- Behind the activation of a feed-forward block one scale for each token, since its outliers come
  with some tokens only.

Nothing depends on the batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from onnx_embeddings.compiler.encoder import Linear, Norm
from onnx_embeddings.compiler.int8 import by_column, by_row, input_scales
from onnx_embeddings.compiler.packed import Packed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from onnx_embeddings.compiler.encoder import Array, Encoder, Layer
    from onnx_embeddings.compiler.graph import Dtype
    from onnx_embeddings.compiler.int8 import Range

_ZERO = 128  # what stands for 0 in uint8, where both signs are as likely
_ZERO_ACTIVE = 32  # and where most values are above it
_TOP = 255
# Where attention looks at one token only, what it mixes reaches farther than on any sample.
_ROOM_OF_MIXED = 1.25


class PackedInt8(Packed):
    """Writes an encoder into a graph of 8-bit products."""

    mixed_dtype: Dtype = "uint8"

    def __init__(self, encoder: Encoder, ranges: Mapping[str, Range]) -> None:
        """Write nothing yet.

        Args:
            encoder: what to write.
            ranges: by the sites that `packed.Observed` names.
        """
        super().__init__(encoder)
        self.ranges = ranges

    def inputs(self) -> None:
        """As `Packed.inputs`, and the numbers of quantisation."""
        super().inputs()
        graph = self.graph
        graph.constant("one", np.array(1), "float32")
        graph.constant("zero", np.array(_ZERO), "uint8")
        zero = _ZERO_ACTIVE if self.encoder.activation.least < 0 else 0
        graph.constant("zero.active", np.array(zero), "uint8")
        graph.constant("steps.active", np.array(1 / (_TOP - zero)), "float32")
        # No token's scale is so small that the least value of the activation does not fit.
        least = -self.encoder.activation.least / zero if zero else np.finfo(np.float32).tiny
        graph.constant("step.active.least", np.array(least), "float32")
        tokens = graph.node("Shape", ["ids"], "tokens")
        graph.node("Expand", ["zero.active", tokens], "zeros.active")

    def words(self) -> str:
        """(T, H): the vector of each token, from a table of int8 with a scale for each row."""
        graph = self.graph
        table, scales = by_row(self.encoder.words())
        word = graph.node("Gather", [graph.constant("words", table, "int8"), "ids"], "word.int8")
        scale = graph.node("Gather", [graph.constant("words.scale", scales), "ids"], "word.scale")
        return graph.node("DequantizeLinear", [word, scale], "embeddings.words", axis=0)

    def layer(self, total: str, norm: Norm, layer: Layer, name: str) -> str:
        """A layer, from the sum before its normalisation to the sum before the next one's."""
        taken = Linear.beside(layer.query, layer.key, layer.value)
        middle, scale = input_scales(self.ranges[f"{name}.in"], taken.weight)
        mixed_middle, mixed_scale = input_scales(
            self.ranges[f"{name}.mixed"], layer.out.weight, room=_ROOM_OF_MIXED
        )
        x = self.norm(total, f"{name}.in", _quantizing(norm, middle, scale))
        steps = self.quantized(x, f"{name}.in.int8")
        # The shares of attention sum to one: what is done to its values is done to its result.
        value = layer.value.shifted(-mixed_middle).scaled(np.float32(1) / mixed_scale)
        taken = Linear.beside(layer.query, layer.key, value).of(scale, middle)
        mixed = self.attention(self.product(steps, f"{name}.taken", taken), name)
        # Scaled back, x comes without its middle; the bias of the layer beside it brings that.
        out = layer.out.of(mixed_scale, mixed_middle).shifted(middle)
        y = self.product(mixed, f"{name}.out", out)
        total = self.residual(y, x, scale, f"{name}.attended.sum")

        middle, scale = input_scales(self.ranges[f"{name}.attended"], layer.up.weight)
        x = self.norm(total, f"{name}.attended", _quantizing(layer.attended, middle, scale))
        steps = self.quantized(x, f"{name}.attended.int8")
        y = self.product(steps, f"{name}.up", layer.up.of(scale, middle))
        y = self.down(self.active(y, f"{name}.active"), name, layer.down.shifted(middle))
        return self.residual(y, x, scale, f"{name}.sum")

    def down(self, x: str, name: str, linear: Linear) -> str:
        """The layer behind the activation: one scale for each token, from its largest value."""
        graph = self.graph
        top = graph.node("ReduceMax", [x, "axis.-1"], f"{name}.active.top", keepdims=0)
        step = graph.node("Mul", [top, "steps.active"], f"{name}.active.fitting")
        step = graph.node("Max", [step, "step.active.least"], f"{name}.active.step")
        inputs = [x, step, "zeros.active"]
        steps = graph.node("QuantizeLinear", inputs, f"{name}.active.int8", axis=0)
        product = self.product(steps, f"{name}.down.steps", linear, bias=False, zero="zero.active")
        step = graph.node("Unsqueeze", [step, "axis.-1"], f"{name}.active.step.column")
        product = graph.node("Mul", [product, step], f"{name}.down.product")
        bias = graph.constant(f"{name}.down.bias", linear.bias)
        return graph.node("Add", [product, bias], f"{name}.down")

    def residual(self, y: str, x: str, scale: Array, name: str) -> str:
        """``y + x * scale``: x as it was before it was scaled for a product."""
        graph = self.graph
        x = graph.node("Mul", [x, graph.constant(f"{x}.unscaled", scale)], f"{x}.residual")
        return graph.node("Add", [y, x], name)

    def after_attention(self, mixed: str, name: str) -> str:
        """Quantised in the grid: a quarter of the bytes go back to rows."""
        return self.quantized(mixed, f"{name}.int8")

    def quantized(self, x: str, name: str) -> str:
        """Values that lie within -127 and 127 as uint8."""
        return self.graph.node("QuantizeLinear", [x, "one", "zero"], name)

    def product(
        self, x: str, name: str, linear: Linear, *, bias: bool = True, zero: str = "zero"
    ) -> str:
        """A linear layer on uint8 inputs, as float32."""
        graph = self.graph
        weight, scale = by_column(linear.weight)
        inputs = [
            x,
            graph.constant(f"{name}.weight", weight, "int8"),
            "one",
            graph.constant(f"{name}.scale", scale),
            zero,
            # It may be left out, but then ONNX Runtime 1.20 aborts the process where it is asked
            # for exact products; and shared by several products, no version accepts it there.
            graph.constant(f"{name}.zero", np.array(0), "int8"),
        ]
        if bias:
            inputs.append(graph.constant(f"{name}.bias", linear.bias))
        return graph.node("MatMulIntegerToFloat", inputs, name, domain="com.microsoft")


def _quantizing(norm: Norm, middle: Array, scale: Array) -> Norm:
    """The normalisation that returns ``(x - middle) / scale``."""
    return Norm(scale=norm.scale / scale, shift=(norm.shift - middle) / scale)
