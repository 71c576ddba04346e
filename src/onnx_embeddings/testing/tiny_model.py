"""A tiny real model: two layers of BERT, as sentence-transformers lays a model out."""

from __future__ import annotations

import json
import string
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from safetensors.numpy import save_file
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from onnx_embeddings.spec import Pooling

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import numpy.typing as npt

_SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
_WORDS = (
    "a the of and to in is it for on with as by this that text word query document answer "
    "question cat dog bird sits runs flies red green blue sun moon sea short long one two three"
)

# Large enough that a wrong head, position or activation moves a vector by far more than rounding.
_WEIGHT_SCALE = 0.3

TINY_CONFIG: dict[str, Any] = {
    "architectures": ["BertModel"],
    "model_type": "bert",
    "hidden_act": "gelu",
    "hidden_size": 32,
    "intermediate_size": 64,
    "layer_norm_eps": 1e-12,
    "max_position_embeddings": 48,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "pad_token_id": 0,
    "position_embedding_type": "absolute",
    "type_vocab_size": 2,
}
"""config.json of the tiny model; `vocab_size` is added."""


def write_tiny_model(  # noqa: PLR0913  one argument for each thing that folders differ in
    folder: Path,
    *,
    pooling: Pooling = Pooling.MEAN,
    normalize: bool = True,
    max_tokens: int | None = 32,
    prompts: Mapping[str, str] | None = None,
    config: Mapping[str, Any] | None = None,
    seed: int = 0,
    prefix: str = "",
    legacy_names: bool = False,
    dtype: Literal["float32", "float16", "bfloat16"] = "float32",
    shards: int = 1,
) -> Path:
    """Write a 2-layer, 32-wide BERT with random weights, as sentence-transformers lays it out.

    Its tokenizer knows some words and all letters of English. As real ones do, tokenizer.json has
    a cut and a padding baked in that must not be used.

    Args:
        folder: is made if it does not exist.
        pooling: what 1_Pooling/config.json says.
        normalize: whether modules.json names a Normalize module (which has no folder).
        max_tokens: what sentence_bert_config.json says; None writes no such file.
        prompts: what config_sentence_transformers.json says, ``{"query": "…"}`` for example.
        config: changes to config.json; sizes of the weights follow.
        seed: another seed, another model.
        prefix: before the names of all tensors, ``bert.`` for example.
        legacy_names: call the weights of normalisations gamma and beta, as the first models did.
        dtype: of the weights.
        shards: how many files to spread the weights over.

    Returns:
        The folder.
    """
    folder.mkdir(parents=True, exist_ok=True)
    vocabulary = _vocabulary()
    values = TINY_CONFIG | {"vocab_size": len(vocabulary)} | dict(config or {})
    _write_json(folder / "config.json", values)
    _write_tokenizer(folder, vocabulary)
    weights = _weights(values, np.random.default_rng(seed))
    _write_weights(folder, _renamed(weights, prefix, legacy_names=legacy_names), dtype, shards)
    modules = ["Transformer", "Pooling"] + ["Normalize"] * normalize
    paths = ["", "1_Pooling", "2_Normalize"]
    _write_json(
        folder / "modules.json",
        [
            {
                "idx": i,
                "name": str(i),
                "path": paths[i],
                "type": f"sentence_transformers.models.{kind}",
            }
            for i, kind in enumerate(modules)
        ],
    )
    _write_json(
        folder / "1_Pooling" / "config.json", _pooling_config(pooling, values["hidden_size"])
    )
    if max_tokens is not None:
        _write_json(folder / "sentence_bert_config.json", {"max_seq_length": max_tokens})
    if prompts is not None:
        _write_json(folder / "config_sentence_transformers.json", {"prompts": dict(prompts)})
    return folder


def _vocabulary() -> list[str]:
    characters = [*string.ascii_lowercase, *string.digits]
    pieces = [f"##{character}" for character in characters]
    return [*_SPECIAL, *characters, *pieces, *string.punctuation, *dict.fromkeys(_WORDS.split())]


