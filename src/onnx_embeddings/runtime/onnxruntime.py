"""Batches in, token vectors out, by ONNX Runtime on the processor. The only door to it."""

from __future__ import annotations

import os
from contextlib import contextmanager
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

import numpy as np

from onnx_embeddings.errors import InferenceError, ModelFormatError
from onnx_embeddings.runtime import inputs
from onnx_embeddings.spec import Precision

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from onnx_embeddings.arrays import Batch, Graph, TokenVectors


@contextmanager
def _no_telemetry() -> Iterator[None]:
    """Import ONNX Runtime in here, and it sends nothing.

    Its official builds report to their maker, from a thread and a database of their own that the
    import starts. Only this variable prevents that, and it is read during the import; it is put
    back as it was. Source: Privacy.md in the package of ONNX Runtime.
    """
    name = "ORT_DISABLE_TELEMETRY"
    before = os.environ.get(name)
    os.environ[name] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


with _no_telemetry():
    import onnxruntime

# Where somebody else imported it before, this is what can still be turned off.
onnxruntime.disable_telemetry_events()

VERSION = str(onnxruntime.__version__)
"""Of the runtime."""

# Older versions would ignore the option, and spin for as long as they like.
_SPIN_OPTION_SINCE = (1, 26)
_VERSION = tuple(int(part) for part in VERSION.split(".")[:2])
_CAN_BOUND_SPINNING = _VERSION >= _SPIN_OPTION_SINCE

_PROVIDER = "CPUExecutionProvider"
_FATAL_ONLY = 4  # errors are raised, and what is raised need not be printed too
_SPIN_MICROSECONDS = 1000  # long enough to catch the next lone text, too short to be seen idle
_DTYPES: dict[str, np.dtype[Any]] = {
    "tensor(int64)": np.dtype(np.int64),
    "tensor(int32)": np.dtype(np.int32),
    "tensor(float)": np.dtype(np.float32),
}
_ROLES = {"input_ids": "ids", "attention_mask": "mask", "token_type_ids": "types"}


@cache
def _products_are_exact() -> bool:
    """Whether this processor sums products of 8-bit integers without overflow.

    Processors without VNNI sum them in 16 bits, and the cosine to the right vector falls to 0.994.
    The runtime then has a slower way that is exact, which must be asked for, and which would take
    twice the time on all others. products.onnx, beside this module, multiplies the largest values
    there are: 64 times 255 * 127.
    """
    graph = resources.files("onnx_embeddings.runtime").joinpath("products.onnx").read_bytes()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(graph, options, providers=[_PROVIDER])
    products = session.run(None, {"x": np.full((16, 64), 255, np.uint8)})[0]
    return bool((products == 64 * 255 * 127).all())


class Session:
    """One loaded graph. `run` may be called by many threads at a time."""

    def __init__(self, graph: Graph, *, threads: int = 1) -> None:
        """Load the graph.

        `one_by_one` says whether texts must run alone, because a result depends on the batch.

        Args:
            graph: what to load.
            threads: how many work on one batch. The default is one, because several batches at a
                time, each on one thread, are faster than one batch on several.

        Raises:
            ModelFormatError: the runtime does not accept the graph.
        """
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = _FATAL_ONLY
        # Plans of memory are kept for every shape ever seen, and here no shape comes twice.
        options.enable_mem_pattern = False
        if graph.precision != Precision.FP32 and not _products_are_exact():
            options.add_session_config_entry("session.x64quantprecision", "1")
        if threads == 1 or not _CAN_BOUND_SPINNING:
            options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        else:
            spin = str(_SPIN_MICROSECONDS)
            options.add_session_config_entry("session.intra_op.spin_duration_us", spin)
        try:
            self._session = onnxruntime.InferenceSession(graph.path, options, providers=[_PROVIDER])
        except Exception as error:  # the runtime's exceptions have no common base but this
            # What we compiled can be compiled again.
            again = f"delete {graph.path.parent}, it is made again"
            hint = again if graph.layout == "packed" else None
            raise ModelFormatError(graph.path, f"the runtime refuses it: {error}", hint) from error
        self._output = graph.output
        self._size = graph.hidden_size
        self._feeds: _Packed | _Padded = (
            _Packed(graph) if graph.layout == "packed" else _Padded(self._session, graph)
        )
        self.one_by_one = graph.one_by_one or not self._feeds.masks

    def run(self, batch: Batch) -> TokenVectors:
        """(T, H) float32: one vector per token, in the order of the batch.

        Raises:
            InferenceError: the runtime fails.
        """
        result = self._run([self._output], batch)[0]
        texts, longest = batch.shape
        if result.shape not in {(len(batch.ids), self._size), (texts, longest, self._size)}:
            raise InferenceError(
                batch.shape, f"the graph returned {result.shape}, for vectors of size {self._size}"
            )
        return self._feeds.tokens(result, batch).astype(np.float32, copy=False)

    def values(self, batch: Batch) -> dict[str, npt.NDArray[np.float32]]:
        """What the graph returns beside token vectors, by name.

        Raises:
            InferenceError: the runtime fails.
        """
        names = [value.name for value in self._session.get_outputs()]
        names.remove(self._output)
        return dict(zip(names, self._run(names, batch), strict=True))

    def _run(self, names: list[str], batch: Batch) -> list[npt.NDArray[Any]]:
        try:
            values: list[npt.NDArray[Any]] = self._session.run(names, self._feeds.inputs(batch))
        except Exception as error:  # as above
            raise InferenceError(batch.shape, str(error)) from error
        return values


class _Packed:
    """A graph of our own compiler."""

    masks = True

    def __init__(self, graph: Graph) -> None:
        self._long_text = graph.long_text

    def inputs(self, batch: Batch) -> dict[str, Any]:
        return inputs.packed(batch, long_text=self._long_text)

    def tokens(self, result: TokenVectors, batch: Batch) -> TokenVectors:  # noqa: ARG002
        return result


class _Padded:
    """Any other graph: ids, and where the graph has them a mask and the types of tokens."""

    def __init__(self, session: onnxruntime.InferenceSession, graph: Graph) -> None:
        self._pad_id = graph.pad_id
        self._takes: list[tuple[str, str, np.dtype[Any]]] = []
        for value in session.get_inputs():
            role, dtype = _ROLES.get(str(value.name)), _DTYPES.get(str(value.type))
            if role is None or dtype is None:
                raise ModelFormatError(
                    graph.path,
                    f"wants an input {value.name!r} of type {value.type}",
                    f"known are {', '.join(_ROLES)}, of whole numbers",
                )
            self._takes.append((value.name, role, dtype))
        roles = {role for _, role, _ in self._takes}
        if "ids" not in roles:
            raise ModelFormatError(graph.path, "has no input named input_ids")
        self.masks = "mask" in roles

    def inputs(self, batch: Batch) -> dict[str, Any]:
        ids, mask = inputs.padded(batch, self._pad_id)
        values = {"ids": ids, "mask": mask, "types": np.zeros_like(ids)}
        return {name: values[role].astype(dtype) for name, role, dtype in self._takes}

    def tokens(self, result: TokenVectors, batch: Batch) -> TokenVectors:
        return inputs.unpadded(result, batch.lengths)
