"""Tiny models of many shapes, what our compiler makes of them, and texts of random tokens."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx

from onnx_embeddings import ModelRequest, calibration, compiler
from onnx_embeddings.arrays import Batch
from onnx_embeddings.folder import read

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    import numpy.typing as npt

    from onnx_embeddings.arrays import Graph, Ids, TokenVectors
    from onnx_embeddings.runtime.onnxruntime import Session
    from onnx_embeddings.store import Store

WORDS = 147  # of the tiny vocabulary

MODELS: dict[str, dict[str, Any]] = {
    "tiny": {},
    "one layer": {"num_hidden_layers": 1},
    "four layers": {"num_hidden_layers": 4},
    "one head": {"num_attention_heads": 1},
    "sixteen heads": {"num_attention_heads": 16},
    "a head for each number": {"num_attention_heads": 32},
    "odd sizes": {"hidden_size": 30, "num_attention_heads": 3, "intermediate_size": 17},
    "wide": {"hidden_size": 96, "num_attention_heads": 6, "intermediate_size": 200},
    "narrow inside": {"intermediate_size": 5},
    "very small": {"hidden_size": 4, "num_attention_heads": 2, "intermediate_size": 3},
    "many positions": {"max_position_embeddings": 90},
    "few positions": {"max_position_embeddings": 12},
    "one type": {"type_vocab_size": 1},
    "four types": {"type_vocab_size": 4},
    "gelu of tanh": {"hidden_act": "gelu_new"},
    "gelu of tanh, PyTorch's name": {"hidden_act": "gelu_pytorch_tanh"},
    "relu": {"hidden_act": "relu"},
    "large epsilon": {"layer_norm_eps": 0.1},
    "usual epsilon": {"layer_norm_eps": 1e-5},
}
"""Changes to config.json of the tiny model."""


def prepared(folder: Path, store: Store, precision: str | None = None) -> Graph:
    """The graph of a folder, as an engine asks for it."""
    files = read(folder, ModelRequest(model=str(folder), precision=precision))
    measure = partial(calibration.measure, folder=files, threads=1)
    return compiler.prepare(files, precision, store, measure)


def random_ids(*lengths: int, seed: int = 0) -> list[Ids]:
    """A text of random tokens for each length."""
    random = np.random.default_rng(seed)
    return [random.integers(0, WORDS, length) for length in lengths]


def run(session: Session, texts: Sequence[Ids]) -> list[TokenVectors]:
    """The token vectors of texts that run as one batch."""
    lengths = np.array([len(ids) for ids in texts])
    batch = Batch(rows=np.arange(len(texts)), ids=np.concatenate(texts), lengths=lengths)
    return np.split(session.run(batch), np.cumsum(lengths)[:-1])


def unit_means(tokens: Sequence[npt.NDArray[Any]]) -> npt.NDArray[np.float64]:
    """(N, H) float64: the means of token vectors, of unit length."""
    means = np.array([vectors.mean(axis=0, dtype=np.float64) for vectors in tokens])
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    return means


def all_nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    """The nodes of a graph, with those inside branches."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from all_nodes(attribute.g)
