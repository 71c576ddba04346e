"""A collection that is made for a function, or compared with it, when it is opened."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Literal

from chromadb.api.async_api import AsyncClientAPI

from chroma_onnx_embeddings import guard
from chroma_onnx_embeddings.embedding_function import OnnxEmbeddingFunction
from onnx_embeddings.errors import SettingError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from chromadb.api import ClientAPI
    from chromadb.api.collection_configuration import CreateCollectionConfiguration
    from chromadb.api.models.Collection import Collection


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
        SettingError: an argument is something else, or what the collection says about its model
            can't be read.
        ModelError: the model can't be found, fetched, read or loaded.
    """
    given: object = client
    if isinstance(given, AsyncClientAPI):
        hint = "use its get_or_create_collection, then asyncio.to_thread(ef.check, collection)"
        raise SettingError("client", client, "must not be an asynchronous one", hint)
    function: object = embedding_function
    if not isinstance(function, OnnxEmbeddingFunction):
        hint = "give OnnxEmbeddingFunction(…), which takes the name or the folder of a model"
        raise SettingError(
            "embedding_function", function, "must be an OnnxEmbeddingFunction object", hint
        )
    settings: CreateCollectionConfiguration = {**(configuration or {})}
    if settings.get("embedding_function") not in (None, embedding_function):
        raise SettingError("configuration", configuration, "names another embedding function")
    settings["embedding_function"] = embedding_function
    record = json.dumps(embedding_function.engine.spec.to_dict())
    # In one step, so that of two processes only one makes it; the other one's check looks at it.
    found = client.get_or_create_collection(
        name,
        metadata={**(metadata or {}), guard.NAME: record},
        configuration=settings,
        embedding_function=None,
    )
    guard.check(embedding_function, found, accept)
    return client.get_collection(
        name,
        embedding_function=embedding_function,  # type: ignore[arg-type]  # only of texts, as most
    )
