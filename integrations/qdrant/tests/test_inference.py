"""Qdrant's own documents, answered by our engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from qdrant_client import models

from onnx_embeddings.errors import InputError, SettingError
from qdrant_onnx_embeddings import OnnxEmbedder, open_collection

if TYPE_CHECKING:
    from qdrant_client import QdrantClient

pytestmark = pytest.mark.usefixtures("no_sockets")


def document(text: str, tiny: str) -> models.Document:
    return models.Document(text=text, model=tiny)


def test_points_and_queries_with_documents_work_without_fastembed(
    tiny: str, client: QdrantClient
) -> None:
    embedder = OnnxEmbedder(tiny)
    open_collection(client, "notes", embedder)
    texts = ["a cat sits", "the blue bird flies"]
    points = [
        models.PointStruct(id=number, vector=document(text, tiny), payload={"text": text})
        for number, text in enumerate(texts)
    ]

    client.upsert("notes", embedder.infer_points(points))

    found = client.retrieve("notes", [0, 1], with_vectors=True)
    client.upsert("notes", embedder.points(texts, ids=[10, 11]))
    same = client.retrieve("notes", [10, 11], with_vectors=True)
    assert [record.vector for record in found] == [record.vector for record in same]
    query = embedder.infer_query(document("a bird", tiny))
    assert query == embedder.query_vector("a bird")
    assert isinstance(points[0].vector, models.Document)  # what was given is as it was


def test_all_texts_of_a_call_are_embedded_together_in_their_order(tiny: str) -> None:
    embedder = OnnxEmbedder(tiny)
    texts = [f"text {number}" for number in range(40)]
    points = [
        models.PointStruct(
            id=number,
            vector={"a": document(text, tiny), "b": [1.0], "c": document(text + "!", tiny)},
        )
        for number, text in enumerate(texts)
    ]

    inferred = embedder.infer_points(points)

    assert embedder.engine.stats().texts == 80
    assert embedder.engine.stats().batches < 20
    expected = [point.vector for point in embedder.points(texts)]
    louder = [point.vector for point in embedder.points([text + "!" for text in texts])]
    assert [point.vector["a"] for point in inferred] == expected
    assert [point.vector["b"] for point in inferred] == [[1.0]] * 40
    assert [point.vector["c"] for point in inferred] == louder


def test_documents_are_found_wherever_a_vector_may_be(tiny: str) -> None:
    embedder = OnnxEmbedder(tiny)
    asked, vector = document("a bird", tiny), embedder.query_vector("a bird")
    cases: list[tuple[Any, Any]] = [
        (models.NearestQuery(nearest=asked), models.NearestQuery(nearest=vector)),
        (
            models.RecommendQuery(
                recommend=models.RecommendInput(positive=[asked, 3], negative=[asked])
            ),
            models.RecommendQuery(
                recommend=models.RecommendInput(positive=[vector, 3], negative=[vector])
            ),
        ),
        (
            [models.Prefetch(query=asked, prefetch=[models.Prefetch(query=asked, using="body")])],
            [models.Prefetch(query=vector, prefetch=[models.Prefetch(query=vector, using="body")])],
        ),
        (models.QueryRequest(query=asked, limit=3), models.QueryRequest(query=vector, limit=3)),
        ((asked, 5), [vector, 5]),
    ]
    for given, expected in cases:
        assert embedder.infer_query(given) == expected


def test_a_batch_keeps_its_other_columns(tiny: str) -> None:
    embedder = OnnxEmbedder(tiny)
    payload = {"text": "a cat", "seen": document("a cat", tiny)}
    batch = models.Batch(ids=[1], vectors=[document("a cat", tiny)], payloads=[payload])
    point = models.PointStruct(id=1, vector=document("a cat", tiny), payload=payload)

    vector: Any = embedder.points(["a cat"])[0].vector
    assert embedder.infer_points(batch) == models.Batch(
        ids=[1], vectors=[vector], payloads=[payload]
    )
    assert embedder.infer_points([point])[0].payload == payload  # data, not a vector


def test_documents_of_other_models_stay(tiny: str) -> None:
    embedder = OnnxEmbedder(tiny)
    theirs = models.Document(text="a cat", model="Qdrant/bm25", options={"language": "english"})
    point = models.PointStruct(id=1, vector={"words": theirs, "body": document("a cat", tiny)})

    (inferred,) = embedder.infer_points([point])

    assert inferred.vector["words"] is theirs
    assert inferred.vector["body"] == embedder.points(["a cat"])[0].vector
    assert embedder.infer_query(theirs) is theirs


def test_what_has_no_document_is_returned_as_it_is_and_loads_nothing(tiny: str) -> None:
    embedder = OnnxEmbedder(tiny)

    for value in ([0.5, 1.0], 3, None, models.FusionQuery(fusion=models.Fusion.RRF)):
        assert embedder.infer_query(value) is value
    assert embedder._engine is None


def test_roles_get_their_prompts(tiny: str) -> None:
    embedder = OnnxEmbedder(tiny)

    as_document, as_query = (
        infer(document("a cat", tiny)) for infer in (embedder.infer_points, embedder.infer_query)
    )

    assert as_document == embedder.points(["a cat"])[0].vector
    assert as_query == embedder.query_vector("a cat")
    assert as_document != as_query


def test_options_of_a_document_are_refused(tiny: str) -> None:
    asked = models.Document(text="a cat", model=tiny, options={"threads": 4})

    with pytest.raises(SettingError, match=r"threads.*not used here"):
        OnnxEmbedder(tiny).infer_query(asked)


def test_an_iterator_is_refused(tiny: str) -> None:
    points = (models.PointStruct(id=1, vector=document(text, tiny)) for text in ["a"])

    with pytest.raises(InputError, match=r"generator where a list.*\n.*upload_texts"):
        OnnxEmbedder(tiny).infer_points(points)


def test_a_bad_text_is_named(tiny: str) -> None:
    with pytest.raises(InputError, match="index 1: lone surrogate"):
        OnnxEmbedder(tiny).infer_points([document(text, tiny) for text in ("a", "\ud800")])
