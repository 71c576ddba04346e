"""What is kept on people's disks under a number, pinned: a change must raise that number."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np
import onnx
import pytest
from compiled_models import all_nodes, prepared
from onnx import numpy_helper

from onnx_embeddings import calibration
from onnx_embeddings.compiler import GRAPH_FORMAT, ranges
from onnx_embeddings.compiler.int8 import Range, to_grid
from onnx_embeddings.store import Store

if TYPE_CHECKING:
    from pathlib import Path


def line(node: onnx.NodeProto) -> str:
    attributes = sorted(
        attribute.SerializeToString()
        for attribute in node.attribute
        if attribute.type != onnx.AttributeProto.GRAPH  # its nodes have lines of their own
    )
    return f"{node.op_type}({', '.join(node.input)}) -> {', '.join(node.output)} {attributes}"


@pytest.mark.parametrize(
    ("precision", "expected"), [("fp32", "648c3ca16e70eed7"), ("int8", "15dd1c9dd6b01d8e")]
)
def test_another_graph_needs_another_number(
    tiny_folder: Path, tmp_path: Path, precision: str, expected: str
) -> None:
    """Graphs are kept on disk under GRAPH_FORMAT: who changes them must raise it."""
    file = prepared(tiny_folder, Store(tmp_path / "store"), precision).path
    graph = onnx.load(file, load_external_data=False).graph
    lines = [line(node) for node in all_nodes(graph)]
    lines += sorted(f"{t.name} {t.data_type} {list(t.dims)}" for t in graph.initializer)
    lines += [value.name for value in [*graph.input, *graph.output]]
    digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]
    assert (GRAPH_FORMAT, digest) == (4, expected)


def test_other_numbers_of_8_bits_need_another_number(
    tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And who finds other scales; the ranges are given here, so no runtime has a part in it."""
    random = np.random.default_rng(0)
    sites = [f"layer{number}.{what}" for number in (0, 1) for what in ("in", "mixed", "attended")]
    given = {
        site: Range(
            least=to_grid(random.uniform(-8, 1, 32).astype(np.float32)),
            largest=to_grid(random.uniform(2, 8, 32).astype(np.float32)),
        )
        for site in sites
    }
    content = ranges.save(given, tmp_path, "0" * 64).read_bytes()
    monkeypatch.setattr(ranges, "shipped", lambda _: content)
    graph = onnx.load(prepared(tiny_folder, Store(tmp_path / "store"), "int8").path).graph
    arrays = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    whole = hashlib.sha256()
    for name in sorted(arrays):
        if arrays[name].dtype == np.int8 or name.endswith((".scale", ".unscaled")):
            whole.update(name.encode() + arrays[name].tobytes())
    assert (GRAPH_FORMAT, whole.hexdigest()[:16]) == (4, "68ea79df1e4b6018")


def test_other_sample_texts_need_another_number() -> None:
    """They decide what int8 makes of a model: who changes them must raise GRAPH_FORMAT too."""
    content = "\0".join(calibration.texts()).encode()
    assert (GRAPH_FORMAT, hashlib.sha256(content).hexdigest()[:16]) == (4, "fd0f34f456f8f17c")
