"""Writes padded ONNX files of tiny models, as exporters do, and the odd ones that people meet."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from reference_bert import read_weights

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import numpy.typing as npt

IDS, MASK, TYPES = "input_ids", "attention_mask", "token_type_ids"
TOKENS, POOLED, COUNT, PLACES = "last_hidden_state", "sentence_embedding", "count", "places"

_NUMPY: dict[int, np.dtype[Any]] = {
    TensorProto.FLOAT: np.dtype(np.float32),
    TensorProto.FLOAT16: np.dtype(np.float16),
}


def export(  # noqa: PLR0913  one argument for each thing that exports differ in
    folder: Path,
    *,
    inputs: Sequence[str] = (IDS, MASK, TYPES),
    input_types: Mapping[str, int] | None = None,
    outputs: Sequence[str] = (TOKENS,),
    names: Mapping[str, str] | None = None,
    kind: int = TensorProto.FLOAT,
    width: int | str | None = None,
    quantized: bool = False,
) -> onnx.ModelProto:
    """The model in this folder as a padded ONNX graph.

    Args:
        folder: a tiny model.
        inputs: the graph's inputs, in this order; what is not among them is zeros (or, for the
            mask, ones), any other name is an input that the graph does nothing with.
        input_types: element types of inputs, int64 where nothing is said.
        outputs: any of `TOKENS` (B, S, H), `POOLED` (B, H), `COUNT` (B,) int64 and `PLACES`
            (B, S, 1) int64, in this order.
        names: other names for the outputs.
        kind: the type of weights and of floating-point outputs.
        width: what the graph says of the last axis of its outputs; None is the truth.
        quantized: linear layers in int8, with `DynamicQuantizeLinear`.
    """
    exporter = _Exporter(folder, kind, quantized=quantized)
    return exporter.model(inputs, input_types or {}, outputs, names or {}, width)


def write(model: onnx.ModelProto, file: Path, *, data: str | None = None) -> Path:
    """Write the file, its weights into another file beside it if that has a name."""
    file.parent.mkdir(parents=True, exist_ok=True)
    if data is None:
        file.write_bytes(model.SerializeToString())
    else:
        onnx.save_model(model, file, save_as_external_data=True, location=data, size_threshold=256)
    return file


def ready_folder(folder: Path, **options: Any) -> Path:
    """Put an export into a tiny model's folder and take the weights that it came from away."""
    write(export(folder, **options), folder / "onnx" / "model.onnx")
    for weights in folder.glob("*.safetensors"):
        weights.unlink()
    return folder


