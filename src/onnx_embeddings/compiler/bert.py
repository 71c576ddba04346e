"""The BERT family: the weights of a checkpoint in, a packed graph out.

All tokens of a batch stand in one row of length T, the texts one after the other, and every
linear layer, normalisation and activation works on that row: no work on padding. Only attention
sees a padded grid (B, S), and the scores of its empty places are pushed to nothing.

Source of the architecture: Devlin et al., arXiv:1810.04805, and BertModel of transformers.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from onnx_embeddings.errors import ModelFormatError

if TYPE_CHECKING:
    from pathlib import Path

    import numpy.typing as npt

    from onnx_embeddings.compiler.graph import GraphWriter
    from onnx_embeddings.compiler.weights import Weights

OUTPUT = "token_vectors"

_ACTIVATIONS: dict[str, tuple[str, dict[str, str]]] = {
    "gelu": ("Gelu", {}),
    "gelu_new": ("Gelu", {"approximate": "tanh"}),
    "gelu_pytorch_tanh": ("Gelu", {"approximate": "tanh"}),
    "relu": ("Relu", {}),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class BertConfig:
    """What config.json says of the architecture, checked."""

    vocab_size: int
    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    intermediate_size: int
    max_position_embeddings: int
    type_vocab_size: int
    layer_norm_eps: float
    hidden_act: str

    @classmethod
    def read(cls, values: dict[str, Any], file: Path) -> BertConfig:
        """The values of config.json.

        Raises:
            ModelFormatError: a value is missing, odd, or asks for what is not supported.
        """
        sizes = {name: _size(values, name, file) for name in _SIZES}
        epsilon = values.get("layer_norm_eps", 1e-12)
        if not isinstance(epsilon, float) or not 0 < epsilon < 1:
            raise ModelFormatError(file, f"layer_norm_eps is {epsilon!r}")
        activation = values.get("hidden_act", "gelu")
        if not isinstance(activation, str) or activation not in _ACTIVATIONS:
            known = ", ".join(_ACTIVATIONS)
            raise ModelFormatError(file, f"hidden_act is {activation!r}, known are {known}")
        if values.get("position_embedding_type", "absolute") != "absolute":
            raise ModelFormatError(file, "only absolute position embeddings are supported")
        if values.get("is_decoder") or values.get("add_cross_attention"):
            raise ModelFormatError(file, "is a decoder, and only encoders are supported")
        if sizes["hidden_size"] % sizes["num_attention_heads"]:
            raise ModelFormatError(file, "hidden_size is no multiple of num_attention_heads")
        return cls(**sizes, layer_norm_eps=epsilon, hidden_act=activation)

    def architecture(self) -> dict[str, Any]:
        """What changes a vector beside the weights, for the digest, as JSON types."""
        return {"family": "bert"} | asdict(self)


_SIZES = (
    "vocab_size",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "max_position_embeddings",
    "type_vocab_size",
)
_LARGEST_SIZE = 2**24


def _size(values: dict[str, Any], name: str, file: Path) -> int:
    value = values.get(name)
    if type(value) is not int or not 0 < value <= _LARGEST_SIZE:
        raise ModelFormatError(file, f"{name} is {value!r}")
    return value


def write(config: BertConfig, weights: Weights, graph: GraphWriter) -> None:
    """Add the whole model to the graph; its result is the value `OUTPUT`, (T, H) float32.

    Inputs of the graph::

        ids (T,) int64            token ids of all texts, one text after the other
        rows (T,) int64           the text of each token, from 0
        positions (T,) int64      the place of each token in its text
        unpack (B, S) int64       for each place of the padded grid, which token stands there
        mask (B, 1, 1, S) float32 0 for a token, a huge negative number for an empty place
    """
    _Bert(config, weights, graph).write()


class _Bert:
    def __init__(self, config: BertConfig, weights: Weights, graph: GraphWriter) -> None:
        self.config = config
        self.weights = weights
        self.graph = graph
        # Models with a head (BertForMaskedLM, for example) keep the encoder under this name.
        self.head = config.hidden_size // config.num_attention_heads
        self.prefix = "bert." if "bert.embeddings.word_embeddings.weight" in weights else ""

    def write(self) -> None:
        graph, hidden = self.graph, self.config.hidden_size
        graph.input("ids", "int64", ["T"])
        graph.input("rows", "int64", ["T"])
        graph.input("positions", "int64", ["T"])
        graph.input("unpack", "int64", ["B", "S"])
        graph.input("mask", "float32", ["B", 1, 1, "S"])
        graph.constant("shape.heads", [-1, self.head], "int64")
        graph.constant("shape.flat", [-1, hidden], "int64")
        self.places()
        x = self.embeddings()
        for layer in range(self.config.num_hidden_layers):
            x = self.layer(x, layer)
        graph.node("Identity", [x], OUTPUT)

    def places(self) -> None:
        """Where the heads of each token are: in the row, and in the grid.

        With rows of one head each as the unit, one Gather brings tokens into the order
        (B, heads, S), and one brings them back, with no transposition of its own.
        """
        graph, heads = self.graph, self.config.num_attention_heads
        numbers = np.arange(heads)
        graph.constant("heads", np.array(heads), "int64")
        graph.constant("heads.of.grid", numbers[:, None], "int64")
        graph.constant("heads.of.row", numbers[None, :], "int64")
        for axis in (1, -1):
            graph.constant(f"axis.{axis}", [axis], "int64")
        # (B, 1, S) * heads + (heads, 1) -> (B, heads, S)
        grid = graph.node("Unsqueeze", ["unpack", "axis.1"], "grid.tokens")
        grid = graph.node("Mul", [grid, "heads"], "grid.tokens.start")
        graph.node("Add", [grid, "heads.of.grid"], "row.to.grid")
        # ((T, 1) * heads + (1, heads)) * S + (T, 1) -> (T, heads)
        longest = graph.node("Shape", ["unpack"], "longest", start=1, end=2)
        row = graph.node("Unsqueeze", ["rows", "axis.-1"], "row.texts")
        row = graph.node("Mul", [row, "heads"], "row.texts.start")
        row = graph.node("Add", [row, "heads.of.row"], "row.heads")
        row = graph.node("Mul", [row, longest], "row.heads.start")
        position = graph.node("Unsqueeze", ["positions", "axis.-1"], "row.positions")
        graph.node("Add", [row, position], "grid.to.row")

    def embeddings(self) -> str:
        graph, config = self.graph, self.config
        hidden = config.hidden_size
        words = self.take("embeddings.word_embeddings.weight", config.vocab_size, hidden)
        places = self.take(
            "embeddings.position_embeddings.weight", config.max_position_embeddings, hidden
        )
        types = self.take("embeddings.token_type_embeddings.weight", config.type_vocab_size, hidden)
        word = graph.node("Gather", [graph.constant("words", words), "ids"], "embeddings.words")
        # A lone text is all of the first type, so its row is the same everywhere.
        table = graph.constant("places", places + types[0])
        place = graph.node("Gather", [table, "positions"], "embeddings.places")
        total = graph.node("Add", [word, place], "embeddings.sum")
        return self.norm(total, "embeddings.norm", "embeddings.LayerNorm")

    def layer(self, x: str, number: int) -> str:
        graph, config = self.graph, self.config
        key, name = f"encoder.layer.{number}", f"layer{number}"
        y = self.attention(x, f"{key}.attention.self", name)
        y = self.linear(y, f"{name}.out", f"{key}.attention.output.dense", config.hidden_size)
        y = graph.node("Add", [y, x], f"{name}.attended.sum")
        x = self.norm(y, f"{name}.attended", f"{key}.attention.output.LayerNorm")
        y = self.linear(x, f"{name}.up", f"{key}.intermediate.dense", config.intermediate_size)
        kind, attributes = _ACTIVATIONS[config.hidden_act]
        y = graph.node(kind, [y], f"{name}.active", **attributes)
        y = self.linear(
            y, f"{name}.down", f"{key}.output.dense", config.hidden_size, config.intermediate_size
        )
        y = graph.node("Add", [y, x], f"{name}.sum")
        return self.norm(y, name, f"{key}.output.LayerNorm")

    def attention(self, x: str, key: str, name: str) -> str:
        """Self-attention: (T, H) -> grid (B, heads, S, head) -> (T, H)."""
        graph, hidden = self.graph, self.config.hidden_size
        # The scale of the scores is folded into the queries.
        scales = {"query": 1 / math.sqrt(self.head), "key": 1.0, "value": 1.0}
        grids = []
        for part, scale in scales.items():
            weight = self.take(f"{key}.{part}.weight", hidden, hidden).T * np.float32(scale)
            bias = self.take(f"{key}.{part}.bias", hidden) * np.float32(scale)
            y = graph.linear(x, f"{name}.{part}", weight, bias)
            y = graph.node("Reshape", [y, "shape.heads"], f"{name}.{part}.heads")
            grids.append(graph.node("Gather", [y, "row.to.grid"], f"{name}.{part}.grid"))
        query, keys, values = grids
        keys = graph.node("Transpose", [keys], f"{name}.key.turned", perm=[0, 1, 3, 2])
        scores = graph.node("MatMul", [query, keys], f"{name}.scores")
        scores = graph.node("Add", [scores, "mask"], f"{name}.masked")
        shares = graph.node("Softmax", [scores], f"{name}.shares", axis=-1)
        mixed = graph.node("MatMul", [shares, values], f"{name}.mixed")
        mixed = graph.node("Reshape", [mixed, "shape.heads"], f"{name}.mixed.heads")
        mixed = graph.node("Gather", [mixed, "grid.to.row"], f"{name}.mixed.row")
        return graph.node("Reshape", [mixed, "shape.flat"], f"{name}.attention")

    def linear(self, x: str, name: str, key: str, outputs: int, inputs: int | None = None) -> str:
        inputs = self.config.hidden_size if inputs is None else inputs
        weight = self.take(f"{key}.weight", outputs, inputs).T
        return self.graph.linear(x, name, weight, self.take(f"{key}.bias", outputs))

    def norm(self, x: str, name: str, key: str) -> str:
        hidden = self.config.hidden_size
        # The first checkpoints were converted from TensorFlow and kept its names.
        modern = f"{self.prefix}{key}.weight" in self.weights
        scale, shift = ("weight", "bias") if modern else ("gamma", "beta")
        return self.graph.layer_norm(
            x,
            name,
            self.take(f"{key}.{scale}", hidden),
            self.take(f"{key}.{shift}", hidden),
            self.config.layer_norm_eps,
        )

    def take(self, name: str, *shape: int) -> npt.NDArray[np.float32]:
        return self.weights.take(self.prefix + name, shape)
