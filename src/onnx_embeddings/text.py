"""Texts in, checked and prompted texts out. The caller's text is never rewritten."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from onnx_embeddings.errors import InputError

# What holds the text of LangChain's documents, of LlamaIndex' nodes and of Haystack's documents.
_TEXT_OF = {"page_content": "page_content", "get_content": "get_content()", "content": "content"}


def checked(texts: object) -> list[str]:
    """The texts, any iterable of strings, as a list.

    Raises:
        InputError: `texts` is one text and no list of them, or an item is no valid text.
    """
    items = list(_iterable(texts))
    return [_checked(text, index) for index, text in enumerate(items)]


def each_checked(texts: object) -> Iterator[str]:
    """The same, each when it is taken; that `texts` is an iterable is checked at once."""
    return (_checked(text, index) for index, text in enumerate(_iterable(texts)))


def prompted(texts: list[str], prompt: str) -> list[str]:
    """The texts with the model's prompt in front."""
    return [prompt + text for text in texts] if prompt else texts


def _iterable(texts: object) -> Iterable[object]:
    if isinstance(texts, str):
        raise InputError(
            "one text where a list of texts is wanted", hint="put it in a list: [text]"
        )
    # Bytes, mappings and tables with more than one axis iterate as something else than texts.
    odd = isinstance(texts, bytes | bytearray | Mapping) or getattr(texts, "ndim", 1) != 1
    if odd or not isinstance(texts, Iterable):
        raise InputError(f"{type(texts).__name__} where a list of texts is wanted")
    return texts


def _checked(text: object, index: int) -> str:
    if not isinstance(text, str):
        raise InputError(_not_a_text(text), index=index, hint=_hint(text))
    # numpy's str_ and other subclasses become plain texts; their own str() may say something else.
    plain = text if type(text) is str else str.__str__(text)
    if not plain.isascii():
        try:
            plain.encode()
        except UnicodeEncodeError as error:
            raise InputError(
                f"lone surrogate {plain[error.start]!a} at character {error.start}",
                index=index,
                hint="decode the source with errors='replace', or drop such characters",
            ) from error
    return plain


def _not_a_text(value: object) -> str:
    name = type(value).__name__
    if value is None or isinstance(value, float | int | bool):
        return f"{value!r} ({name}) is not a text"
    return f"a value of type {name} is not a text"


def _hint(value: object) -> str:
    if isinstance(value, bytes | bytearray):
        return "decode it first: value.decode('utf-8')"
    for name, said in _TEXT_OF.items():
        if hasattr(value, name):
            return f"pass its {said}"
    if isinstance(value, list | tuple):
        return "texts must be a flat list of strings; join the parts first"
    if isinstance(value, int) or (isinstance(value, float) and value == value):  # noqa: PLR0124  NaN
        return "pass it as a text: str(value)"
    return "drop missing values before embedding, or replace them by ''"
