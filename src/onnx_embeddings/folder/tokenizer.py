"""Which files the tokenizer of a model is in, and what other files add to it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from onnx_embeddings.digests import digest
from onnx_embeddings.documents import read_object
from onnx_embeddings.errors import ModelFormatError
from onnx_embeddings.families import pad_id

if TYPE_CHECKING:
    from pathlib import Path

    from onnx_embeddings.store import Store

_MOST_BYTES = 256 * 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class BertOptions:
    """How a BERT tokenizer is built where only its vocabulary is there."""

    lowercase: bool = True
    strip_accents: bool | None = None
    chinese_characters: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenizerFiles:
    """A tokenizer's file, and the rules that other files of the model add.

    Attributes:
        path: tokenizer.json or vocab.txt.
        truncation_side: the side that is cut off.
        lowercase: whether texts are lower-cased before anything else.
        bert_options: for vocab.txt only.
        pad_id: the token that stands in empty places of a padded batch.
    """

    path: Path
    truncation_side: Literal["left", "right"] = "right"
    lowercase: bool = False
    bert_options: BertOptions = field(default_factory=BertOptions)
    pad_id: int = 0


def tokenizer_files(
    file: Path,
    config: dict[str, Any],
    tokenizer_config: dict[str, Any],
    sentence_config: dict[str, Any],
) -> TokenizerFiles:
    """The tokenizer in this file.

    Raises:
        ModelFormatError: it is too large.
    """
    if file.stat().st_size > _MOST_BYTES:
        raise ModelFormatError(file, f"is larger than {_MOST_BYTES // 2**20} MiB")
    accents = tokenizer_config.get("strip_accents")
    return TokenizerFiles(
        path=file,
        truncation_side="left" if tokenizer_config.get("truncation_side") == "left" else "right",
        lowercase=sentence_config.get("do_lower_case") is True,
        bert_options=BertOptions(
            lowercase=tokenizer_config.get("do_lower_case") is not False,
            strip_accents=accents if isinstance(accents, bool) else None,
            chinese_characters=tokenizer_config.get("tokenize_chinese_chars") is not False,
        ),
        pad_id=pad_id(config),
    )


def tokenizer_digest(files: TokenizerFiles, store: Store) -> str:
    """Digest of the rules that turn texts into ids.

    Raises:
        ModelFormatError: the tokenizer's file is no JSON object.
    """
    rules: dict[str, Any] = {"side": files.truncation_side, "lowercase": files.lowercase}
    if files.path.name == "vocab.txt":
        options = files.bert_options
        rules["bert"] = [options.lowercase, options.strip_accents, options.chinese_characters]
        rules["vocabulary"] = store.sha256(files.path)
    else:
        rules["file"] = store.digest(files.path, "tokenizer/1", _rules_in)
    return digest(rules)


def _rules_in(file: Path) -> str:
    """Digest of a tokenizer.json without the cut and the padding baked in, which are not used."""
    content = read_object(file, most=_MOST_BYTES)
    return digest({k: content[k] for k in content.keys() - {"truncation", "padding", "version"}})
