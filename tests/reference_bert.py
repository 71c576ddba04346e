"""BERT for one text at a time in float64: plain, slow, and right as far as one can see.

Written from the paper (arXiv:1810.04805) and from what BertModel of transformers computes, not from
our compiler. Its fields are the switches of the architecture, so that tests can set one wrong with
`dataclasses.replace` and show that the result moves.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import ml_dtypes  # noqa: F401  teaches numpy bfloat16, which safetensors asks it for
import numpy as np
from safetensors.numpy import load_file

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import numpy.typing as npt

    Array = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class ReferenceBert:
    weights: dict[str, Array]
    layers: int
    heads: int
    epsilon: float
    activation: str
    first_position: int = 0
    token_type: int | None = 0
    scale: float | None = None  # of the scores; None is 1 / sqrt(size of a head)
    swapped: bool = False  # keys ask and queries answer

    @classmethod
    def read(cls, folder: Path) -> ReferenceBert:
        config = json.loads((folder / "config.json").read_text("utf-8"))
        return cls(
            weights=read_weights(folder),
            layers=config["num_hidden_layers"],
            heads=config["num_attention_heads"],
            epsilon=config["layer_norm_eps"],
            activation=config["hidden_act"],
        )

    def token_vectors(self, ids: Sequence[int] | npt.NDArray[np.int64]) -> Array:
        """(T, H) float64: the last hidden state of one text."""
        table = self.weights["embeddings.position_embeddings.weight"]
        x = self.weights["embeddings.word_embeddings.weight"][list(ids)].copy()
        for place in range(len(ids)):
            x[place] += table[(place + self.first_position) % len(table)]
            if self.token_type is not None:
                types = self.weights["embeddings.token_type_embeddings.weight"]
                x[place] += types[self.token_type]
        x = self._norm(x, "embeddings.LayerNorm")
        for number in range(self.layers):
            name = f"encoder.layer.{number}"
            y = self._linear(self._attention(x, name), f"{name}.attention.output.dense")
            x = self._norm(x + y, f"{name}.attention.output.LayerNorm")
            y = self._activated(self._linear(x, f"{name}.intermediate.dense"))
            y = self._linear(y, f"{name}.output.dense")
            x = self._norm(x + y, f"{name}.output.LayerNorm")
        return x

    def _attention(self, x: Array, name: str) -> Array:
        queries = self._linear(x, f"{name}.attention.self.query")
        keys = self._linear(x, f"{name}.attention.self.key")
        values = self._linear(x, f"{name}.attention.self.value")
        if self.swapped:
            queries, keys = keys, queries
        size = x.shape[1] // self.heads
        scale = 1 / math.sqrt(size) if self.scale is None else self.scale
        mixed = np.zeros_like(x)
        for head in range(self.heads):
            part = slice(head * size, (head + 1) * size)
            for asking in range(len(x)):
                scores = [scale * (queries[asking, part] @ key) for key in keys[:, part]]
                shares = np.exp(np.array(scores) - max(scores))
                shares /= shares.sum()
                for share, value in zip(shares, values[:, part], strict=True):
                    mixed[asking, part] += share * value
        return mixed

    def _linear(self, x: Array, name: str) -> Array:
        # The layout of torch.nn.Linear: (out, in).
        product: Array = x @ self.weights[f"{name}.weight"].T + self.weights[f"{name}.bias"]
        return product

    def _norm(self, x: Array, name: str) -> Array:
        centred = x - x.mean(axis=1, keepdims=True)
        variance = (centred**2).mean(axis=1, keepdims=True)
        unit = centred / np.sqrt(variance + self.epsilon)
        normed: Array = unit * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]
        return normed

    def _activated(self, x: Array) -> Array:
        if self.activation == "relu":
            return np.maximum(x, 0)
        if self.activation in {"gelu_new", "gelu_pytorch_tanh"}:
            inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
            return np.asarray(0.5 * x * (1 + np.tanh(inner)))
        assert self.activation == "gelu"
        erf = np.vectorize(math.erf)
        return np.asarray(0.5 * x * (1 + erf(x / math.sqrt(2))))


def read_weights(folder: Path) -> dict[str, Array]:
    """The tensors of all safetensors files as float64, under the names of today's BertModel."""
    weights = {}
    for file in sorted(folder.glob("*.safetensors")):
        for name, tensor in load_file(file).items():
            new = name.removeprefix("bert.").replace(".gamma", ".weight").replace(".beta", ".bias")
            weights[new] = tensor.astype(np.float64)
    return weights
