"""What sentence-transformers writes of a model: its modules, pooling and prompts."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from onnx_embeddings.errors import ModelFormatError
from onnx_embeddings.folder.documents import inside, read_list, read_object
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Modules:
    """What modules.json and the folders that it names say."""

    transformer: Path
    pooling: Pooling
    pooling_file: Path
    normalize: bool
    prompt_outside: bool


def read_modules(path: Path) -> Modules:
    """The modules of the model in this folder; without modules.json a mean, not normalised.

    Raises:
        ModelFormatError: a file is missing or damaged, or names what is not supported.
    """
    file = path / "modules.json"
    if not file.exists():
        logger.warning(
            "%s has no modules.json, so nothing says how its token vectors become one vector: "
            "taking their mean, not normalised, as sentence-transformers does",
            path,
        )
        return Modules(
            transformer=path,
            pooling=Pooling.MEAN,
            pooling_file=file,
            normalize=False,
            prompt_outside=False,
        )
    folders: dict[str, Path] = {}
    for module in read_list(file):
        kind = str(module.get("type", "")).rpartition(".")[2]
        if kind not in {"Transformer", "Pooling", "Normalize"} or kind in folders:
            raise ModelFormatError(file, f"a module {kind or 'without a type'} is not supported")
        if kind != "Normalize" and "Normalize" in folders:
            raise ModelFormatError(file, f"a module {kind} behind Normalize is not supported")
        folders[kind] = inside(path, module.get("path", ""), file)
    for kind in ("Transformer", "Pooling"):
        if kind not in folders:
            raise ModelFormatError(file, f"names no {kind} module")
    pooling_file = folders["Pooling"] / "config.json"
    pooling_config = read_object(pooling_file, required=True)
    return Modules(
        transformer=folders["Transformer"],
        pooling=_pooling(pooling_config, pooling_file),
        pooling_file=pooling_file,
        normalize="Normalize" in folders,
        prompt_outside=pooling_config.get("include_prompt") is False,
    )


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
    """(query prompt, document prompt), as sentence-transformers picks them.

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
