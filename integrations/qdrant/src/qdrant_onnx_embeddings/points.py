"""Texts, ids and payloads in, Qdrant's points out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sized
from operator import index
from reprlib import repr as shortened
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID, uuid4, uuid5

from qdrant_client import models

from onnx_embeddings.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from onnx_embeddings import Engine

# Must stay for ever: with another one, a text that is uploaded again would be a second point.
_NAMESPACE = UUID("6d0c1a1e-8f0e-5a51-9d2c-3a8f5a2b7c41")
_NONE_LEFT = object()


class Row(NamedTuple):
    """A point without its vector, and its place among the texts."""

    place: int
    text: str
    id: int | str
    payload: dict[str, Any]


def point_id(text: str) -> str:
    """The id that a text gets where none is given: equal texts, equal ids, in every process.

    A version 5 UUID (RFC 9562), as a string. Makes an id of any other key too.
    """
    return str(uuid5(_NAMESPACE, text))


def read_rows(
    texts: object,
    ids: Iterable[int | str | UUID] | None,
    payloads: Iterable[Mapping[str, Any] | None] | None,
    text_key: str | None,
) -> Iterator[Row]:
    """The rows, read one by one; what can be seen without reading is checked at once.

    Raises:
        InputError: `texts` is no list of texts, or the lengths differ.
    """
    if isinstance(texts, str):
        raise InputError(
            "one text where a list of texts is wanted", hint="put it in a list: [text]"
        )
    odd = isinstance(texts, bytes | bytearray | Mapping) or getattr(texts, "ndim", 1) != 1
    if odd or not isinstance(texts, Iterable):
        raise InputError(f"{type(texts).__name__} where a list of texts is wanted")
    columns: dict[str, Any] = {"ids": ids, "payloads": payloads}
    for name, values in columns.items():
        if isinstance(values, str | bytes | Mapping):
            raise InputError(f"{name}: {type(values).__name__} where one for each text is wanted")
        if isinstance(texts, Sized) and isinstance(values, Sized) and len(texts) != len(values):
            raise InputError(f"{len(texts)} texts, but {len(values)} {name}")
    return _rows(iter(texts), _each(ids), _each(payloads), text_key)


def distinct(rows: Iterable[Row]) -> list[Row]:
    """One row for each id, the first that has it.

    Raises:
        InputError: two rows with one id differ in their text or payload, so one would get lost.
    """
    first: dict[int | str, Row] = {}
    for row in rows:
        before = first.setdefault(row.id, row)
        if before is not row and not _same(before, row):
            raise InputError(
                f"it has the id of index {before.place}, {row.id!r}, and other content, so that "
                f"one would get lost: {_beyond(row, before)}, there {_beyond(before, row)}",
                index=row.place,
                hint='give each an id of its own: ids=[point_id(f"{file}#{number}"), …]',
            )
    return list(first.values())


def embed_rows(engine: Engine, rows: Sequence[Row], *, progress: bool = False) -> list[list[float]]:
    """The N vectors of N rows, each D Python floats; an error names the row's own place."""
    try:
        vectors = engine.embed_documents([row.text for row in rows], progress=progress)
    except InputError as error:
        if error.index is None:
            raise
        place = rows[error.index].place
        raise InputError(error.reason, index=place, hint=error.hint) from error
    return [vector.tolist() for vector in vectors]


def to_points(
    rows: Sequence[Row], vectors: Sequence[list[float]], vector_name: str | None
) -> list[models.PointStruct]:
    """One point for each row; its vector is a flat list, or a named one."""
    return [
        models.PointStruct(
            id=row.id,
            vector=vector if vector_name is None else {vector_name: vector},
            payload=row.payload,
        )
        for row, vector in zip(rows, vectors, strict=True)
    ]


def _same(one: Row, other: Row) -> bool:
    here, there = (one.text, one.payload), (other.text, other.payload)
    return here == there or repr(here) == repr(there)  # NaN is not equal to itself


def _beyond(row: Row, other: Row) -> str:
    """What a row says otherwise than another with its id, in short."""
    if row.text != other.text:
        return shortened(row.text)
    there = other.payload
    return shortened({k: v for k, v in row.payload.items() if k not in there or there[k] != v})


def _each(values: Iterable[Any] | None) -> Iterator[Any] | None:
    return None if values is None else iter(values)


def _rows(
    texts: Iterator[Any],
    ids: Iterator[Any] | None,
    payloads: Iterator[Any] | None,
    text_key: str | None,
) -> Iterator[Row]:
    for place, text in enumerate(texts):
        point = _id_of(text) if ids is None else _checked_id(next(ids, _NONE_LEFT), place)
        given = None if payloads is None else next(payloads, _NONE_LEFT)
        yield Row(place, text, point, _payload(given, text, text_key, place))


def _id_of(text: object) -> str:
    try:
        if isinstance(text, str):
            return point_id(text)
    except UnicodeEncodeError:
        pass
    return str(uuid4())  # nothing is stored under it: the engine refuses this text by name


def _checked_id(value: Any, place: int) -> int | str:
    if value is _NONE_LEFT:
        raise InputError("there is no id for it", index=place)
    try:
        # In the form that Qdrant gives back.
        if isinstance(value, str | UUID):
            return str(UUID(str(value)))
        number = index(value)
    except (TypeError, ValueError):
        number = -1
    if number < 0 or isinstance(value, bool):
        raise InputError(
            f"its id {value!r} is none: Qdrant takes whole numbers and UUIDs",
            index=place,
            hint="point_id(key) makes a UUID of any key that is a text",
        )
    return number


def _payload(given: Any, text: object, text_key: str | None, place: int) -> dict[str, Any]:
    if given is _NONE_LEFT:
        raise InputError("there is no payload for it", index=place)
    if not isinstance(given, Mapping | None):
        raise InputError(f"its payload is a {type(given).__name__}, not a dictionary", index=place)
    payload = dict(given or {})
    if text_key is None or not isinstance(text, str):  # the engine refuses what is no text
        return payload
    if payload.setdefault(text_key, text) is not text and payload[text_key] != text:
        raise InputError(
            f"its payload has another {text_key!r}",
            index=place,
            hint="name another text_key, or None to store the payload as it is",
        )
    return payload
