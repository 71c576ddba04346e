"""Writes one ONNX graph, its weights in a file beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, BinaryIO, Literal

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    import numpy.typing as npt

_OPSETS = {"": 20, "com.microsoft": 1}  # the first with Gelu, and the only one there is
_IR_VERSION = 9  # the oldest that carries this opset, so that old runtimes read it
_ALIGNMENT = 4096  # weights start on a page, so that they can be mapped
_INLINE_BYTES = 1024  # the runtime wants shapes and scalars in the graph itself

Size = int | str
Dtype = Literal["bool", "int8", "uint8", "int64", "float32"]
_TYPES: dict[Dtype, int] = {
    "bool": TensorProto.BOOL,
    "int8": TensorProto.INT8,
    "uint8": TensorProto.UINT8,
    "int64": TensorProto.INT64,
    "float32": TensorProto.FLOAT,
}


class GraphWriter:
    """Collects the nodes of a graph; large constants go straight to the weights file.

    Values are named by strings, and every method that makes a value returns its name.
    """

    def __init__(self, weights: BinaryIO, weights_name: str) -> None:
        """Start an empty graph.

        Args:
            weights: the file that large constants are written to.
            weights_name: its name beside the graph.
        """
        self._file = weights
        self._file_name = weights_name
        self._nodes: list[onnx.NodeProto] = []
        self._constants: dict[str, onnx.TensorProto] = {}
        self._inputs: list[onnx.ValueInfoProto] = []
        self._outputs: list[onnx.ValueInfoProto] = []
        self._domains = {""}

    def input(self, name: str, dtype: Dtype, shape: Sequence[Size]) -> str:
        """A value that the caller feeds; sizes that vary are named."""
        self._inputs.append(helper.make_tensor_value_info(name, _TYPES[dtype], list(shape)))
        return name

    def output(self, name: str, dtype: Dtype, shape: Sequence[Size]) -> None:
        """Return a value that a node makes; sizes that vary are named."""
        self._outputs.append(helper.make_tensor_value_info(name, _TYPES[dtype], list(shape)))

    def constant(self, name: str, value: npt.ArrayLike, dtype: Dtype = "float32") -> str:
        """A value that is stored with the graph, under a name that nothing else has."""
        if name in self._constants:
            raise ValueError(name)
        array = np.ascontiguousarray(value, np.dtype(dtype).newbyteorder("<"))
        if array.nbytes <= _INLINE_BYTES:
            # 0-d arrays must stay so, and ascontiguousarray makes them 1-d.
            tensor = numpy_helper.from_array(array.reshape(np.shape(value)), name)
        else:
            tensor = self._external(name, array, dtype)
        self._constants[name] = tensor
        return name

    def node(
        self, kind: str, inputs: Sequence[str], name: str, *, domain: str = "", **attributes: Any
    ) -> str:
        """The only output of an operator."""
        self._domains.add(domain)
        node = helper.make_node(kind, list(inputs), [name], domain=domain, **attributes)
        self._nodes.append(node)
        return name

    def split(self, x: str, names: Sequence[str], *, axis: int) -> list[str]:
        """The equal parts of a value along an axis."""
        made = list(names)
        self._nodes.append(helper.make_node("Split", [x], made, axis=axis, num_outputs=len(made)))
        return made

    def choose(
        self,
        condition: str,
        name: str,
        yes: Callable[[], str],
        no: Callable[[], str],
        *,
        dtype: Dtype = "float32",
    ) -> str:
        """The value that one of two branches makes; only that one runs.

        Args:
            condition: a bool that says which.
            name: of the value.
            yes: adds the nodes of a branch and returns the name of its value, another one than
                that of the other branch.
            no: the other branch.
            dtype: of the value.
        """
        branches = {
            "then_branch": self._branch(f"{name}.yes", yes, dtype),
            "else_branch": self._branch(f"{name}.no", no, dtype),
        }
        return self.node("If", [condition], name, **branches)

    def _branch(self, name: str, write: Callable[[], str], dtype: Dtype) -> onnx.GraphProto:
        before, self._nodes = self._nodes, []
        value = helper.make_tensor_value_info(write(), _TYPES[dtype], None)
        branch = helper.make_graph(self._nodes, name, [], [value])
        self._nodes = before
        return branch

    def linear(
        self,
        x: str,
        name: str,
        weight: npt.NDArray[np.float32],
        bias: npt.NDArray[np.float32],
    ) -> str:
        """``x @ weight + bias``, with a weight of shape (in, out)."""
        product = self.node(
            "MatMul", [x, self.constant(f"{name}.weight", weight)], f"{name}.product"
        )
        return self.node("Add", [product, self.constant(f"{name}.bias", bias)], name)

    def layer_norm(
        self,
        x: str,
        name: str,
        scale: npt.NDArray[np.float32],
        shift: npt.NDArray[np.float32],
        epsilon: float,
    ) -> str:
        """Layer normalisation over the last axis."""
        inputs = [x, self.constant(f"{name}.scale", scale), self.constant(f"{name}.shift", shift)]
        return self.node("LayerNormalization", inputs, name, epsilon=epsilon, axis=-1)

    def save(self, path: Path) -> None:
        """Write the graph."""
        graph = helper.make_graph(
            self._nodes,
            "onnx-embeddings",
            self._inputs,
            self._outputs,
            list(self._constants.values()),
        )
        model = helper.make_model(
            graph,
            opset_imports=[
                helper.make_opsetid(domain, _OPSETS[domain]) for domain in sorted(self._domains)
            ],
            producer_name="onnx-embeddings",
        )
        model.ir_version = _IR_VERSION
        path.write_bytes(model.SerializeToString())

    def _external(self, name: str, array: npt.NDArray[Any], dtype: Dtype) -> onnx.TensorProto:
        offset = -(-self._file.tell() // _ALIGNMENT) * _ALIGNMENT
        self._file.seek(offset)
        self._file.write(array.data)
        tensor = TensorProto(
            name=name,
            data_type=_TYPES[dtype],
            dims=array.shape,
            data_location=TensorProto.EXTERNAL,
        )
        place = {"location": self._file_name, "offset": offset, "length": array.nbytes}
        for key, value in place.items():
            tensor.external_data.add(key=key, value=str(value))
        return tensor