class _Exporter:
    def __init__(self, folder: Path, kind: int, *, quantized: bool) -> None:
        self.config = json.loads((folder / "config.json").read_text("utf-8"))
        self.weights = read_weights(folder)
        self.kind = kind
        self.quantized = quantized
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, onnx.TensorProto] = {}

    def model(
        self,
        inputs: Sequence[str],
        input_types: Mapping[str, int],
        outputs: Sequence[str],
        names: Mapping[str, str],
        width: int | str | None,
    ) -> onnx.ModelProto:
        hidden = self.hidden(self.whole(inputs, input_types))
        known = {TOKENS: hidden}
        if POOLED in outputs:
            known[POOLED] = self.node("ReduceMean", hidden, self.whole_numbers([1]), keepdims=0)
        if COUNT in outputs:
            known[COUNT] = self.node("ReduceSum", "mask", self.whole_numbers([1]), keepdims=0)
        if PLACES in outputs:
            known[PLACES] = self.node("Unsqueeze", "mask", self.whole_numbers([2]))
        size: int | str = self.config["hidden_size"] if width is None else width
        shapes: dict[str, list[int | str]] = {
            TOKENS: ["B", "S", size],
            POOLED: ["B", size],
            COUNT: ["B"],
            PLACES: ["B", "S", 1],
        }
        results = []
        for output in outputs:
            name = names.get(output, output)
            self.nodes.append(helper.make_node("Identity", [known[output]], [name]))
            kind = TensorProto.INT64 if output in {COUNT, PLACES} else self.kind
            results.append(helper.make_tensor_value_info(name, kind, shapes[output]))
        graph = helper.make_graph(
            self.nodes,
            "export",
            [
                helper.make_tensor_value_info(
                    name, input_types.get(name, TensorProto.INT64), ["B", "S"]
                )
                for name in inputs
            ],
            results,
            list(self.constants.values()),
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
        model.ir_version = 8
        return model

    def whole(self, inputs: Sequence[str], types: Mapping[str, int]) -> dict[str, str]:
        """Ids, mask and types as int64, whether they are inputs or not."""

        def int64(name: str) -> str:
            if types.get(name, TensorProto.INT64) == TensorProto.INT64:
                return name
            return self.node("Cast", name, to=TensorProto.INT64)

        ids = int64(IDS)
        zeros = self.node("Sub", ids, ids)
        ones = self.node("Add", zeros, self.whole_numbers([1]))
        mask = self.node("Identity", int64(MASK) if MASK in inputs else ones, name="mask")
        return {IDS: ids, MASK: mask, TYPES: int64(TYPES) if TYPES in inputs else zeros}

    def hidden(self, whole: Mapping[str, str]) -> str:
        words = self.table("embeddings.word_embeddings.weight", whole[IDS])
        types = self.table("embeddings.token_type_embeddings.weight", whole[TYPES])
        length = self.node("Shape", whole[IDS], start=1, end=2)
        rows = self.node(
            "Slice",
            self.weight("embeddings.position_embeddings.weight"),
            self.whole_numbers([0]),
            length,
        )
        x = self.node("Add", self.node("Add", words, types), rows)
        x = self.norm(x, "embeddings.LayerNorm")
        empty = self.node("Sub", self.whole_numbers([1]), whole[MASK])
        empty = self.node("Unsqueeze", empty, self.whole_numbers([1, 2]))
        smallest = -65504.0 if self.kind == TensorProto.FLOAT16 else float(np.finfo(np.float32).min)
        bias = self.node("Mul", self.node("Cast", empty, to=self.kind), self.number(smallest))
        for number in range(self.config["num_hidden_layers"]):
            name = f"encoder.layer.{number}"
            y = self.attention(x, bias, f"{name}.attention.self")
            y = self.linear(y, f"{name}.attention.output.dense")
            x = self.norm(self.node("Add", y, x), f"{name}.attention.output.LayerNorm")
            y = self.gelu(self.linear(x, f"{name}.intermediate.dense"))
            y = self.linear(y, f"{name}.output.dense")
            x = self.norm(self.node("Add", y, x), f"{name}.output.LayerNorm")
        return x

    def attention(self, x: str, bias: str, name: str) -> str:
        heads, hidden = self.config["num_attention_heads"], self.config["hidden_size"]
        split = self.whole_numbers([0, 0, heads, hidden // heads])

        def turned(part: str, *axes: int) -> str:
            whole = self.linear(x, f"{name}.{part}")
            return self.node("Transpose", self.node("Reshape", whole, split), perm=list(axes))

        queries, keys, values = (
            turned("query", 0, 2, 1, 3),
            turned("key", 0, 2, 3, 1),
            turned("value", 0, 2, 1, 3),
        )
        scores = self.node("MatMul", queries, keys)
        scores = self.node("Div", scores, self.number(math.sqrt(hidden // heads)))
        shares = self.node("Softmax", self.node("Add", scores, bias), axis=-1)
        mixed = self.node("Transpose", self.node("MatMul", shares, values), perm=[0, 2, 1, 3])
        return self.node("Reshape", mixed, self.whole_numbers([0, 0, hidden]))

    def linear(self, x: str, name: str) -> str:
        weight = self.weights[f"{name}.weight"].T
        if not self.quantized:
            product = self.node("MatMul", x, self.constant(f"{name}.weight.T", weight))
        else:
            scale = float(np.abs(weight).max()) / 127
            rounded = np.round(weight / scale).astype(np.int8)
            parts = [f"{name}.{part}" for part in ("quantized", "scale", "zero")]
            self.nodes.append(helper.make_node("DynamicQuantizeLinear", [x], parts))
            whole = self.node(
                "MatMulInteger", parts[0], self.stored(f"{name}.int8", rounded), parts[2]
            )
            both = self.node("Mul", parts[1], self.number(scale))
            product = self.node("Mul", self.node("Cast", whole, to=TensorProto.FLOAT), both)
        return self.node("Add", product, self.weight(f"{name}.bias"))

    def norm(self, x: str, name: str) -> str:
        scale, shift = self.weight(f"{name}.weight"), self.weight(f"{name}.bias")
        epsilon = self.config["layer_norm_eps"]
        return self.node("LayerNormalization", x, scale, shift, epsilon=epsilon, axis=-1)

    def gelu(self, x: str) -> str:
        inner = self.node("Erf", self.node("Div", x, self.number(math.sqrt(2))))
        half = self.node("Mul", x, self.number(0.5))
        return self.node("Mul", half, self.node("Add", inner, self.number(1)))

    def table(self, name: str, rows: str) -> str:
        return self.node("Gather", self.weight(name), rows)

    def weight(self, name: str) -> str:
        return self.constant(name, self.weights[name])

    def constant(self, name: str, value: npt.NDArray[Any]) -> str:
        return self.stored(name, value.astype(_NUMPY[self.kind]))

    def number(self, value: float) -> str:
        return self.constant(f"number {value}", np.array(value))

    def whole_numbers(self, values: list[int]) -> str:
        return self.stored(f"numbers {values}", np.array(values, np.int64))

    def stored(self, name: str, array: npt.NDArray[Any]) -> str:
        if name not in self.constants:
            self.constants[name] = numpy_helper.from_array(np.ascontiguousarray(array), name)
            if not array.shape:
                self.constants[name] = numpy_helper.from_array(array, name)
        return name

    def node(self, kind: str, *inputs: str, name: str | None = None, **attributes: Any) -> str:
        name = name or f"{kind} {len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], **attributes))
        return name
