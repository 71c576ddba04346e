"""Spec, prompt and text in, the key of a cached vector out."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from onnx_embeddings.spec import ModelSpec

FORMAT = "vector/1"
"""Part of every key: another meaning of keys or values takes another number."""


def keys(spec: ModelSpec, prompt: str, texts: Sequence[str]) -> list[bytes]:
    """The keys of texts: 32 bytes each, a sha256 over fields that each carry their length.

    In it is all that changes a vector: the space, the scheme of the precision, the limit and what
    happens beyond it, the prompt applied and the text. The prompts of the spec are not: a document
    and a query with one prompt have one vector.

    Args:
        spec: what the model is.
        prompt: put before each text.
        texts: checked texts, without the prompt.
    """
    start = _start(spec, prompt)
    found = []
    for text in texts:
        key = start.copy()
        key.update(_delimited(text))
        found.append(key.digest())
    return found


@lru_cache(maxsize=64)
def _start(spec: ModelSpec, prompt: str) -> hashlib._Hash:
    """The hash of all but the text, to be copied."""
    start = hashlib.sha256()
    for field in (FORMAT, spec.space, spec.scheme, str(spec.max_tokens), spec.long_text, prompt):
        start.update(_delimited(field))
    return start


def _delimited(field: str) -> bytes:
    data = field.encode()
    return len(data).to_bytes(8, "little") + data
