"""What sentence-transformers writes of a model: its pooling, prompts and similarity."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from onnx_embeddings.documents import read_object
from onnx_embeddings.errors import ModelFormatError
from onnx_embeddings.spec import Pooling, Similarity

if TYPE_CHECKING:
    from pathlib import Path

logger = logging.getLogger(__name__)

_POOLING_SWITCHES = {
    "pooling_mode_cls_token": Pooling.CLS,
    "pooling_mode_mean_tokens": Pooling.MEAN,
    "pooling_mode_max_tokens": Pooling.MAX,
    "pooling_mode_mean_sqrt_len_tokens": Pooling.MEAN_SQRT_LEN,
    "pooling_mode_weightedmean_tokens": Pooling.WEIGHTED_MEAN,
    "pooling_mode_lasttoken": Pooling.LAST,
}
_POOLING_NAMES = {
    "cls": Pooling.CLS,
    "mean": Pooling.MEAN,
    "max": Pooling.MAX,
    "mean_sqrt_len_tokens": Pooling.MEAN_SQRT_LEN,
    "weightedmean": Pooling.WEIGHTED_MEAN,
    "lasttoken": Pooling.LAST,
}


def read_pooling(file: Path) -> tuple[Pooling, bool]:
    """How token vectors become one vector, and whether prompts are left out of that.

    Raises:
        ModelFormatError: the config of the Pooling module is missing or damaged, or names what is
            not supported.
    """
    config = read_object(file, required=True)
    return _pooling(config, file), config.get("include_prompt") is False


def _pooling(config: dict[str, Any], file: Path) -> Pooling:
    modes = [mode for switch, mode in _POOLING_SWITCHES.items() if config.get(switch)]
    name = config.get("pooling_mode")
    if isinstance(name, str):
        if name not in _POOLING_NAMES:
            raise ModelFormatError(file, f"pooling_mode {name!r} is not known")
        modes = [_POOLING_NAMES[name]]
    if len(modes) != 1:
        found = ", ".join(modes) or "none"
        raise ModelFormatError(file, f"must switch on one way of pooling, found {found}")
    return modes[0]


def read_prompts(path: Path) -> tuple[str, str]:
    """(query prompt, document prompt), as sentence-transformers picks them; ``""`` is none.

    Source: SentenceTransformer.encode_query and encode_document.
    """
    file = path / "config_sentence_transformers.json"
    values = read_object(file)
    prompts = values.get("prompts") or {}
    if not isinstance(prompts, dict) or not all(isinstance(p, str) for p in prompts.values()):
        raise ModelFormatError(file, "prompts must map names to texts")
    default_name = values.get("default_prompt_name")
    if not isinstance(default_name, str | None) or default_name not in {None, *prompts}:
        raise ModelFormatError(file, f"default_prompt_name {default_name!r} is not in prompts")
    default: str = prompts.get(default_name, "")
    query: str = prompts.get("query", default)
    for name in ("document", "passage", "corpus"):
        if name in prompts:
            return query, str(prompts[name])
    return query, default


def read_similarity(path: Path) -> Similarity:
    """How vectors of the model in this folder are compared; cosine where nothing says it."""
    name = read_object(path / "config_sentence_transformers.json").get("similarity_fn_name")
    if name is None:
        return Similarity.COSINE
    try:
        return Similarity(name)
    except ValueError:
        logger.warning("%s: similarity_fn_name %r is not known, taking cosine", path, name)
        return Similarity.COSINE
