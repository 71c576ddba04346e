"""Sample texts through a model in float32: how far its values reach, for int8.

The texts lie in calibration.txt beside this module: several languages, code, odd ones.
"""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

import numpy as np

from onnx_embeddings import batches
from onnx_embeddings.runtime.onnxruntime import Session
from onnx_embeddings.tokens import Encoder

if TYPE_CHECKING:
    import numpy.typing as npt

    from onnx_embeddings.arrays import Graph
    from onnx_embeddings.folder import ModelFolder

_BATCH_TOKENS = 512
_BETWEEN = "\n%%\n"


def measure(
    graph: Graph, folder: ModelFolder, *, threads: int
) -> dict[str, npt.NDArray[np.float32]]:
    """What a graph returns for the sample texts beside token vectors: (batches, …) each.

    Args:
        graph: one that returns more than token vectors.
        folder: the model that it was made from.
        threads: how many to use.

    Raises:
        ModelFormatError: the graph or the tokenizer can't be loaded.
        InferenceError: the runtime fails.
    """
    tokens = Encoder(folder.tokenizer, max_tokens=folder.max_tokens).encode(texts())
    session = Session(graph, threads=threads)
    planned = batches.plan(tokens.lengths, budget=_BATCH_TOKENS, long_text=graph.long_text)
    found = [session.values(batches.pack(tokens, rows)) for rows in planned]
    return {name: np.stack([values[name] for values in found]) for name in found[0]}


@cache
def texts() -> tuple[str, ...]:
    """The sample texts, the same on every system."""
    file = resources.files("onnx_embeddings").joinpath("calibration.txt")
    lines = file.read_text("utf-8").splitlines()
    # What precedes the first text is for readers of the file; texts may begin like that too.
    start = next(number for number, line in enumerate(lines) if not line.startswith("#"))
    return tuple("\n".join(lines[start:]).split(_BETWEEN))
