from __future__ import annotations

import enum
import io
import itertools
import math
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from onnx_embeddings.errors import InputError
from onnx_embeddings.text import checked, prompted

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass
class Document:
    """As LangChain's."""

    page_content: str


class Colour(str, enum.Enum):  # noqa: UP042  people's code has them, and their str() is their name
    RED = "red"


class Shouting(str):
    """A text whose methods lie about it."""

    __slots__ = ()

    def __str__(self) -> str:
        return "SHOUTED"

    def isascii(self) -> bool:
        return True

    def encode(self, encoding: str = "utf-8", errors: str = "strict") -> bytes:
        return b"SHOUTED" + encoding.encode() + errors.encode()


@pytest.mark.parametrize(
    ("texts", "reason"),
    [
        ("one text", "one text where a list of texts is wanted"),
        ("", "one text where a list of texts is wanted"),
        (np.str_("one"), "one text where a list of texts is wanted"),
        (b"bytes", "bytes where a list of texts is wanted"),
        (bytearray(b"bytes"), "bytearray where a list of texts is wanted"),
        (None, "NoneType where a list of texts is wanted"),
        (5, "int where a list of texts is wanted"),
        (math.nan, "float where a list of texts is wanted"),
        (object(), "object where a list of texts is wanted"),
        (Document("one"), "Document where a list of texts is wanted"),
        (np.array("one"), "ndarray where a list of texts is wanted"),
        (np.array([["a", "b"]]), "ndarray where a list of texts is wanted"),
    ],
)
def test_what_is_no_list_of_texts_is_refused_as_a_whole(texts: object, reason: str) -> None:
    with pytest.raises(InputError) as caught:
        checked(texts)
    assert caught.value.reason == reason
    assert caught.value.index is None


def test_a_single_text_is_told_how_to_become_a_list() -> None:
    with pytest.raises(InputError, match=r"Hint: put it in a list: \[text\]"):
        checked("one text")


@pytest.mark.parametrize(
    ("item", "reason"),
    [
        (None, "None (NoneType) is not a text"),
        (math.nan, "nan (float) is not a text"),
        (np.float64("nan"), "(float64) is not a text"),
        (np.float32(1.5), "a value of type float32 is not a text"),
        (5, "5 (int) is not a text"),
        (np.int64(5), "a value of type int64 is not a text"),
        (True, "True (bool) is not a text"),
        (np.bool_(True), "is not a text"),  # noqa: FBT003
        (b"x", "a value of type bytes is not a text"),
        (bytearray(b"x"), "a value of type bytearray is not a text"),
        (memoryview(b"x"), "a value of type memoryview is not a text"),
        (["a", "b"], "a value of type list is not a text"),
        (("a", "b"), "a value of type tuple is not a text"),
        (["a"], "a value of type list is not a text"),
        ({"text": "a"}, "a value of type dict is not a text"),
        (np.array(["a"]), "a value of type ndarray is not a text"),
        (Document("a"), "a value of type Document is not a text"),
        (object(), "a value of type object is not a text"),
        ("\ud800", "lone surrogate '\\ud800' at character 0"),
        ("abc \udfff", "lone surrogate '\\udfff' at character 4"),
        ("\u00e4\ud83d\ude42", "lone surrogate '\\ud83d' at character 1"),
    ],
)
@pytest.mark.parametrize("index", [0, 2])
def test_an_item_that_is_no_text_is_named_with_its_index(
    item: object, reason: str, index: int
) -> None:
    texts: list[object] = ["fine", "", " ", "fine"]
    texts[index] = item
    with pytest.raises(InputError) as caught:
        checked(iter(texts))
    assert caught.value.index == index
    assert reason in caught.value.reason
    assert str(caught.value).startswith(f"text at index {index}: ")
    assert caught.value.hint


@pytest.mark.parametrize(
    ("item", "hint"),
    [
        (None, "drop missing values"),
        (math.nan, "drop missing values"),
        (b"x", "decode"),
        (5, r"str(value)"),
        (0.5, r"str(value)"),
        (True, r"str(value)"),
        (Document("a"), "page_content"),
        (SimpleNamespace(get_content=None), "get_content()"),
        (SimpleNamespace(content="a"), "content"),
        (["a", "b"], "flat list"),
        (("a", "b"), "flat list"),
        ("\ud800", "errors='replace'"),
    ],
)
def test_the_hint_says_what_to_do_with_such_an_item(item: object, hint: str) -> None:
    with pytest.raises(InputError) as caught:
        checked([item])
    assert hint in str(caught.value.hint)


def test_the_first_bad_item_is_the_one_that_is_named() -> None:
    with pytest.raises(InputError) as caught:
        checked(["a", 5, None])
    assert caught.value.index == 1


def test_any_iterable_of_texts_will_do() -> None:
    texts = ["a", "", "b c"]
    read_once: Iterator[str] = iter(texts)
    assert checked(read_once) == texts
    assert list(read_once) == []
    assert checked(tuple(texts)) == texts
    assert checked(text for text in texts) == texts
    assert checked(map(str, texts)) == texts
    assert checked(itertools.chain(texts)) == texts
    assert checked(dict.fromkeys(texts).keys()) == texts
    assert checked(dict(enumerate(texts)).values()) == texts
    assert checked(np.array(texts)) == texts
    assert checked(np.array(texts, dtype=object)) == texts
    assert checked({"one"}) == ["one"]
    assert checked(io.StringIO("a\nb\n")) == ["a\n", "b\n"]


@pytest.mark.parametrize("nothing", [[], (), {}.keys(), iter(()), np.array([], dtype=str)])
def test_no_texts_are_a_list_of_none(nothing: object) -> None:
    assert checked(nothing) == []


def test_the_callers_list_is_left_alone() -> None:
    texts = ["a", "b"]
    found = checked(texts)
    found.append("c")
    assert texts == ["a", "b"]


def test_an_error_of_the_callers_iterator_passes_through() -> None:
    def broken() -> Iterator[str]:
        yield "a"
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        checked(broken())


@pytest.mark.parametrize(
    "text", [np.str_("red"), Colour.RED, Shouting("red")], ids=["numpy", "enum", "own"]
)
def test_subclasses_of_str_become_plain_texts_of_the_same_characters(text: str) -> None:
    (plain,) = checked([text])
    assert type(plain) is str
    assert plain == "red"


def test_a_subclass_cannot_smuggle_a_surrogate_in() -> None:
    with pytest.raises(InputError, match="lone surrogate"):
        checked([Shouting("\ud800")])


@pytest.mark.parametrize(
    "text",
    [
        "ab\x00cd",
        "\x00",
        "\x01\x1f\x7f",
        "\ufeffwith a byte order mark",
        "\u00e9 composed",
        "e\u0301 decomposed",
        "\u200b\u202e\u2028",
        "  spaces around  ",
        "line\r\nbreak\n",
        "\U0001f469\u200d\U0001f469\u200d\U0001f467",
        "\U0010ffff\ufffe\ufdd0",
        "x" * 100_000,
        "",
    ],
)
def test_a_text_is_never_rewritten(text: str) -> None:
    (found,) = checked([text])
    assert found is text
    assert prompted([text], "") == [text]
    assert prompted([text], " query:\u00a0") == [" query:\u00a0" + text]


def test_a_prompt_goes_before_every_text_as_it_is() -> None:
    assert prompted(["a", ""], "query: ") == ["query: a", "query: "]
    assert prompted(["a"], " \n") == [" \na"]
    assert prompted([], "query: ") == []