def _write_tokenizer(folder: Path, vocabulary: list[str]) -> None:
    # A vocabulary keeps one id for each word; "a" is a letter already.
    ids = {word: index for index, word in reversed(list(enumerate(vocabulary)))}
    tokenizer = Tokenizer(models.WordPiece(ids, unk_token="[UNK]"))  # noqa: S106  no password
    tokenizer.add_special_tokens(_SPECIAL)
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer.enable_truncation(8)
    tokenizer.enable_padding(length=8)
    tokenizer.save(str(folder / "tokenizer.json"))
    _write_json(
        folder / "tokenizer_config.json",
        {"do_lower_case": True, "model_max_length": 1_000_000_000_000_000_019_884_624_838_656},
    )


def _weights(config: Mapping[str, Any], random: np.random.Generator) -> dict[str, Any]:
    hidden, inner = config["hidden_size"], config["intermediate_size"]

    def normal(*shape: int) -> npt.NDArray[np.float32]:
        return random.normal(0, _WEIGHT_SCALE, shape).astype(np.float32)

    def linear(name: str, outputs: int, inputs: int) -> dict[str, Any]:
        return {f"{name}.weight": normal(outputs, inputs), f"{name}.bias": normal(outputs)}

    def norm(name: str) -> dict[str, Any]:
        return {f"{name}.weight": 1 + normal(hidden), f"{name}.bias": normal(hidden)}

    weights = {
        "embeddings.word_embeddings.weight": normal(config["vocab_size"], hidden),
        "embeddings.position_embeddings.weight": normal(config["max_position_embeddings"], hidden),
        "embeddings.token_type_embeddings.weight": normal(config["type_vocab_size"], hidden),
    } | norm("embeddings.LayerNorm")
    for number in range(config["num_hidden_layers"]):
        layer = f"encoder.layer.{number}"
        for part in ("query", "key", "value"):
            weights |= linear(f"{layer}.attention.self.{part}", hidden, hidden)
        weights |= linear(f"{layer}.attention.output.dense", hidden, hidden)
        weights |= norm(f"{layer}.attention.output.LayerNorm")
        weights |= linear(f"{layer}.intermediate.dense", inner, hidden)
        weights |= linear(f"{layer}.output.dense", hidden, inner)
        weights |= norm(f"{layer}.output.LayerNorm")
    return weights


def _renamed(weights: dict[str, Any], prefix: str, *, legacy_names: bool) -> dict[str, Any]:
    renamed = {}
    for name, array in weights.items():
        new = name
        if legacy_names and "LayerNorm" in name:
            new = name.replace(".weight", ".gamma").replace(".bias", ".beta")
        renamed[prefix + new] = array
    return renamed


def _write_weights(folder: Path, weights: dict[str, Any], dtype: str, shards: int) -> None:
    import ml_dtypes

    kind = np.dtype(ml_dtypes.bfloat16) if dtype == "bfloat16" else np.dtype(dtype)
    arrays = {name: array.astype(kind) for name, array in weights.items()}
    if shards == 1:
        save_file(arrays, folder / "model.safetensors")
        return
    names = sorted(arrays)
    where: dict[str, str] = {}
    for shard in range(shards):
        file = f"model-{shard + 1:05}-of-{shards:05}.safetensors"
        part = names[shard::shards]
        save_file({name: arrays[name] for name in part}, folder / file)
        where |= dict.fromkeys(part, file)
    _write_json(folder / "model.safetensors.index.json", {"weight_map": where})


def _pooling_config(pooling: Pooling, size: int) -> dict[str, Any]:
    switches = {
        Pooling.CLS: "cls_token",
        Pooling.MEAN: "mean_tokens",
        Pooling.MAX: "max_tokens",
        Pooling.MEAN_SQRT_LEN: "mean_sqrt_len_tokens",
        Pooling.WEIGHTED_MEAN: "weightedmean_tokens",
        Pooling.LAST: "lasttoken",
    }
    return {"word_embedding_dimension": size} | {
        f"pooling_mode_{switch}": mode is pooling for mode, switch in switches.items()
    }


def _write_json(file: Path, values: object) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")
