"""Texts of a megabyte: the same vectors as if all of it was read, and a bounded memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from tokenizers import Tokenizer

import onnx_embeddings
from onnx_embeddings import Engine
from onnx_embeddings.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

MEGABYTE = 10**6
LONG = {
    "words": "the cat sits " * (MEGABYTE // 13),
    "one word": "a" * MEGABYTE,
    "spaces, then a word": " " * MEGABYTE + "cat",
    "long words": ("x" * 5000 + "\n") * 200,
    "words between spaces": ("cat" + " " * 4000) * 250,
    "emoji": "\U0001f642" * (MEGABYTE // 4),
    "digits": "1234567890" * (MEGABYTE // 10),
    "accents": "e\u0301 " * (MEGABYTE // 3),
    "tokens by name": "[SEP] [MASK]" * (MEGABYTE // 12),
    "other spaces": "cat\u00a0dog\u2003sea\u3000" * (MEGABYTE // 12),
    "control characters": "cat\x00\x1f\u200b " * (MEGABYTE // 7),
    "exactly as many as fit": "cat " * 30 + " " * 100_000,
    "one more than fit": "cat " * 30 + " " * 100_000 + "dog",
}


@pytest.fixture(scope="module")
def reference(tiny_folder: Path) -> Tokenizer:
    """The same tokenizer, reading all of a text and cutting nothing."""
    tokenizer: Tokenizer = Tokenizer.from_file(str(tiny_folder / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


@pytest.mark.parametrize("name", LONG)
def test_the_tokens_of_a_long_text_are_those_of_all_of_it(
    tiny: Engine, reference: Tokenizer, name: str
) -> None:
    encoder = tiny._opened().encoder
    expected = reference.encode(LONG[name]).ids
    tokens = encoder.encode(["a", LONG[name], "b"])
    cut = expected if len(expected) <= 32 else [*expected[:31], expected[-1]]
    assert tokens.ids[1].tolist() == cut
    assert (tokens.counts[1] > 32) == (len(expected) > 32)
    assert tokens.counts[[0, 2]].tolist() == [3, 3]
    assert encoder.count(["a", LONG[name], "b"]).tolist() == [3, len(expected), 3]


def test_a_long_text_does_not_change_its_neighbours(tiny: Engine) -> None:
    texts = [text for long in LONG.values() for text in (long, "the cat", "")]
    vectors = tiny.embed_documents(texts)
    alone = tiny.embed_documents(["the cat", ""])
    np.testing.assert_array_equal(vectors[1::3], np.tile(alone[0], (len(LONG), 1)))
    np.testing.assert_array_equal(vectors[2::3], np.tile(alone[1], (len(LONG), 1)))


def test_the_error_of_a_long_text_tells_its_whole_length(tiny_folder: Path) -> None:
    with onnx_embeddings.load(tiny_folder, long_text="error") as engine:
        engine.embed_documents([LONG["exactly as many as fit"]])
        for name in ("words", "one more than fit"):
            count = engine.count_tokens([LONG[name]])[0]
            with pytest.raises(InputError, match=f"{count} tokens, and this model takes 32"):
                engine.embed_documents([LONG[name]])
