"""How a vector lies in the cache: a header with a checksum, then its numbers."""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from onnx_embeddings.arrays import Vectors

_HEADER = struct.Struct(
    "<4sII"
)  # magic and version; D; crc32 of the key, the above and the numbers
_MAGIC = b"oev1"


def encoded(keys: Sequence[bytes], vectors: Vectors) -> list[bytes]:
    """The values of N vectors, (N, D) float32, under N keys: numbers are little-endian."""
    start = _start(vectors.shape[1])
    little = np.ascontiguousarray(vectors, "<f4")
    return [
        start + _checksum(start, key, numbers) + numbers
        for key, numbers in zip(keys, map(bytes, little), strict=True)
    ]


def decoded(
    keys: Sequence[bytes], values: Mapping[bytes, bytes], dim: int
) -> tuple[list[int], Vectors]:
    """Vectors from the values that are there and right.

    A value of another length, of another kind, with a wrong checksum, that belongs to another key
    or is not finite counts as not there.

    Args:
        keys: of N vectors.
        values: key -> value.
        dim: numbers of a vector.

    Returns:
        The places, in order, of the M keys whose value is right, and (M, dim) float32.
    """
    start = _start(dim)
    size = size_of(dim)
    found, parts = [], []
    for place, key in enumerate(keys):
        value = values.get(key, b"")
        if len(value) == size:
            numbers = memoryview(value)[_HEADER.size :]
            if value.startswith(start + _checksum(start, key, numbers)):
                found.append(place)
                parts.append(numbers)
    vectors = np.frombuffer(b"".join(parts), "<f4").reshape(-1, dim)
    finite = np.isfinite(vectors).all(axis=1)
    if not finite.all():
        vectors = vectors[finite]
        found = [place for place, good in zip(found, finite, strict=True) if good]
    return found, vectors.astype(np.float32, copy=False)


def size_of(dim: int) -> int:
    """Bytes of a value."""
    return _HEADER.size + 4 * dim


def _start(dim: int) -> bytes:
    return _HEADER.pack(_MAGIC, dim, 0)[:-4]


def _checksum(start: bytes, key: bytes, numbers: bytes | memoryview) -> bytes:
    return zlib.crc32(numbers, zlib.crc32(key + start)).to_bytes(4, "little")
