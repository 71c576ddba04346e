"""Texts without end into a collection, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sized
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal

from qdrant_client import QdrantClient

from onnx_embeddings.errors import SettingError
from qdrant_onnx_embeddings.arguments import check_options, check_types
from qdrant_onnx_embeddings.collection import check_collection
from qdrant_onnx_embeddings.points import Row, distinct, embed_rows, read_rows, to_points

if TYPE_CHECKING:
    from uuid import UUID

    from tqdm import tqdm

    from qdrant_onnx_embeddings.embedder import OnnxEmbedder

_WINDOW = 1024  # texts that are in memory at a time; the engine sorts as many by length


def upload_texts(  # noqa: PLR0913  what points() takes, and what upload_points() takes
    client: QdrantClient,
    name: str,
    embedder: OnnxEmbedder,
    texts: Iterable[str],
    *,
    ids: Iterable[int | str | UUID] | None = None,
    payloads: Iterable[Mapping[str, Any] | None] | None = None,
    vector_name: str | None = None,
    text_key: str | None = "text",
    accept: Literal["same-space"] | None = None,
    skip_existing: bool = False,
    batch_size: int = 64,
    wait: bool = True,
    **upload_options: Any,
) -> int:
    """Embed texts and write them into a collection, 1,024 at a time.

    The collection is checked before anything is read. An upload that broke off goes on if it is
    run again with ``skip_existing=True`` and the same texts.

    Equal ids within the 1,024 are one point, or an error if text or payload differ. Further apart
    they are not seen: the later point takes the place of the earlier, or, with ``skip_existing``,
    counts as existing.

    Args:
        client: a server's, or a local one.
        name: a collection that `open_collection` opened.
        embedder: the model that its vectors are made with.
        texts: any iterable of strings, a generator of any length for example.
        ids: as for `OnnxEmbedder.points`, any iterable; so are the three that follow.
        payloads: see there.
        vector_name: see there.
        text_key: see there.
        accept: ``"same-space"`` lets vectors of the same space do that were made another way.
        skip_existing: neither embed nor write texts whose ids are there, with a vector.
        batch_size: points of a request.
        wait: return when the points can be found; False returns when they are received.
        upload_options: others of ``client.upload_points``, ``max_retries`` for example.

    Returns:
        How many points were written: distinct ids, counted in each 1,024.

    Raises:
        SpecMismatchError: as for `open_collection`, and its other errors.
        InputError: as for `OnnxEmbedder.points`; all windows before that text are written.
    """
    if not upload_options.get("max_retries", 1):
        # Clients before 1.20 send nothing at all then, and do not say so.
        raise SettingError("max_retries", 0, "must be at least 1")
    check_types(client, QdrantClient, embedder)
    check_options(client, QdrantClient, "upload_points", upload_options)
    rows = read_rows(texts, ids, payloads, text_key)
    check_collection(client, name, embedder, vector_name=vector_name, accept=accept)
    written = 0
    total = len(texts) if isinstance(texts, Sized) else None
    with _bar(total, shown=embedder.show_progress) as bar:
        while window := list(islice(rows, _WINDOW)):
            new = distinct(window)
            if skip_existing:
                new = _missing(client, name, vector_name, new)
            points = to_points(new, embed_rows(embedder.engine, new), vector_name)
            # Window by window: a local client makes a list of all the points of a call.
            client.upload_points(name, points, batch_size=batch_size, wait=wait, **upload_options)
            written += len(new)
            bar.update(len(window))
    return written


def _missing(
    client: QdrantClient, name: str, vector_name: str | None, rows: list[Row]
) -> list[Row]:
    """The rows whose points are not there, or are there without this vector."""
    vectors = False if vector_name is None else [vector_name]
    ids = [row.id for row in rows]
    found = client.retrieve(name, ids, with_payload=False, with_vectors=vectors)
    there = {record.id for record in found if vector_name is None or record.vector}
    return [row for row in rows if row.id not in there]


def _bar(total: int | None, *, shown: bool) -> tqdm[Any]:
    from tqdm import tqdm

    return tqdm(total=total, desc="Uploading", unit=" texts", disable=not shown)
