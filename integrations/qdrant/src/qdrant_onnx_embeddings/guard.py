"""What a collection says of the model that made its vectors, and whether that is this one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Literal

from qdrant_client import models

from onnx_embeddings import ModelSpec
from onnx_embeddings.errors import SettingError, SpecMismatchError

if TYPE_CHECKING:
    from qdrant_onnx_embeddings.embedder import OnnxEmbedder

_SAME_FOR_UNIT_LENGTH = {models.Distance.COSINE, models.Distance.DOT}


def creation(
    embedder: OnnxEmbedder, vector_name: str | None, options: dict[str, Any]
) -> dict[str, Any]:
    """What to create a collection with: the caller's options, the model's vector and its spec.

    Raises:
        SettingError: the caller's vectors are not those of the model.
    """
    wanted = embedder.vector_params()
    given = options.get("vectors_config") or {}
    if isinstance(given, models.VectorParams):
        ours, vectors = given, given if vector_name is None else {vector_name: given}
    elif vector_name is None:
        if given:
            raise SettingError("vector_name", None, f"which of {list(given)} is the model's?")
        ours = vectors = wanted
    else:
        ours = given.get(vector_name, wanted)
        vectors = given | {vector_name: ours}
    if ours.size != wanted.size or not _same_distance(embedder, ours, wanted):
        raise SettingError(
            "vectors_config",
            f"size {ours.size}, {ours.distance}",
            f"vectors of {embedder.request.model} have size {wanted.size}, {wanted.distance}",
            "OnnxEmbedder.vector_params(…) has both, and takes the other fields",
        )
    metadata = (options.get("metadata") or {}) | _record(embedder, vector_name)
    return options | {"vectors_config": vectors, "metadata": metadata}


def adoption(
    embedder: OnnxEmbedder, info: models.CollectionInfo, name: str, vector_name: str | None
) -> dict[str, Any] | None:
    """The metadata that records this model, or None if one is recorded."""
    if _stored(info, vector_name) is not None:
        return None
    _check_params(embedder, info, name, vector_name)
    return _record(embedder, vector_name)


def check(
    embedder: OnnxEmbedder,
    info: models.CollectionInfo,
    name: str,
    vector_name: str | None,
    accept: Literal["same-space"] | None,
) -> None:
    """The check of `check_collection`, on what the client said of the collection."""
    stored = _stored(info, vector_name)
    if stored is not None:
        where = f"collection {name!r}"
        embedder.engine.spec.check(ModelSpec.from_dict(stored), where=where, accept=accept)
    _check_params(embedder, info, name, vector_name)
    if stored is None:
        raise SettingError(
            "collection",
            name,
            "says nothing of the model that made its vectors",
            f"if {embedder.request.model} made them, open_collection(…, adopt=True) writes it "
            "down; else fill a new collection (servers older than Qdrant 1.16 keep no metadata)",
        )


def _check_params(
    embedder: OnnxEmbedder, info: models.CollectionInfo, name: str, vector_name: str | None
) -> None:
    vectors, wanted = info.config.params.vectors or {}, embedder.vector_params()
    named: dict[Any, models.VectorParams]
    named = dict(vectors) if isinstance(vectors, dict) else {None: vectors}
    found = named.get(vector_name)
    if found is None:
        known = ["one without a name" if key is None else repr(key) for key in named]
        reason = f"collection {name!r} has no such vector, but {', '.join(known) or 'none'}"
        raise SettingError("vector_name", vector_name, reason)
    if found.size != wanted.size:
        raise SpecMismatchError(
            f"collection {name!r}",
            stored="another model",
            given=embedder.request.model,
            differences={"dim": (found.size, wanted.size)},
        )
    if not _same_distance(embedder, found, wanted):
        raise SettingError(
            "distance",
            str(found.distance),
            f"collection {name!r} compares with it, and the model is made for {wanted.distance}",
            "fill a new collection; open_collection creates it with the right distance",
        )


def _same_distance(
    embedder: OnnxEmbedder, found: models.VectorParams, wanted: models.VectorParams
) -> bool:
    pair = {found.distance, wanted.distance}
    # Vectors of unit length have the same cosine and dot product.
    return len(pair) == 1 or (embedder.engine.spec.normalize and pair == _SAME_FOR_UNIT_LENGTH)


def _record(embedder: OnnxEmbedder, vector_name: str | None) -> dict[str, Any]:
    # As JSON, which is what a server keeps; older local clients keep the very objects.
    return {_key(vector_name): json.loads(json.dumps(embedder.engine.spec.to_dict()))}


def _stored(info: models.CollectionInfo, vector_name: str | None) -> Any:
    return (info.config.metadata or {}).get(_key(vector_name))


def _key(vector_name: str | None) -> str:
    # A key for each vector: Qdrant merges metadata by its first level only.
    return "onnx_embeddings" if vector_name is None else f"onnx_embeddings/{vector_name}"
