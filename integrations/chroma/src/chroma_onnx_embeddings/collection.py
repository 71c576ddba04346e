"""The guard of vector spaces: what a collection holds, against what a function makes."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from chromadb.api.async_api import AsyncClientAPI

import onnx_embeddings
from onnx_embeddings import ModelRequest, ModelSpec, OnnxEmbeddingsError
from onnx_embeddings.errors import SettingError, SpecMismatchError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from chromadb.api import ClientAPI
    from chromadb.api.collection_configuration import CreateCollectionConfiguration
    from chromadb.api.models.Collection import Collection
    from chromadb.api.models.CollectionCommon import CollectionCommon

    from chroma_onnx_embeddings.embedding_function import OnnxEmbeddingFunction

    Accept = Literal["same-space"] | None

NAME = "onnx_embeddings"
"""Of the embedding function in Chroma's registry, and of its record in a collection's metadata."""


def open_collection(  # noqa: PLR0913  what Chroma's own takes, and the guard's word
    client: ClientAPI,
    name: str,
    embedding_function: OnnxEmbeddingFunction,
    *,
    accept: Literal["same-space"] | None = None,
    metadata: Mapping[str, Any] | None = None,
    configuration: CreateCollectionConfiguration | None = None,
) -> Collection:
    """A collection, made if there is none, that holds vectors of this function and no others.

    A new one gets a record in its metadata of what exactly makes its vectors. One that is there
    is compared with the function before anything is embedded. Either loads the model.

    Args:
        client: any but the asynchronous one.
        name: of the collection.
        embedding_function: what embeds its documents and queries.
        accept: ``"same-space"`` allows other prompts, another limit or precision.
        metadata: of a new collection; one that is there keeps its own, as with
            `get_or_create_collection`.
        configuration: of a new collection, its distance for example:
            ``{"hnsw": {"space": "ip"}}``.

    Raises:
        SpecMismatchError: the collection holds vectors made another way; the message says how.
        SettingError: what the collection says about its model can't be read.
        ModelError: the model can't be found, fetched, read or loaded.
    """
    given: object = client
    if isinstance(given, AsyncClientAPI):
        hint = "use its get_or_create_collection, then asyncio.to_thread(ef.check, collection)"
        raise SettingError("client", client, "must not be an asynchronous one", hint)
    settings: CreateCollectionConfiguration = {**(configuration or {})}
    if settings.get("embedding_function") not in (None, embedding_function):
        raise SettingError("configuration", configuration, "names another embedding function")
    settings["embedding_function"] = embedding_function
    record = json.dumps(embedding_function.engine.spec.to_dict())
    # In one step, so that of two processes only one makes it; the other one's check looks at it.
    found = client.get_or_create_collection(
        name,
        metadata={**(metadata or {}), NAME: record},
        configuration=settings,
        embedding_function=None,
    )
    check(embedding_function, found, accept)
    return client.get_collection(
        name,
        embedding_function=embedding_function,  # type: ignore[arg-type]  # only of texts, as most
    )


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
