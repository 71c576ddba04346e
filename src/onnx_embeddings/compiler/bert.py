"""The BERT family: a checkpoint in, an `Encoder` out.

Source of the architecture: Devlin et al., arXiv:1810.04805, and BertModel of transformers.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from onnx_embeddings.compiler.encoder import Activation, Layer, Linear, Norm

if TYPE_CHECKING:
    from collections.abc import Iterator

    from onnx_embeddings.compiler.bert_config import BertConfig
    from onnx_embeddings.compiler.encoder import Array
    from onnx_embeddings.compiler.weights import Weights

_GELU = Activation(operator="Gelu", attributes={}, least=-0.17)
_GELU_TANH = Activation(operator="Gelu", attributes={"approximate": "tanh"}, least=-0.171)
_ACTIVATIONS = {
    "gelu": _GELU,
    "gelu_new": _GELU_TANH,
    "gelu_pytorch_tanh": _GELU_TANH,
    "relu": Activation(operator="Relu", attributes={}, least=0.0),
}


class Bert:
    """A checkpoint of the family as an `Encoder`."""

    def __init__(self, config: BertConfig, weights: Weights) -> None:
        """Read nothing yet; tensors are taken as they are asked for."""
        self.config = config
        self.hidden_size = config.hidden_size
        self.heads = config.num_attention_heads
        self.epsilon = config.layer_norm_eps
        self.activation = _ACTIVATIONS[config.hidden_act]
        self.positions = config.max_position_embeddings
        self._weights = weights
        # Models with a head (BertForMaskedLM, for example) keep the encoder under this name.
        self._prefix = "bert." if "bert.embeddings.word_embeddings.weight" in weights else ""

    def words(self) -> Array:
        """(vocabulary, H)."""
        shape = self.config.vocab_size, self.hidden_size
        return self._take("embeddings.word_embeddings.weight", *shape)

    def places(self) -> Array:
        """(positions, H): a lone text is all of the first type, so its row is added everywhere."""
        places = self._take(
            "embeddings.position_embeddings.weight", self.positions, self.hidden_size
        )
        types = self._take(
            "embeddings.token_type_embeddings.weight",
            self.config.type_vocab_size,
            self.hidden_size,
        )
        table: Array = places + types[0]
        return table

    def norm(self) -> Norm:
        """The normalisation of the embeddings."""
        return self._norm("embeddings.LayerNorm")

    def layers(self) -> Iterator[Layer]:
        """From the first to the last."""
        hidden, inner = self.hidden_size, self.config.intermediate_size
        for number in range(self.config.num_hidden_layers):
            key = f"encoder.layer.{number}"
            yield Layer(
                query=self._linear(f"{key}.attention.self.query", hidden, hidden).scaled(
                    1 / math.sqrt(hidden // self.heads)
                ),
                key=self._linear(f"{key}.attention.self.key", hidden, hidden),
                value=self._linear(f"{key}.attention.self.value", hidden, hidden),
                out=self._linear(f"{key}.attention.output.dense", hidden, hidden),
                attended=self._norm(f"{key}.attention.output.LayerNorm"),
                up=self._linear(f"{key}.intermediate.dense", hidden, inner),
                down=self._linear(f"{key}.output.dense", inner, hidden),
                norm=self._norm(f"{key}.output.LayerNorm"),
            )

    def _linear(self, key: str, inputs: int, outputs: int) -> Linear:
        weight = self._take(f"{key}.weight", outputs, inputs)
        return Linear(weight=weight.T, bias=self._take(f"{key}.bias", outputs))

    def _norm(self, key: str) -> Norm:
        # The first checkpoints were converted from TensorFlow and kept its names.
        modern = f"{self._prefix}{key}.weight" in self._weights
        scale, shift = ("weight", "bias") if modern else ("gamma", "beta")
        return Norm(
            scale=self._take(f"{key}.{scale}", self.hidden_size),
            shift=self._take(f"{key}.{shift}", self.hidden_size),
        )

    def _take(self, name: str, *shape: int) -> Array:
        return self._weights.take(self._prefix + name, shape)
