from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import onnx

from onnx_embeddings.compiler import GRAPH_FORMAT

if TYPE_CHECKING:
    from onnx_embeddings import Engine


def test_another_graph_needs_another_number(tiny: Engine) -> None:
    """Graphs are kept on disk under GRAPH_FORMAT: who changes them must raise it."""
    model = onnx.load(tiny._opened().sessions._graph.path, load_external_data=False)
    lines = [
        f"{node.op_type}({', '.join(node.input)}) -> {', '.join(node.output)} "
        f"{sorted(attribute.SerializeToString() for attribute in node.attribute)}"
        for node in model.graph.node
    ]
    lines += sorted(f"{tensor.name} {list(tensor.dims)}" for tensor in model.graph.initializer)
    lines += [value.name for value in [*model.graph.input, *model.graph.output]]
    digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]
    assert (GRAPH_FORMAT, digest) == (1, "a78b9d50939bfb11")
