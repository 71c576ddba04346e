"""Large uploads: in windows, checked first, able to go on; over the wire to a stand-in server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from qdrant_client.http.exceptions import UnexpectedResponse

from onnx_embeddings.errors import InputError, SettingError, SpecMismatchError
from onnx_embeddings.testing import write_tiny_model
from qdrant_onnx_embeddings import (
    OnnxEmbedder,
    check_collection,
    open_collection,
    point_id,
    upload_texts,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from uuid import UUID

    from integrations.qdrant.tests.conftest import Server
    from qdrant_client import QdrantClient

MANY = [f"text number {number}" for number in range(50)]


@pytest.fixture(autouse=True)
def _small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qdrant_onnx_embeddings.upload._WINDOW", 8)


@pytest.fixture
def embedder(tiny: str, client: QdrantClient) -> OnnxEmbedder:
    """One whose collection "notes" is open."""
    made = OnnxEmbedder(tiny)
    open_collection(client, "notes", made)
    return made


def test_what_is_uploaded_is_what_points_gives(
    embedder: OnnxEmbedder, client: QdrantClient
) -> None:
    payloads = [{"number": number} for number in range(50)]
    expected = embedder.points(MANY, payloads=payloads)
    client.create_collection("expected", embedder.vector_params())
    client.upsert("expected", expected)

    written = upload_texts(
        client, "notes", embedder, iter(MANY), payloads=(payload for payload in payloads)
    )

    assert written == 50
    ids = [point.id for point in expected]
    found = client.retrieve("notes", ids, with_vectors=True)
    assert found == client.retrieve("expected", ids, with_vectors=True)
    assert [record.payload for record in found] == [point.payload for point in expected]


def test_a_generator_is_never_far_ahead_of_what_is_written(
    embedder: OnnxEmbedder, client: QdrantClient
) -> None:
    ahead = []

    def texts() -> Iterator[str]:
        for number, text in enumerate(MANY):
            ahead.append(number - client.count("notes").count)
            yield text

    assert upload_texts(client, "notes", embedder, texts(), batch_size=4) == 50
    assert max(ahead) == 7


def test_no_texts_write_nothing(embedder: OnnxEmbedder, client: QdrantClient) -> None:
    assert upload_texts(client, "notes", embedder, iter([])) == 0
    assert client.count("notes").count == 0


def test_another_model_is_refused_before_a_text_is_read(
    embedder: OnnxEmbedder, client: QdrantClient, tmp_path: Path
) -> None:
    other = OnnxEmbedder(write_tiny_model(tmp_path / "other", seed=41))
    texts = iter(MANY)

    with pytest.raises(SpecMismatchError):
        upload_texts(client, "notes", other, texts)

    assert next(texts) == MANY[0]
    assert other.engine.stats().texts == 0
    changed = OnnxEmbedder(embedder.request.model, max_tokens=5)
    assert upload_texts(client, "notes", changed, MANY, accept="same-space") == 50


def test_a_bad_text_is_named_by_its_place_and_the_upload_goes_on(
    embedder: OnnxEmbedder, client: QdrantClient
) -> None:
    bad: list[Any] = [*MANY[:20], None, *MANY[21:]]
    for _ in range(2):  # the second time, most of its window is there
        with pytest.raises(InputError, match="index 20: None") as raised:
            upload_texts(client, "notes", embedder, bad, skip_existing=True)
        assert raised.value.index == 20
        assert client.count("notes").count == 16
    with pytest.raises(InputError, match="index 20: lone surrogate"):
        upload_texts(client, "notes", embedder, [*MANY[:20], "\ud800"], skip_existing=True)
    before = embedder.engine.stats().texts

    written = upload_texts(client, "notes", embedder, MANY, skip_existing=True)

    assert written == 34
    assert embedder.engine.stats().texts == before + 34
    assert client.count("notes").count == 50
    assert upload_texts(client, "notes", embedder, MANY) == 50
    assert client.count("notes").count == 50


@pytest.mark.parametrize("skip_existing", [True, False])
def test_equal_ids_of_a_window_are_one_point(
    embedder: OnnxEmbedder, client: QdrantClient, *, skip_existing: bool
) -> None:
    texts = ["x", "y", "x", "x", "z"]
    same = [{"f": text} for text in texts]

    written = upload_texts(
        client, "notes", embedder, texts, payloads=same, skip_existing=skip_existing
    )

    assert written == client.count("notes").count == 3
    assert embedder.engine.stats().texts == 3
    again = upload_texts(client, "notes", embedder, [*texts, "w", "w"], skip_existing=skip_existing)
    assert again == (1 if skip_existing else 4)


@pytest.mark.parametrize("skip_existing", [True, False])
def test_equal_ids_of_a_window_with_different_payloads_are_refused(
    embedder: OnnxEmbedder, client: QdrantClient, *, skip_existing: bool
) -> None:
    texts = [*MANY[:8], "x", "x", "x"]
    payloads = [{"f": number} for number in range(11)]

    with pytest.raises(InputError, match=r"index 9: .*index 8.*{'f': 9}, there {'f': 8}") as raised:
        upload_texts(
            client, "notes", embedder, texts, payloads=payloads, skip_existing=skip_existing
        )

    assert raised.value.index == 9
    assert 'point_id(f"{file}#{number}")' in str(raised.value.hint)
    assert client.count("notes").count == 8  # the window before
    ids = [point_id(f"file#{number}") for number in range(11)]
    assert upload_texts(client, "notes", embedder, texts, ids=ids, payloads=payloads) == 11


def test_equal_ids_of_two_windows_are_not_seen(
    embedder: OnnxEmbedder, client: QdrantClient
) -> None:
    """Pins what the page says: no more than a window is remembered."""
    texts = ["x", *MANY[:7], "x"]
    payloads = [{"f": number} for number in range(9)]

    def stored() -> Any:
        return (client.retrieve("notes", [point_id("x")])[0].payload or {})["f"]

    assert upload_texts(client, "notes", embedder, texts, payloads=payloads) == 9
    assert client.count("notes").count == 8
    assert stored() == 8
    client.delete("notes", [point_id("x")])
    again = upload_texts(client, "notes", embedder, texts, payloads=payloads, skip_existing=True)
    assert (again, stored()) == (1, 0)


def test_an_option_that_the_client_does_not_have_is_refused(
    embedder: OnnxEmbedder, client: QdrantClient
) -> None:
    with pytest.raises(SettingError, match=r"skip_exsting=True: no such option.*max_retries"):
        upload_texts(client, "notes", embedder, MANY, skip_exsting=True)
    assert embedder.engine.stats().texts == 0


@pytest.mark.parametrize("bad", ["a cat", None, {"a": 1}])
def test_what_is_no_list_of_texts_is_refused(
    embedder: OnnxEmbedder, client: QdrantClient, bad: Any
) -> None:
    with pytest.raises(InputError, match="where a list of texts"):
        upload_texts(client, "notes", embedder, bad)


def test_ids_of_any_form_are_known_again(embedder: OnnxEmbedder, client: QdrantClient) -> None:
    ids: list[int | str | UUID] = [1, point_id("key").upper(), point_id("other").replace("-", "")]

    assert upload_texts(client, "notes", embedder, MANY[:3], ids=ids) == 3
    assert upload_texts(client, "notes", embedder, MANY[:3], ids=ids, skip_existing=True) == 0


def test_a_point_without_this_vector_is_not_there(tiny: str, client: QdrantClient) -> None:
    embedder = OnnxEmbedder(tiny)
    title = {"title": embedder.vector_params()}
    open_collection(client, "two", embedder, vector_name="body", vectors_config=title)
    client.upsert("two", embedder.points(MANY[:2], vector_name="title"))
    client.upsert("two", embedder.points(MANY[2:3], vector_name="body"))

    written = upload_texts(
        client, "two", embedder, MANY[:3], vector_name="body", skip_existing=True
    )

    assert written == 2
    with pytest.raises(SettingError, match="vector_name=None"):
        upload_texts(client, "two", embedder, MANY)


@pytest.mark.parametrize("sized", [True, False])
def test_one_bar_is_shown_if_asked(
    tiny: str, client: QdrantClient, capsys: pytest.CaptureFixture[str], *, sized: bool
) -> None:
    embedder = OnnxEmbedder(tiny, show_progress=True)
    open_collection(client, "notes", embedder)

    upload_texts(client, "notes", embedder, MANY if sized else iter(MANY))

    out, err = capsys.readouterr()
    assert out == ""
    assert ("50/50" if sized else "50 texts") in err
    assert "Embedding" not in err


# Over the wire


def test_a_server_gets_batches_and_keeps_the_record(
    tiny: str, server: Server, remote: QdrantClient
) -> None:
    embedder = OnnxEmbedder(tiny)
    open_collection(remote, "notes", embedder)
    open_collection(remote, "notes", OnnxEmbedder(tiny))

    written = upload_texts(remote, "notes", embedder, iter(MANY[:20]), batch_size=5, wait=False)

    assert written == 20
    assert [count for count, _ in server.writes] == [5, 3, 5, 3, 4]
    assert {query for _, query in server.writes} == {"wait=false"}
    assert upload_texts(remote, "notes", embedder, MANY[:24], skip_existing=True) == 4
    assert server.writes[5:] == [(4, "wait=true")]
    (found, *_) = remote.query_points("notes", embedder.query_vector(MANY[3]), limit=3).points
    assert found.payload is not None
    with pytest.raises(SpecMismatchError):
        check_collection(remote, "notes", OnnxEmbedder(tiny, dim=8))


def test_a_write_that_fails_is_tried_again(tiny: str, server: Server, remote: QdrantClient) -> None:
    embedder = OnnxEmbedder(tiny)
    open_collection(remote, "notes", embedder)

    server.failures = 1
    with pytest.warns(UserWarning, match="failed 1 times"):
        assert upload_texts(remote, "notes", embedder, MANY) == 50
    assert server.store.count("notes").count == 50

    server.failures = 9
    with (
        pytest.warns(UserWarning, match="failed 1 times"),
        pytest.raises(UnexpectedResponse),
    ):
        upload_texts(remote, "notes", embedder, ["a cat"], max_retries=1)


def test_no_try_at_all_is_refused(tiny: str, server: Server, remote: QdrantClient) -> None:
    embedder = OnnxEmbedder(tiny)
    open_collection(remote, "notes", embedder)

    with pytest.raises(SettingError, match="max_retries=0: must be at least 1"):
        upload_texts(remote, "notes", embedder, MANY, max_retries=0)
    assert not server.writes


def test_a_server_that_keeps_no_metadata_is_told_of(
    tiny: str, server: Server, remote: QdrantClient
) -> None:
    server.keeps_metadata = False

    for adopt in (False, True):
        with pytest.raises(SettingError, match=r"older than Qdrant 1\.16"):
            open_collection(remote, "notes", OnnxEmbedder(tiny), adopt=adopt)
