"""Prompted texts in, token ids out. The only place that cuts, and the only door to tokenizers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from onnx_embeddings.arrays import Tokens
from onnx_embeddings.errors import ModelFormatError, SettingError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tokenizers import Encoding

    from onnx_embeddings.arrays import Lengths
    from onnx_embeddings.folder.tokenizer import TokenizerFiles


class Encoder:
    """A tokenizer set to one limit for good.

    The Rust tokenizer keeps its limit as state, and threads that set it get each other's texts cut.
    So it is set once, here, and another limit is another encoder.
    """

    def __init__(self, files: TokenizerFiles, *, max_tokens: int) -> None:
        """Read a tokenizer.

        Args:
            files: the tokenizer's file, and the rules that other files of the model add.
            max_tokens: cut texts to so many tokens, special tokens included.

        Raises:
            ModelFormatError: the file is no tokenizer.
            SettingError: the limit leaves no room for a token of the text.
        """
        self._file = files.path
        self._tokenizer = _read(files)
        # What the file has baked in is the exporter's batch, not the model: all-MiniLM-L6-v2
        # cuts at 128 and pads to 128 there.
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        self._special = self._tokenizer.num_special_tokens_to_add(is_pair=False)
        if max_tokens <= self._special:
            # The tokenizer would silently cut nothing at all.
            raise SettingError(
                "max_tokens",
                max_tokens,
                f"must be more than the {self._special} special tokens that this model adds",
            )
        self._tokenizer.enable_truncation(max_tokens, direction=files.truncation_side)

    def encode(self, texts: Sequence[str]) -> Tokens:
        """The texts as token ids, special tokens included, cut to the limit.

        Raises:
            ModelFormatError: the tokenizer can't express a text, for want of an unknown token.
        """
        encodings = self._encodings(texts)
        ids = [np.array(encoding.ids, np.int64) for encoding in encodings]
        return Tokens(
            ids=ids,
            lengths=np.fromiter(map(len, ids), np.int64, len(ids)),
            counts=self._counts(encodings),
        )

    def count(self, texts: Sequence[str]) -> Lengths:
        """(N,) int64: tokens of each text before the cut, special tokens included."""
        return self._counts(self._encodings(texts))

    def _encodings(self, texts: Sequence[str]) -> list[Encoding]:
        try:
            if len(texts) == 1:
                return [self._tokenizer.encode(texts[0])]
            return self._tokenizer.encode_batch_fast(list(texts))
        except BaseException as error:
            # Rust's panics are no Exceptions, and their class can't be imported.
            if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
                raise
            raise ModelFormatError(self._file, f"the tokenizer failed: {error}") from error

    def _counts(self, encodings: list[Encoding]) -> Lengths:
        # What was cut off is in `overflowing`, in pieces that carry the special tokens again.
        counts = [
            len(encoding) + sum(len(piece) - self._special for piece in encoding.overflowing)
            for encoding in encodings
        ]
        return np.array(counts, np.int64)


def _read(files: TokenizerFiles) -> Tokenizer:
    try:
        if files.path.name == "vocab.txt":
            tokenizer = _word_piece(files)
        else:
            tokenizer = Tokenizer.from_file(str(files.path))
    except Exception as error:
        raise ModelFormatError(files.path, f"is no tokenizer: {error}") from error
    if files.lowercase:
        steps: list[normalizers.Normalizer] = [normalizers.Lowercase()]
        if tokenizer.normalizer is not None:
            steps.append(tokenizer.normalizer)
        tokenizer.normalizer = normalizers.Sequence(steps)
    return tokenizer


def _word_piece(files: TokenizerFiles) -> Tokenizer:
    """A BERT tokenizer from its vocabulary alone, as transformers builds it."""
    vocabulary = models.WordPiece.read_file(str(files.path))
    missing = {"[UNK]", "[CLS]", "[SEP]"} - vocabulary.keys()
    if missing:
        raise ValueError(f"the vocabulary lacks {', '.join(sorted(missing))}")
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))  # noqa: S106
    tokenizer.add_special_tokens(
        [token for token in ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]") if token in vocabulary]
    )
    tokenizer.normalizer = normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=files.bert_options.chinese_characters,
        strip_accents=files.bert_options.strip_accents,
        lowercase=files.bert_options.lowercase,
    )
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        special_tokens=[(name, vocabulary[name]) for name in ("[CLS]", "[SEP]")],
    )
    return tokenizer
