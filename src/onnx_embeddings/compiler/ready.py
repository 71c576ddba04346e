"""A ready ONNX file in, what is needed to run it out. Nothing of it is changed or copied."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import onnx
from onnx import TensorProto

from onnx_embeddings.errors import ModelFormatError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

_TOKEN_VECTOR_AXES = 3
_USUAL_NAMES = ("last_hidden_state", "token_embeddings")
_FLOATS = {TensorProto.FLOAT, TensorProto.FLOAT16}
# Each of these takes its scale from the whole tensor, so a text's vector depends on its batch.
_PER_BATCH = {"DynamicQuantizeLinear", "DynamicQuantizeMatMul"}
_OF_FP32 = {TensorProto.FLOAT, TensorProto.INT32, TensorProto.INT64, TensorProto.BOOL}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadyGraph:
    """What the file says of itself.

    Attributes:
        output: the name of the output with token vectors, (B, S, H).
        hidden_size: H; None where the file leaves it open.
        one_by_one: whether a result depends on the batch.
        fp32: whether all its numbers are float32.
    """

    output: str
    hidden_size: int | None
    one_by_one: bool
    fp32: bool

    def to_dict(self) -> dict[str, Any]:
        """All fields as JSON types."""
        return asdict(self)


def inspect(file: Path, data: Sequence[Path]) -> ReadyGraph:
    """Read an ONNX file without its weights.

    Outputs are chosen by type and number of axes, never by place: exporters number them. Where
    several could be meant, the usual name decides.

    Args:
        file: the ONNX file.
        data: the files that may hold its weights, all in the same folder.

    Raises:
        ModelFormatError: it is damaged, returns no token vectors, or has weights elsewhere.
    """
    graph, nodes, tensors = _read(file, data)
    output, size = _token_vectors(graph, file)
    kinds = {node.op_type for node in nodes}
    formats = {tensor.data_type for tensor in tensors}
    return ReadyGraph(
        output=output,
        hidden_size=size,
        one_by_one=bool(kinds & _PER_BATCH),
        fp32=formats <= _OF_FP32 and not kinds & _PER_BATCH,
    )


def check_data(file: Path, data: Sequence[Path]) -> None:
    """Raise if an ONNX file is damaged, or keeps weights elsewhere than in these files.

    Raises:
        ModelFormatError: it is, or does.
    """
    _read(file, data)


def _read(
    file: Path, data: Sequence[Path]
) -> tuple[onnx.GraphProto, list[onnx.NodeProto], list[onnx.TensorProto]]:
    """The graph, all its nodes and all its stored tensors."""
    try:
        model = onnx.load(file, load_external_data=False)
    except Exception as error:  # protobuf's DecodeError has no stable home
        raise ModelFormatError(file, f"is not an ONNX file: {error}") from error
    nodes, tensors = _everything([model.graph, *model.functions])
    _check_data(tensors, {path.name for path in data}, file)
    return model.graph, nodes, tensors


def _token_vectors(graph: onnx.GraphProto, file: Path) -> tuple[str, int | None]:
    """The output of floating-point numbers with three axes, and the size of its last."""
    found: dict[str, int | None] = {}
    seen = []
    for value in graph.output:
        tensor = value.type.tensor_type
        axes = list(tensor.shape.dim)
        seen.append(f"{value.name} with {len(axes)} axes")
        if tensor.elem_type in _FLOATS and len(axes) == _TOKEN_VECTOR_AXES:
            found[value.name] = axes[-1].dim_value if axes[-1].dim_value > 0 else None
    if not found:
        raise ModelFormatError(
            file,
            f"returns no token vectors (three axes of floats), only {', '.join(seen) or 'nothing'}",
            "export it with its last hidden state as an output",
        )
    usual = [name for name in _USUAL_NAMES if name in found]
    if len(found) > 1 and not usual:
        raise ModelFormatError(
            file,
            f"has several outputs that may be the token vectors: {', '.join(found)}",
            f"name the right one {_USUAL_NAMES[0]}, or export it alone",
        )
    name = usual[0] if usual else next(iter(found))
    return name, found[name]


def _everything(
    parts: list[onnx.GraphProto | onnx.FunctionProto],
) -> tuple[list[onnx.NodeProto], list[onnx.TensorProto]]:
    """All nodes and stored tensors, those inside of If, Loop, Scan and functions too."""
    nodes: list[onnx.NodeProto] = []
    tensors: list[onnx.TensorProto] = []
    parts = list(parts)
    while parts:
        part = parts.pop()
        nodes += part.node
        if isinstance(part, onnx.GraphProto):
            tensors += part.initializer
            for sparse in part.sparse_initializer:
                tensors += [sparse.values, sparse.indices]
        for attribute in (attribute for node in part.node for attribute in node.attribute):
            tensors += [*attribute.tensors, *([attribute.t] if attribute.HasField("t") else [])]
            parts += [*attribute.graphs, *([attribute.g] if attribute.HasField("g") else [])]
    return nodes, tensors


def _check_data(tensors: Iterable[onnx.TensorProto], beside: set[str], file: Path) -> None:
    for location in _locations(tensors):
        if location not in beside:
            raise ModelFormatError(
                file,
                f"keeps weights in {location!r}, which is not beside it",
                "external weights must lie in the same folder, named after the ONNX file",
            )


def _locations(tensors: Iterable[onnx.TensorProto]) -> Iterator[str]:
    for tensor in tensors:
        if tensor.data_location == TensorProto.EXTERNAL:
            yield from (entry.value for entry in tensor.external_data if entry.key == "location")
