"""What config.json says of a model of the BERT family, checked."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from onnx_embeddings.errors import ModelFormatError

if TYPE_CHECKING:
    from pathlib import Path

ACTIVATIONS = ("gelu", "gelu_new", "gelu_pytorch_tanh", "relu")


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
        if not isinstance(activation, str) or activation not in ACTIVATIONS:
            known = ", ".join(ACTIVATIONS)
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
