"""The door to the runtime: products of 8-bit integers that some processors get wrong."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib import resources
from typing import TYPE_CHECKING

import numpy as np
import onnx
import pytest
from compiled_models import prepared, random_ids, run
from onnx import numpy_helper

from onnx_embeddings.runtime import onnxruntime
from onnx_embeddings.runtime.onnxruntime import Session
from onnx_embeddings.store import Store

if TYPE_CHECKING:
    from pathlib import Path

EXACT_OPTION = "session.x64quantprecision"


def option_of(session: Session) -> str | None:
    """What a session was told about products of integers."""
    options = session._session.get_session_options()
    try:
        value: str = options.get_session_config_entry(EXACT_OPTION)
    except RuntimeError:  # it was told nothing
        return None
    return value


def test_the_trial_product_is_the_largest_there_is() -> None:
    package = resources.files("onnx_embeddings.runtime")
    model = onnx.load_from_string(package.joinpath("products.onnx").read_bytes())
    onnx.checker.check_model(model)
    (node,) = model.graph.node
    # The operator of our graphs, with the same types: another may be summed in another way.
    assert (node.op_type, node.domain) == ("MatMulIntegerToFloat", "com.microsoft")
    arrays = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    weight = arrays[node.input[1]]
    assert weight.dtype == np.int8
    assert weight.shape == (64, 16)
    assert (weight == 127).all()
    # No zero, no scale and no bias hide anything: the result is the sum itself.
    assert all((arrays[name] == 1).all() for name in node.input[2:4])
    zeros = [arrays[name] for name in node.input[4:6] if name]
    assert not any(zero.any() for zero in zeros)
    (value,) = model.graph.input
    assert value.type.tensor_type.elem_type == onnx.TensorProto.UINT8


def test_a_processor_whose_products_overflow_is_found_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Overflowing:
        """Sums pairs of products in 16 bits, as such processors do."""

        def __init__(self, graph: bytes, *_: object, **__: object) -> None:
            model = onnx.load_from_string(graph)
            (self.weight,) = (
                numpy_helper.to_array(t).astype(int)
                for t in model.graph.initializer
                if len(t.dims) == 2
            )

        def run(
            self, _: None, feeds: dict[str, np.ndarray[tuple[int, int], np.dtype[np.uint8]]]
        ) -> list[np.ndarray[tuple[int, int], np.dtype[np.float32]]]:
            (x,) = (value.astype(int) for value in feeds.values())
            products = x[:, :, None] * self.weight[None]
            pairs = products[:, ::2] + products[:, 1::2]
            return [np.clip(pairs, -(2**15), 2**15 - 1).sum(axis=1).astype(np.float32)]

    fresh = onnxruntime._products_are_exact.__wrapped__
    monkeypatch.setattr("onnxruntime.InferenceSession", Overflowing)
    assert not fresh()
    # The same stand-in without its overflow passes.
    monkeypatch.setattr(np, "clip", lambda values, *_: values)
    assert fresh()


def test_exact_products_are_asked_for_where_they_are_not_the_usual_ones(
    tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path / "store")
    plain, int8 = (prepared(tiny_folder, store, precision) for precision in ("fp32", "int8"))
    texts = random_ids(5, 9, 1, 30, 12)
    exact = onnxruntime._products_are_exact()
    expected = [tokens.tobytes() for tokens in run(Session(int8), texts)]
    assert option_of(Session(int8)) == (None if exact else "1")
    monkeypatch.setattr(onnxruntime, "_products_are_exact", lambda: False)
    session = Session(int8)
    assert option_of(session) == "1"
    assert option_of(Session(int8, threads=2)) == "1"
    assert [tokens.tobytes() for tokens in run(session, texts)] == expected
    # It would only slow float32 down.
    assert option_of(Session(plain)) is None
    monkeypatch.setattr(onnxruntime, "_products_are_exact", lambda: True)
    assert option_of(Session(int8)) is None


WITHOUT_VNNI = """
import sys, warnings
warnings.simplefilter("ignore")  # numpy says what an emulated processor lacks
from hashlib import sha256
import onnx_embeddings
from onnx_embeddings.runtime import onnxruntime

if "unasked" in sys.argv:
    onnxruntime._products_are_exact = lambda: True
print("exact" if onnxruntime._products_are_exact() else "overflowing")
texts = ["the cat sits", "", "a dog runs on the red moon by the sea", "x1 2y", "two " * 40]
with onnx_embeddings.load(sys.argv[1], precision="int8") as engine:
    print(sha256(engine.embed_documents(texts).tobytes()).hexdigest())
    place = engine._opened().sessions._graph.path.parent
print(sha256((place / "weights.bin").read_bytes()).hexdigest())
"""


@pytest.mark.slow
@pytest.mark.skipif(
    shutil.which("qemu-x86_64") is None, reason="qemu-x86_64 (Debian: qemu-user) is not there"
)
@pytest.mark.skipif(
    sys.platform != "linux" or os.uname().machine != "x86_64",
    reason="only programs for Linux on x86-64 run in its emulation",
)
def test_a_processor_without_vnni_has_the_same_bits(tiny_folder: Path, tmp_path: Path) -> None:
    """Each compiles the model on its own, so this holds for what is measured as well."""

    def printed(name: str, *arguments: str, emulated: bool) -> list[str]:
        emulator = ["qemu-x86_64", "-cpu", "Haswell"] if emulated else []
        done = subprocess.run(
            [*emulator, sys.executable, "-c", WITHOUT_VNNI, str(tiny_folder), *arguments],
            env=os.environ
            | {"ONNX_EMBEDDINGS_HOME": str(tmp_path / name), "ONNX_EMBEDDINGS_LANES": "1"},
            capture_output=True,
            text=True,
            timeout=300,
            check=True,
        )
        return done.stdout.split()

    native = printed("native", emulated=False)
    haswell = printed("haswell", emulated=True)
    assert haswell[0] == "overflowing"
    assert haswell[1:] == native[1:]
    # And it is the option that does it.
    unasked = printed("haswell", "unasked", emulated=True)
    assert unasked[0] == "exact"
    assert unasked[1] != native[1]
