"""The guard: a collection knows its model, and no other one gets in."""

from __future__ import annotations

import asyncio
import inspect
import subprocess
import sys
import textwrap
import threading
from typing import TYPE_CHECKING, Any, cast

import pytest
from qdrant_client import AsyncQdrantClient, QdrantClient, grpc, models
from qdrant_client.conversions.conversion import GrpcToRest, RestToGrpc

from onnx_embeddings import ModelSpec
from onnx_embeddings.errors import SettingError, SpecMismatchError
from onnx_embeddings.testing import write_tiny_model
from qdrant_onnx_embeddings import (
    OnnxEmbedder,
    acheck_collection,
    aopen_collection,
    check_collection,
    guard,
    open_collection,
    upload_texts,
)

if TYPE_CHECKING:
    from pathlib import Path

    from onnx_embeddings import Engine

pytestmark = pytest.mark.usefixtures("no_sockets")


@pytest.fixture(scope="session")
def other(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Another model of the same size."""
    folder = tmp_path_factory.mktemp("models") / "other"
    return str(write_tiny_model(folder, seed=31))


def test_a_new_collection_has_size_distance_and_spec(tiny: str, client: QdrantClient) -> None:
    embedder = OnnxEmbedder(tiny)

    open_collection(client, "notes", embedder)

    config = client.get_collection("notes").config
    assert config.params.vectors == embedder.vector_params()
    assert config.metadata is not None
    assert ModelSpec.from_dict(config.metadata["onnx_embeddings"]) == embedder.engine.spec
    assert config.metadata["onnx_embeddings"]["fingerprint"] == embedder.engine.spec.fingerprint


def test_it_may_be_opened_again(tiny: str, client: QdrantClient) -> None:
    embedder = OnnxEmbedder(tiny)
    open_collection(client, "notes", embedder)
    client.upsert("notes", embedder.points(["a cat"]))

    open_collection(client, "notes", OnnxEmbedder(tiny))
    check_collection(client, "notes", OnnxEmbedder(tiny))

    assert client.count("notes").count == 1


def test_a_local_client_keeps_the_record_on_disk(tiny: str, other: str, tmp_path: Path) -> None:
    # Another process wrote it, and knows nothing but the model.
    code = textwrap.dedent("""
        import sys
        from qdrant_client import QdrantClient
        from qdrant_onnx_embeddings import OnnxEmbedder, open_collection
        client = QdrantClient(path=sys.argv[1])
        embedder = OnnxEmbedder(sys.argv[2])
        open_collection(client, "notes", embedder)
        client.upsert("notes", embedder.points(["a cat"]))
        client.close()
    """)
    folder = str(tmp_path / "qdrant")
    subprocess.run([sys.executable, "-c", code, folder, tiny], check=True, timeout=100)

    client = QdrantClient(path=folder)
    try:
        embedder = OnnxEmbedder(tiny)
        open_collection(client, "notes", embedder)
        found = client.query_points("notes", embedder.query_vector("a cat")).points
        assert [point.payload for point in found] == [{"text": "a cat"}]
        with pytest.raises(SpecMismatchError):
            open_collection(client, "notes", OnnxEmbedder(other))
    finally:
        client.close()


def test_another_model_is_refused_and_both_are_named(
    tiny: str, other: str, client: QdrantClient
) -> None:
    open_collection(client, "notes", OnnxEmbedder(tiny))

    for accept in (None, "same-space"):
        with pytest.raises(
            SpecMismatchError, match=r"collection 'notes' .*another vector space"
        ) as raised:
            open_collection(client, "notes", OnnxEmbedder(other), accept=accept)
        assert raised.value.stored == tiny
        assert raised.value.given == other
        assert "weights" in raised.value.differences
        assert tiny in str(raised.value)
        assert other in str(raised.value)


def test_a_model_of_another_size_is_refused_and_both_are_named(
    tiny: str, client: QdrantClient
) -> None:
    open_collection(client, "notes", OnnxEmbedder(tiny))

    with pytest.raises(SpecMismatchError) as raised:
        check_collection(client, "notes", OnnxEmbedder(tiny, dim=8))
    assert raised.value.differences["dim"] == (32, 8)


def test_the_same_space_made_another_way_must_be_accepted(tiny: str, client: QdrantClient) -> None:
    open_collection(client, "notes", OnnxEmbedder(tiny))
    embedder = OnnxEmbedder(tiny, document_prompt="")

    with pytest.raises(SpecMismatchError, match="accept='same-space'") as raised:
        check_collection(client, "notes", embedder)
    assert raised.value.differences == {"document_prompt": ("text: ", "")}
    check_collection(client, "notes", embedder, accept="same-space")
    open_collection(client, "notes", embedder, accept="same-space")
    with pytest.raises(SettingError, match="accept"):
        check_collection(client, "notes", embedder, accept="anything")  # type: ignore[arg-type]


def test_a_collection_without_a_record_must_be_adopted(tiny: str, client: QdrantClient) -> None:
    embedder = OnnxEmbedder(tiny)
    client.create_collection("old", embedder.vector_params(), metadata={"owner": "me"})
    client.upsert("old", embedder.points(["a cat"]))

    for check in (open_collection, check_collection, upload_texts):
        arguments: list[Any] = [["a dog"]] if check is upload_texts else []
        with pytest.raises(SettingError, match=r"says nothing of the model.*\n.*adopt=True"):
            check(client, "old", embedder, *arguments)
    assert client.get_collection("old").config.metadata == {"owner": "me"}

    open_collection(client, "old", embedder, adopt=True)

    check_collection(client, "old", embedder)
    metadata = client.get_collection("old").config.metadata
    assert metadata is not None
    assert metadata["owner"] == "me"


def test_to_adopt_overrules_no_record(tiny: str, other: str, client: QdrantClient) -> None:
    open_collection(client, "notes", OnnxEmbedder(tiny), adopt=True)

    with pytest.raises(SpecMismatchError):
        open_collection(client, "notes", OnnxEmbedder(other), adopt=True)
    check_collection(client, "notes", OnnxEmbedder(tiny))


@pytest.mark.parametrize("adopt", [True, False])
def test_a_size_that_is_not_the_models_is_refused(
    tiny: str, client: QdrantClient, *, adopt: bool
) -> None:
    params = models.VectorParams(size=384, distance=models.Distance.COSINE)
    client.create_collection("old", params)

    with pytest.raises(SpecMismatchError, match="dim: stored 384, given 32"):
        open_collection(client, "old", OnnxEmbedder(tiny), adopt=adopt)
    assert client.get_collection("old").config.metadata is None


def test_a_record_does_not_hide_another_size(tiny: str, client: QdrantClient) -> None:
    embedder = OnnxEmbedder(tiny)
    open_collection(client, "notes", embedder)
    record = client.get_collection("notes").config.metadata
    params = models.VectorParams(size=384, distance=models.Distance.COSINE)
    client.create_collection("copied", params, metadata=record)

    with pytest.raises(SpecMismatchError, match="dim: stored 384, given 32"):
        check_collection(client, "copied", embedder)


@pytest.mark.parametrize(
    ("distance", "fits"),
    [
        (models.Distance.COSINE, True),
        (models.Distance.DOT, True),  # the same for vectors of unit length
        (models.Distance.EUCLID, False),
        (models.Distance.MANHATTAN, False),
    ],
)
def test_a_distance_that_is_not_the_models_is_refused(
    tiny: str, client: QdrantClient, distance: models.Distance, *, fits: bool
) -> None:
    embedder = OnnxEmbedder(tiny)
    assert embedder.engine.spec.normalize
    client.create_collection("old", embedder.vector_params(distance=distance))

    if fits:
        open_collection(client, "old", embedder, adopt=True)
        return
    with pytest.raises(SettingError, match=f"'old' compares with it.*{distance}|{distance}.*'old'"):
        open_collection(client, "old", embedder, adopt=True)


def test_cosine_is_no_dot_product_for_vectors_of_any_length(
    tmp_path: Path, client: QdrantClient
) -> None:
    embedder = OnnxEmbedder(write_tiny_model(tmp_path / "model", normalize=False))
    client.create_collection("old", embedder.vector_params(distance=models.Distance.DOT))

    with pytest.raises(SettingError, match="distance"):
        open_collection(client, "old", embedder, adopt=True)


def test_a_record_that_cannot_be_read_is_refused(tiny: str, client: QdrantClient) -> None:
    embedder = OnnxEmbedder(tiny)
    open_collection(client, "right", embedder)
    record = (client.get_collection("right").config.metadata or {})["onnx_embeddings"]
    stored = record | {"weights": "changed"}
    client.create_collection(
        "notes", embedder.vector_params(), metadata={"onnx_embeddings": stored}
    )

    with pytest.raises(SettingError, match="was changed"):
        check_collection(client, "notes", embedder)


# Options and named vectors


def test_create_options_are_kept(tiny: str, client: QdrantClient) -> None:
    embedder = OnnxEmbedder(tiny)

    open_collection(
        client,
        "notes",
        embedder,
        vectors_config=embedder.vector_params(on_disk=True),
        sparse_vectors_config={"words": models.SparseVectorParams()},
        metadata={"owner": "me"},
    )

    config = client.get_collection("notes").config
    assert config.params.vectors == embedder.vector_params(on_disk=True)
    assert list(config.params.sparse_vectors or {}) == ["words"]
    assert set(config.metadata or {}) == {"owner", "onnx_embeddings"}


@pytest.mark.parametrize("override", [{"size": 8}, {"distance": models.Distance.MANHATTAN}])
@pytest.mark.parametrize("vector_name", [None, "body"])
def test_a_collection_that_does_not_fit_is_not_created(
    tiny: str, client: QdrantClient, override: dict[str, Any], vector_name: str | None
) -> None:
    embedder = OnnxEmbedder(tiny)
    params = embedder.vector_params(**override)

    with pytest.raises(SettingError, match="vectors_config"):
        open_collection(client, "notes", embedder, vector_name=vector_name, vectors_config=params)
    with pytest.raises(SettingError, match="which of"):
        open_collection(client, "notes", embedder, vectors_config={"a": params})
    assert not client.collection_exists("notes")


def test_each_named_vector_has_a_model_of_its_own(
    tiny: str, other: str, client: QdrantClient
) -> None:
    body, title = OnnxEmbedder(tiny), OnnxEmbedder(other, dim=8)

    open_collection(
        client,
        "notes",
        body,
        vector_name="body",
        vectors_config={"title": title.vector_params()},
    )
    open_collection(client, "notes", title, vector_name="title", adopt=True)

    check_collection(client, "notes", body, vector_name="body")
    check_collection(client, "notes", title, vector_name="title")
    with pytest.raises(SpecMismatchError):
        check_collection(client, "notes", body, vector_name="title")
    with pytest.raises(SettingError, match=r"vector_name=None.*'notes'.*'title', 'body'"):
        check_collection(client, "notes", body)
    with pytest.raises(SettingError, match="vector_name='text'"):
        check_collection(client, "notes", body, vector_name="text")


def test_a_name_is_asked_of_a_collection_without_names(tiny: str, client: QdrantClient) -> None:
    open_collection(client, "notes", OnnxEmbedder(tiny))
    client.create_collection("words", {}, {"words": models.SparseVectorParams()})

    with pytest.raises(SettingError, match="'notes' has no such vector, but one without a name"):
        check_collection(client, "notes", OnnxEmbedder(tiny), vector_name="body")
    with pytest.raises(SettingError, match="'words' has no such vector, but none"):
        check_collection(client, "words", OnnxEmbedder(tiny))


@pytest.mark.parametrize("option", ["vector_nam", "on_disk", "collection_name"])
def test_an_option_that_the_client_does_not_have_is_refused(
    tiny: str, client: QdrantClient, option: str
) -> None:
    embedder, options = OnnxEmbedder(tiny), dict[str, Any]({option: "x"})
    open_collection(client, "there", embedder)

    for name in ("there", "new"):
        with pytest.raises(SettingError, match=f"{option}='x': no such option.*on_disk_payload"):
            open_collection(client, name, embedder, **options)
    assert not client.collection_exists("new")


def test_every_option_that_the_client_has_is_taken(tiny: str, client: QdrantClient) -> None:
    names = set(inspect.signature(client.create_collection).parameters)
    options: dict[str, Any] = dict.fromkeys(names - {"collection_name", "kwargs"})

    for _ in range(2):
        open_collection(client, "notes", OnnxEmbedder(tiny), **options)


class Own(QdrantClient):
    """A client with an option of its own, that passes all others on."""

    def create_collection(self, name: str, *, owner: str = "", **options: Any) -> bool:  # type: ignore[override]
        return super().create_collection(name, **options | {"metadata": {"owner": owner}})


class Strict(QdrantClient):
    """A client that takes what it names."""

    def create_collection(self, name: str, *, vectors_config: Any, metadata: Any) -> bool:  # type: ignore[override]
        return super().create_collection(name, vectors_config, metadata=metadata)


def test_a_client_of_ones_own_says_what_it_takes(tiny: str) -> None:
    embedder, own, strict = OnnxEmbedder(tiny), Own(":memory:"), Strict(":memory:")
    try:
        open_collection(own, "notes", embedder, owner="me", on_disk_payload=True, adopt=True)
        assert (own.get_collection("notes").config.metadata or {})["owner"] == "me"
        open_collection(strict, "notes", embedder)
        with pytest.raises(SettingError, match="on_disk_payload=True: no such option"):
            open_collection(strict, "notes", embedder, on_disk_payload=True)
    finally:
        own.close()
        strict.close()


# Something else than a client or an embedder


@pytest.mark.parametrize("embedder", [None, "org/name", 5, OnnxEmbedder])
async def test_what_is_no_embedder_is_refused(client: QdrantClient, embedder: Any) -> None:
    asynchronous = AsyncQdrantClient(":memory:")
    message = r"^embedder=(?s:.*)OnnxEmbedder\(…\)"
    try:
        for check in (open_collection, check_collection):
            with pytest.raises(SettingError, match=message):
                check(client, "notes", embedder)
        with pytest.raises(SettingError, match=message):
            upload_texts(client, "notes", embedder, ["a cat"])
        for acheck in (aopen_collection, acheck_collection):
            with pytest.raises(SettingError, match=message):
                await acheck(asynchronous, "notes", embedder)
    finally:
        await asynchronous.close()


async def test_the_other_client_is_refused_by_name(tiny: str, client: QdrantClient) -> None:
    embedder = OnnxEmbedder(tiny)
    asynchronous, given = AsyncQdrantClient(":memory:"), cast("AsyncQdrantClient", client)
    wrong: Any
    try:
        for wrong in (asynchronous, None, "notes"):
            for check in (open_collection, check_collection):
                with pytest.raises(SettingError, match=r"(?s)of QdrantClient.*aopen_collection"):
                    check(wrong, "notes", embedder)
            with pytest.raises(SettingError, match=r"(?s)of QdrantClient.*apoints"):
                upload_texts(wrong, "notes", embedder, ["a cat"])
        for acheck in (aopen_collection, acheck_collection):
            with pytest.raises(SettingError, match=r"(?s)of AsyncQdrantClient.* open_collection"):
                await acheck(given, "notes", embedder)
    finally:
        await asynchronous.close()
    assert embedder._engine is None


# Others at the same time


class Slow(QdrantClient):
    """Between its look and its act, somebody else makes the collection."""

    made_by: OnnxEmbedder | None = None

    def create_collection(self, collection_name: str, **options: Any) -> bool:  # type: ignore[override]
        if self.made_by is not None:
            made_by, self.made_by = self.made_by, None
            open_collection(self, collection_name, made_by)
        return super().create_collection(collection_name, **options)


def test_a_collection_made_meanwhile_is_opened_and_checked(tiny: str, other: str) -> None:
    client = Slow(":memory:")
    try:
        client.made_by = OnnxEmbedder(tiny)
        open_collection(client, "notes", OnnxEmbedder(tiny))
        client.made_by = OnnxEmbedder(tiny)
        with pytest.raises(SpecMismatchError):
            open_collection(client, "more", OnnxEmbedder(other))
        with pytest.raises(AssertionError, match="no_such_option"):  # the client's own error
            open_collection(client, "wrong", OnnxEmbedder(tiny), no_such_option=1)
    finally:
        client.close()


def test_the_record_is_plain_json(tiny: str) -> None:
    # Local clients before 1.20 keep an object as it is, and a record of others can't be read.
    record = guard.creation(OnnxEmbedder(tiny), None, {})["metadata"]["onnx_embeddings"]

    assert {type(value) for value in record.values()} == {str, int, bool}


def test_grpc_keeps_the_record(tiny: str) -> None:
    stored = OnnxEmbedder(tiny).engine.spec.to_dict()

    metadata = RestToGrpc.convert_payload({"onnx_embeddings": stored})
    sent = grpc.CollectionConfig(metadata=metadata).SerializeToString()

    received = grpc.CollectionConfig.FromString(sent).metadata
    assert GrpcToRest.convert_payload(received) == {"onnx_embeddings": stored}


# Async


class Held(OnnxEmbedder):
    """Its engine can be had once it is let go."""

    def __init__(self, model: str) -> None:
        super().__init__(model)
        self.let_go = threading.Event()

    @property
    def engine(self) -> Engine:
        assert self.let_go.wait(20), "the event loop stood still"
        return super().engine


async def test_the_asynchronous_client_has_the_same_guard(tiny: str, other: str) -> None:
    client = AsyncQdrantClient(":memory:")
    try:
        embedder = Held(tiny)
        opening = asyncio.create_task(aopen_collection(client, "notes", embedder))
        for _ in range(20):  # a heart that beats only on a free loop
            await asyncio.sleep(0)
        embedder.let_go.set()
        await opening
        await aopen_collection(client, "notes", embedder)
        await client.upsert("notes", await embedder.apoints(["a cat"]))
        await acheck_collection(client, "notes", embedder)
        query = await embedder.aquery_vector("a cat")
        assert len((await client.query_points("notes", query)).points) == 1

        for adopt in (True, False):
            with pytest.raises(SpecMismatchError):
                await aopen_collection(client, "notes", OnnxEmbedder(other), adopt=adopt)
        await client.create_collection("old", embedder.vector_params())
        with pytest.raises(SettingError, match="adopt=True"):
            await acheck_collection(client, "old", embedder)
        await aopen_collection(client, "old", embedder, adopt=True)
        await acheck_collection(client, "old", embedder)
        for name in ("wrong", "notes"):
            with pytest.raises(SettingError, match="no_such_option=1: no such option"):
                await aopen_collection(client, name, embedder, no_such_option=1)
    finally:
        await client.close()


async def test_an_asynchronous_check_loads_the_model_in_a_thread(tiny: str) -> None:
    client = AsyncQdrantClient(":memory:")
    try:
        await aopen_collection(client, "notes", OnnxEmbedder(tiny))
        embedder = Held(tiny)
        checking = asyncio.create_task(acheck_collection(client, "notes", embedder))
        for _ in range(20):
            await asyncio.sleep(0)
        embedder.let_go.set()
        await checking
    finally:
        await client.close()
