"""The guard of vector spaces: what a collection holds, against what a function makes."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import onnx_embeddings
from onnx_embeddings import ModelRequest, ModelSpec, OnnxEmbeddingsError
from onnx_embeddings.errors import SettingError, SpecMismatchError

if TYPE_CHECKING:
    from chromadb.api.models.CollectionCommon import CollectionCommon

    from chroma_onnx_embeddings.embedding_function import OnnxEmbeddingFunction

    Accept = Literal["same-space"] | None

NAME = "onnx_embeddings"
"""Of the embedding function in Chroma's registry, and of its record in a collection's metadata."""


def check(
    function: OnnxEmbeddingFunction, collection: CollectionCommon[Any], accept: Accept
) -> None:
    """Raise `SpecMismatchError` unless a function fits a collection."""
    where = f"collection {collection.name!r}"
    persisted = collection.configuration_json.get("embedding_function") or {}
    if persisted.get("name") != NAME:
        raise _made_by_another(where, persisted.get("name"), function.request.model)
    record = (collection.metadata or {}).get(NAME)
    if record is not None:
        function.engine.spec.check(_spec(record, where), where=where, accept=accept)
        return
    _check_requests(ModelRequest.from_dict(persisted.get("config", {})), function, where, accept)


def check_update(old: ModelRequest, new: OnnxEmbeddingFunction) -> None:
    """Raise `SpecMismatchError` unless a function may take the place of the one asked for."""
    try:
        _check_requests(old, new, "the collection", None)
    except SpecMismatchError as error:
        raise SpecMismatchError(
            error.where,
            stored=error.stored,
            given=error.given,
            differences=error.differences,
            same_space=error.same_space,
            hint="Chroma stores a new configuration before it asks, so put the old one back: "
            "modify the same collection object with the function that it had",
        ) from error.__cause__


def _check_requests(
    stored: ModelRequest, function: OnnxEmbeddingFunction, where: str, accept: Accept
) -> None:
    """Compare what was asked for; if that differs, what comes of it, where the model is there."""
    differences = stored.differences(function.request)
    if not differences:
        return
    config = replace(function.engine.config, offline=True)
    try:
        with onnx_embeddings.load(stored, config=config) as engine:
            spec = engine.spec
    except OnnxEmbeddingsError as error:
        raise SpecMismatchError(
            where,
            stored=stored.model,
            given=function.request.model,
            differences=differences,
            hint="use the settings that made them, or a new collection; what the stored ones mean "
            "exactly can't be compared, because their model can't be opened here",
        ) from error
    function.engine.spec.check(spec, where=where, accept=accept)


def _spec(record: object, where: str) -> ModelSpec:
    try:
        return ModelSpec.from_dict(json.loads(record))  # type: ignore[arg-type]  # it checks
    except (TypeError, ValueError) as error:
        raise SettingError(
            f"metadata[{NAME!r}]",
            f"{record!s:.40}…",
            f"the record of what made the vectors of {where} can't be read",
            "a later version may have written it: upgrade; if it was damaged, embed the documents "
            "again into a new collection",
        ) from error


def _made_by_another(where: str, name: str | None, model: str) -> SpecMismatchError:
    return SpecMismatchError(
        where,
        stored=f"the embedding function {name!r}" if name else "no embedding function",
        given=model,
        differences={"embedding_function": (name, NAME)},
        hint="embed its documents again into a new collection, opened with open_collection",
    )
