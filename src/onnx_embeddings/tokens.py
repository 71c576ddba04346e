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
    from collections.abc import Iterator, Sequence

    from tokenizers import Encoding

    from onnx_embeddings.arrays import Ids, Lengths
    from onnx_embeddings.folder.tokenizer import TokenizerFiles


_CHARACTERS_PER_TOKEN = 16  # most texts have fewer
_SHORTEST_START = 1024
_PIECE = 2**15
_CHARACTERS_AT_A_TIME = 2**18

_SPACE = re.compile(r"[ \t\n\r]")
_IDEOGRAPH = re.compile(r"[\u4e00-\u9fff]")
_SPACE_OR_IDEOGRAPH = re.compile(rf"{_SPACE.pattern}|{_IDEOGRAPH.pattern}")


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
        self._start = max(_SHORTEST_START, _CHARACTERS_PER_TOKEN * max_tokens)
        self._seam = _seam(self._tokenizer) if files.truncation_side == "right" else None

    def encode(self, texts: Sequence[str]) -> Tokens:
        """The texts as token ids, special tokens included, cut to the limit.

        Of a long text only as much is read as the limit needs; its count is then a lower bound,
        above the limit.

        Raises:
            ModelFormatError: the tokenizer can't express a text, for want of an unknown token.
        """
        ids: list[Ids] = []
        counts: list[int] = []
        ends = [self._end(text, self._start) for text in texts]
        for first, last in _groups(ends):
            for encoding in self._starts(texts[first:last], ends[first:last]):
                ids.append(np.array(encoding.ids, np.int64))
                counts.append(self._count(encoding))
        return Tokens(
            ids=ids,
            lengths=np.fromiter(map(len, ids), np.int64, len(ids)),
            counts=np.array(counts, np.int64),
        )

    def count(self, texts: Sequence[str]) -> Lengths:
        """(N,) int64: tokens of each text before the cut, special tokens included."""
        counts = np.full(len(texts), self._special, np.int64)
        pieces = [(row, piece) for row, text in enumerate(texts) for piece in self._pieces(text)]
        for first, last in _groups([len(piece) for _, piece in pieces]):
            rows, some = zip(*pieces[first:last], strict=True)
            for row, encoding in zip(rows, self._encodings(some), strict=True):
                counts[row] += self._count(encoding) - self._special
        return counts

    def _starts(self, texts: Sequence[str], ends: list[int]) -> list[Encoding]:
        """Encodings of as much of each text as decides its tokens up to the limit."""
        starts = [text[:end] for text, end in zip(texts, ends, strict=True)]
        encodings = self._encodings(starts)
        for row, text in enumerate(texts):
            end = ends[row]
            while end < len(text) and self._count(encodings[row]) <= self._max_tokens:
                # Mostly spaces, or words that are one token each: it takes more of the text.
                end = self._end(text, 4 * end)
                encodings[row] = self._encodings([text[:end]])[0]
        return encodings

    def _end(self, text: str, size: int) -> int:
        """Where a start of at least this size ends that can be read without the rest."""
        if self._seam is None or size >= len(text):
            return len(text)
        seam = self._seam.search(text, size)
        return seam.start() if seam else len(text)

    def _pieces(self, text: str) -> list[str]:
        """The text in pieces that can be read without each other; at least one."""
        ends = [0, self._end(text, _PIECE)]
        while ends[-1] < len(text):
            ends.append(self._end(text, ends[-1] + _PIECE))
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


def _seam(tokenizer: Tokenizer) -> re.Pattern[str] | None:
    """Before which characters a text can be divided, and no token on either side changes.

    Known for BERT's rules only: they read word by word, and an ideograph is a word.
    """
    normalizer = tokenizer.normalizer
    if not isinstance(tokenizer.pre_tokenizer, pre_tokenizers.BertPreTokenizer):
        return None
    if not isinstance(normalizer, normalizers.BertNormalizer | None):
        return None
    tokens = tokenizer.get_added_tokens_decoder().values()
    added = "".join(token.content for token in tokens)
    # A normaliser makes a plain space of any other.
    if any(character.isspace() for character in added):
        return None
    splits_ideographs = normalizer is not None and normalizer.handle_chinese_chars
    # A token that is only taken as a whole word looks at the character behind it.
    splits_ideographs &= not any(token.single_word for token in tokens)
    return _SPACE_OR_IDEOGRAPH if splits_ideographs and not _IDEOGRAPH.search(added) else _SPACE


def _groups(sizes: list[int]) -> Iterator[tuple[int, int]]:
    """(first, last) of the texts to read at a time: an encoding takes many times its text."""
    first = characters = 0
    for row, size in enumerate(sizes):
        if characters + size > _CHARACTERS_AT_A_TIME and row > first:
            yield first, row
            first, characters = row, 0
        characters += size
    if first < len(sizes):
        yield first, len(sizes)


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
