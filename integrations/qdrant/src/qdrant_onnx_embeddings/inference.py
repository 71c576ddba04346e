"""Qdrant's `models.Document`, a text where a vector belongs, replaced by its vector."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from pydantic import BaseModel
from qdrant_client import models

from onnx_embeddings.errors import InputError, SettingError


def replace_documents(
    value: Any, model: str, embed: Callable[[list[str]], list[list[float]]]
) -> Any:
    """A copy, changed only where a document of this model is; all texts are embedded in one call.

    Raises:
        SettingError: a document has options.
        InputError: `value` is an iterator.
    """
    if isinstance(value, Iterator):
        raise InputError(
            f"{type(value).__name__} where a list is wanted",
            hint="make it a list; upload_texts takes an iterator of texts",
        )
    texts: list[str] = []

    def collect(document: models.Document) -> models.Document:
        if document.options:
            raise SettingError(
                "options", document.options, "are not used here", "set them in OnnxEmbedder(…)"
            )
        texts.append(document.text)
        return document

    _walk(value, model, collect)
    if not texts:
        return value
    vectors = iter(embed(texts))
    return _walk(value, model, lambda _: next(vectors))


def _walk(value: Any, model: str, replace: Callable[[models.Document], Any]) -> Any:
    """The value with its documents replaced, in a fixed order; what has none is not copied."""
    if isinstance(value, models.Document):
        return replace(value) if value.model == model else value
    if isinstance(value, list | tuple):
        items = [_walk(item, model, replace) for item in value]
        same = all(new is old for new, old in zip(items, value, strict=True))
        return value if same else items
    if isinstance(value, dict):
        fields = {name: _walk(item, model, replace) for name, item in value.items()}
        return value if all(fields[name] is value[name] for name in value) else fields
    if isinstance(value, BaseModel):
        # A payload is the user's: a document in there is data.
        names = [name for name in type(value).model_fields if name not in {"payload", "payloads"}]
        fields = {name: _walk(getattr(value, name), model, replace) for name in names}
        changed = {name: new for name, new in fields.items() if new is not getattr(value, name)}
        return value.model_copy(update=changed) if changed else value
    return value
