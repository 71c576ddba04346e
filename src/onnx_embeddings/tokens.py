"""Prompted texts in, token ids out. The only place that cuts, and the only door to tokenizers."""

from __future__ import annotations

import re
from itertools import pairwise
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


_PIECE = 2**15  # characters; most texts are shorter and read whole
_SPACE = re.compile(r"[ \t\n\r]")


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
        self._max_tokens = max_tokens
        self._piecewise = files.truncation_side == "right" and _splits_at_spaces(self._tokenizer)

    def encode(self, texts: Sequence[str]) -> Tokens:
        """The texts as token ids, special tokens included, cut to the limit.

        Of a text that is very long only as much is read as the limit needs; its count is then a
        lower bound, above the limit.

        Raises:
            ModelFormatError: the tokenizer can't express a text, for want of an unknown token.
        """
        ends = [self._enough(text, _PIECE) for text in texts]
        starts = [text[:end] for text, end in zip(texts, ends, strict=True)]
        encodings = self._encodings(starts)
        for row, text in enumerate(texts):
            while ends[row] < len(text) and self._count(encodings[row]) <= self._max_tokens:
                # Mostly spaces, or words that are one token each: it takes more of the text.
                ends[row] = self._enough(text, 4 * ends[row])
                encodings[row] = self._encodings([text[: ends[row]]])[0]
        ids = [np.array(encoding.ids, np.int64) for encoding in encodings]
        return Tokens(
            ids=ids,
            lengths=np.fromiter(map(len, ids), np.int64, len(ids)),
            counts=np.array([self._count(encoding) for encoding in encodings], np.int64),
        )

    def count(self, texts: Sequence[str]) -> Lengths:
        """(N,) int64: tokens of each text before the cut, special tokens included."""
        # Encodings of a long text at once would take hundreds of bytes for each of its tokens.
        pieces = [self._pieces(text) for text in texts]
        counts = [self._count(encoding) for encoding in self._encodings([p[0] for p in pieces])]
        for row, (_, *rest) in enumerate(pieces):
            for piece in rest:
                counts[row] += self._count(self._encodings([piece])[0]) - self._special
        return np.array(counts, np.int64)

    def _enough(self, text: str, size: int) -> int:
        """How much of a text, at least `size`, can be read without the rest of it."""
        if not self._piecewise or size >= len(text):
            return len(text)
        space = _SPACE.search(text, size)
        return space.start() if space else len(text)

    def _pieces(self, text: str) -> list[str]:
        """The text in pieces that can be read without each other; at least one."""
        ends = [0, self._enough(text, _PIECE)]
        while ends[-1] < len(text):
            ends.append(self._enough(text, ends[-1] + _PIECE))
        return [text[first:last] for first, last in pairwise(ends)]

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

    def _count(self, encoding: Encoding) -> int:
        # What was cut off is in `overflowing`, in pieces that carry the special tokens again.
        return len(encoding) + sum(len(piece) - self._special for piece in encoding.overflowing)


def _splits_at_spaces(tokenizer: Tokenizer) -> bool:
    """Whether what stands behind a space never changes the tokens before it."""
    return (
        isinstance(tokenizer.pre_tokenizer, pre_tokenizers.BertPreTokenizer)
        and isinstance(tokenizer.normalizer, normalizers.BertNormalizer | None)
        and not any(
            character.isspace()  # a normaliser makes a plain space of any other
            for token in tokenizer.get_added_tokens_decoder().values()
            for character in token.content
        )
    )


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
