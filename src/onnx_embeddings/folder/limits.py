"""How long a text may be, by the files of the model.

The first of these that is there wins:

1. the `max_tokens` asked for (an error where it is above the position table);
2. ``max_seq_length`` of sentence_bert_config.json;
3. ``model_max_length`` of tokenizer_config.json, unless it is a huge "not set";
4. the position table of config.json;
5. 512, with a warning.

2 and 3 never exceed 4. What tokenizer.json has baked in counts nowhere: it is the batch that the
exporter happened to make.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from onnx_embeddings.errors import SettingError
from onnx_embeddings.families import positions

if TYPE_CHECKING:
    from pathlib import Path

logger = logging.getLogger(__name__)

_LONGEST_SANE = 10**7  # transformers writes 1e30 where no limit was set
_NO_LIMIT_KNOWN = 512


def longest_text(
    asked: int | None,
    transformer: Path,
    config: dict[str, Any],
    tokenizer_config: dict[str, Any],
    sentence_config: dict[str, Any],
) -> int:
    """The limit by the rule that this module's docstring gives.

    Raises:
        SettingError: what was asked for is more than the model has positions.
    """
    rows = positions(config)
    if asked is not None:
        if rows is not None and asked > rows:
            raise SettingError("max_tokens", asked, f"this model has {rows} positions")
        if asked > _LONGEST_SANE:
            raise SettingError("max_tokens", asked, f"must be at most {_LONGEST_SANE}")
        return asked
    own = _limit(sentence_config.get("max_seq_length"))
    own = own or _limit(tokenizer_config.get("model_max_length"))
    limits = [limit for limit in (own, rows) if limit is not None]
    if not limits:
        logger.warning(
            "%s does not say how long a text may be: cutting at %d tokens (set max_tokens)",
            transformer,
            _NO_LIMIT_KNOWN,
        )
        return _NO_LIMIT_KNOWN
    return min(limits)


def _limit(value: object) -> int | None:
    """A limit out of a file; None where it is missing, odd, or a huge "not set"."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if 1 <= value <= _LONGEST_SANE else None
