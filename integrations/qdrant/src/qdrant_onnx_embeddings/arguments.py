"""What a function is given: the right client, an embedder, and options that the client has."""

from __future__ import annotations

from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any

from qdrant_client import AsyncQdrantClient, QdrantClient

from onnx_embeddings.errors import SettingError
from qdrant_onnx_embeddings.embedder import OnnxEmbedder

if TYPE_CHECKING:
    from collections.abc import Mapping

    Kind = type[QdrantClient | AsyncQdrantClient]

_HINTS: dict[Kind, str] = {
    QdrantClient: "an AsyncQdrantClient goes to aopen_collection or acheck_collection, and its "
    "upsert takes what apoints gives",
    AsyncQdrantClient: "a QdrantClient goes to open_collection or check_collection",
}
_OURS = {"collection_name", "points"}


def check_types(client: object, kind: Kind, embedder: object) -> None:
    """Raise `SettingError` for another client than one of this kind, or for no embedder."""
    if not isinstance(client, kind):
        raise SettingError("client", client, f"must be an object of {kind.__name__}", _HINTS[kind])
    if not isinstance(embedder, OnnxEmbedder):
        hint = "give OnnxEmbedder(…), which takes the name or the folder of a model"
        raise SettingError("embedder", embedder, "must be an OnnxEmbedder object", hint)


def check_options(client: object, kind: Kind, method: str, options: Mapping[str, Any]) -> None:
    """Raise `SettingError` for an option that a method of the client does not take."""
    parameters = signature(getattr(client, method)).parameters.values()
    rest = [one for one in parameters if one.kind is Parameter.VAR_KEYWORD]
    # The client's own method has **kwargs too, but only to refuse them, and only once it is called.
    if rest and getattr(type(client), method) is not getattr(kind, method):
        return
    known = [one.name for one in parameters if one not in rest and one.name not in _OURS]
    for name, value in options.items():
        if name not in known:
            reason = f"no such option, {method} of the client has {', '.join(known)}"
            raise SettingError(name, value, reason)
