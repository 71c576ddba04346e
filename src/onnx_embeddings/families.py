"""Which architectures are compiled from their weights; all others need a ready ONNX file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

COMPILED_FAMILIES = ("bert",)
"""The `model_type` of the architectures that are compiled."""

# Their position table has rows in front that no token of a text uses.
_POSITIONS_START_BEHIND_PADDING = ("roberta", "xlm-roberta", "camembert", "mpnet")


def is_compiled(config: Mapping[str, Any]) -> bool:
    """Whether a model with this config.json is compiled, where its weights are there."""
    return (
        config.get("model_type") in COMPILED_FAMILIES
        and config.get("position_embedding_type", "absolute") == "absolute"
        and not config.get("is_decoder")
    )


def not_compiled(config: Mapping[str, Any]) -> tuple[str, str]:
    """(why a model with this config.json is not compiled, what to do)."""
    asked = ("model_type", "position_embedding_type", "is_decoder")
    said = ", ".join(f"{name} {config[name]!r}" for name in asked if name in config)
    known = ", ".join(COMPILED_FAMILIES)
    return (
        f"{said or 'no model_type'}: compiled are encoders of {known}, with absolute positions",
        "export it to ONNX (onnx/model.onnx in the same folder), token vectors as output",
    )


def pad_id(config: Mapping[str, Any]) -> int:
    """The token for empty places of a padded batch."""
    value = config.get("pad_token_id")
    if type(value) is int and value >= 0:
        return value
    return 1 if config.get("model_type") in _POSITIONS_START_BEHIND_PADDING else 0


def positions(config: Mapping[str, Any]) -> int | None:
    """How many tokens the position table of a model has room for; None where nothing says so.

    Source: create_position_ids_from_input_ids of transformers, for the RoBERTa family.
    """
    rows = config.get("max_position_embeddings")
    if type(rows) is not int or rows < 1:
        return None
    if config.get("model_type") in _POSITIONS_START_BEHIND_PADDING:
        rows -= pad_id(config) + 1
    return rows if rows > 0 else None
