"""Collections made for a model, and the guard that keeps other models out of them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Literal

from qdrant_client import AsyncQdrantClient, QdrantClient

from qdrant_onnx_embeddings import guard
from qdrant_onnx_embeddings.arguments import check_options, check_types

if TYPE_CHECKING:
    from qdrant_onnx_embeddings.embedder import OnnxEmbedder


def open_collection(  # noqa: PLR0913  the guard's settings, beside the three that say what it is
    client: QdrantClient,
    name: str,
    embedder: OnnxEmbedder,
    *,
    vector_name: str | None = None,
    accept: Literal["same-space"] | None = None,
    adopt: bool = False,
    **create_options: Any,
) -> None:
    """Create the collection with the model's size, distance and spec; if it is there, check it.

    Args:
        client: a server's, or a local one.
        name: the collection.
        embedder: the model that its vectors are made with.
        vector_name: a named vector; None is the collection's only, unnamed one.
        accept: ``"same-space"`` lets vectors of the same space do that were made another way.
        adopt: write the spec down for a collection that says nothing of its model, because the
            caller knows that this model made its vectors. Size and distance are still checked.
        create_options: for ``client.create_collection``, used only if the collection is new,
            but their names are checked each time; ``vectors_config`` and ``metadata`` are added
            to.

    Raises:
        SpecMismatchError: the vectors that are there go with another model; both are named.
        SettingError: an argument is something else, or the client has no such option; the
            collection has no such vector, compares vectors another way, or says nothing of its
            model.
        ModelError: the model can't be found, fetched, read or loaded.
    """
    check_types(client, QdrantClient, embedder)
    check_options(client, QdrantClient, "create_collection", create_options)
    wanted = guard.creation(embedder, vector_name, create_options)
    if not client.collection_exists(name):
        try:
            client.create_collection(name, **wanted)
        except Exception:
            # Somebody else may have made it meanwhile; then it is checked as any other.
            if not client.collection_exists(name):
                raise
    if adopt:
        info = client.get_collection(name)
        if metadata := guard.adoption(embedder, info, name, vector_name):
            client.update_collection(name, metadata=metadata)
    check_collection(client, name, embedder, vector_name=vector_name, accept=accept)


def check_collection(
    client: QdrantClient,
    name: str,
    embedder: OnnxEmbedder,
    *,
    vector_name: str | None = None,
    accept: Literal["same-space"] | None = None,
) -> None:
    """Raise unless vectors of this model may join, or search, those of the collection.

    Arguments and errors are those of `open_collection`; the client raises its own error for a
    collection that does not exist.
    """
    check_types(client, QdrantClient, embedder)
    guard.check(embedder, client.get_collection(name), name, vector_name, accept)


async def aopen_collection(  # noqa: PLR0913  as open_collection
    client: AsyncQdrantClient,
    name: str,
    embedder: OnnxEmbedder,
    *,
    vector_name: str | None = None,
    accept: Literal["same-space"] | None = None,
    adopt: bool = False,
    **create_options: Any,
) -> None:
    """As `open_collection`, for the asynchronous client; the model is loaded in a thread."""
    check_types(client, AsyncQdrantClient, embedder)
    check_options(client, AsyncQdrantClient, "create_collection", create_options)
    wanted = await asyncio.to_thread(guard.creation, embedder, vector_name, create_options)
    if not await client.collection_exists(name):
        try:
            await client.create_collection(name, **wanted)
        except Exception:
            if not await client.collection_exists(name):
                raise
    if adopt:
        info = await client.get_collection(name)
        if metadata := guard.adoption(embedder, info, name, vector_name):
            await client.update_collection(name, metadata=metadata)
    await acheck_collection(client, name, embedder, vector_name=vector_name, accept=accept)


async def acheck_collection(
    client: AsyncQdrantClient,
    name: str,
    embedder: OnnxEmbedder,
    *,
    vector_name: str | None = None,
    accept: Literal["same-space"] | None = None,
) -> None:
    """As `check_collection`, for the asynchronous client."""
    check_types(client, AsyncQdrantClient, embedder)
    info = await client.get_collection(name)
    await asyncio.to_thread(guard.check, embedder, info, name, vector_name, accept)
