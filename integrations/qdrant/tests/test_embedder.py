"""Texts to points and query vectors, on the tiny model: exactly the engine's vectors."""

from __future__ import annotations

import asyncio
import copy
import gc
import inspect
import itertools
import os
import pickle
import subprocess
import sys
import textwrap
import threading
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

import numpy as np
import pytest
from qdrant_client import models

import onnx_embeddings
from onnx_embeddings import EngineConfig, ModelRequest
from onnx_embeddings.errors import ClosedError, InputError, ModelNotFoundError, SettingError
from onnx_embeddings.shared import loaded_models
from onnx_embeddings.testing import check_adapter, check_import, write_tiny_model
from qdrant_onnx_embeddings import OnnxEmbedder, point_id

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from qdrant_client import QdrantClient

    from onnx_embeddings import Engine

pytestmark = pytest.mark.usefixtures("no_sockets")

TEXTS = ["a cat sits", "the blue bird flies", "", "a cat sits"]


def vectors(embedder: OnnxEmbedder, texts: list[str]) -> list[Any]:
    return [point.vector for point in embedder.points(texts)]


async def avectors(embedder: OnnxEmbedder, texts: list[str]) -> list[Any]:
    return [point.vector for point in await embedder.apoints(texts)]


def in_a_fresh_process(code: str, *arguments: str) -> str:
    command = [sys.executable, "-W", "error", "-c", textwrap.dedent(code), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


# To make one


def test_the_adapter_keeps_the_contract() -> None:
    check_adapter(
        OnnxEmbedder,
        documents=vectors,
        query=OnnxEmbedder.query_vector,
        adocuments=avectors,
        aquery=OnnxEmbedder.aquery_vector,
    )


def test_importing_and_constructing_load_nothing_of_the_engine() -> None:
    check_import(
        "qdrant_onnx_embeddings",
        "qdrant_onnx_embeddings.OnnxEmbedder(engine_options={'lanes': 1})",
        framework="qdrant_client",
    )


def test_constructing_touches_neither_disk_nor_network() -> None:
    in_a_fresh_process("""
        import sys
        from qdrant_onnx_embeddings import OnnxEmbedder
        OnnxEmbedder()
        def refuse(event, arguments):
            if event.startswith(("open", "os.", "socket.")):
                sys.stderr.write(f"{event} {arguments}")
                raise SystemExit(1)
        sys.addaudithook(refuse)
        OnnxEmbedder(model="/not/there", dim=3, engine_options={"home": "/not/there/either"})
        OnnxEmbedder(model="org/name")
    """)


def test_the_settings_are_those_of_a_model_request() -> None:
    ours = inspect.signature(OnnxEmbedder).parameters
    for field in fields(ModelRequest):
        assert ours[field.name].default == field.default, field.name
    others = set(ours) - {field.name for field in fields(ModelRequest)}
    assert others == {"show_progress", "engine_options"}


def test_the_request_is_what_was_asked_for(tiny: str) -> None:
    embedder = OnnxEmbedder("org/name", revision="main", dim=8, query_prompt="q: ")

    assert embedder.request == ModelRequest(
        model="org/name", revision="main", dim=8, query_prompt="q: "
    )
    assert "org/name" in repr(embedder)
    assert OnnxEmbedder(Path(tiny)).request.folder == Path(tiny)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"model": "two words"}, "neither a name"),
        ({"model": None}, "must be a name"),
        ({"dim": 0}, "dim=0: must be a whole number"),
        ({"long_text": "cut"}, "must be one of truncate, error"),
        ({"precision": "fp31"}, "must be one of"),
        ({"variant": "../model.onnx"}, "inside the model's folder"),
        ({"engine_options": {"lane": 2}}, "lane=2: no such option.*lanes"),
        ({"engine_options": {"lanes": 0}}, "lanes=0: must be a whole number"),
    ],
)
def test_a_bad_setting_fails_at_construction(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        OnnxEmbedder(**settings)


def test_engine_options_reach_the_engine(tiny: str) -> None:
    embedder = OnnxEmbedder(tiny, engine_options={"lanes": 1, "batch_tokens": 64})

    assert embedder.engine.config.lanes == 1
    assert embedder.engine.config.batch_tokens == 64
    defaults = {field.name: field.default for field in fields(EngineConfig)}
    assert OnnxEmbedder(engine_options=defaults)._config == EngineConfig()


@pytest.mark.parametrize("field", [field.name for field in fields(ModelRequest)])
def test_a_setting_can_be_read_and_not_set(tiny: str, field: str) -> None:
    embedder = OnnxEmbedder(tiny, dim=8, max_tokens=16, query_prompt="q: ")

    copies = [pickle.loads(pickle.dumps(embedder)), copy.copy(embedder), copy.deepcopy(embedder)]
    for one in [embedder, *copies]:
        assert getattr(one, field) == getattr(embedder.request, field)
        with pytest.raises(AttributeError):
            setattr(one, field, getattr(embedder.request, field))


def test_an_engine_that_was_closed_is_made_anew(tiny: str) -> None:
    embedder = OnnxEmbedder(tiny)
    before = embedder.query_vector("a cat")
    embedder.engine.close()

    assert embedder.query_vector("a cat") == before
    assert vectors(embedder, ["a cat"]) == vectors(OnnxEmbedder(tiny), ["a cat"])


# An engine of the user's own


def test_a_given_engine_is_used_by_all_and_no_other_is_made(tmp_path: Path) -> None:
    folder = write_tiny_model(tmp_path / "own", seed=21)
    gc.collect()
    before = loaded_models()
    with onnx_embeddings.load(folder, dim=8, config=EngineConfig(lanes=1)) as engine:
        embedders = [OnnxEmbedder.from_engine(engine) for _ in range(3)]
        for embedder in embedders:
            assert len(embedder.query_vector("a cat")) == 8
            assert embedder.engine is engine
            assert embedder.request == engine.request

        assert engine.stats().texts == 3
        assert loaded_models() == before + 1
        copied = pickle.loads(pickle.dumps(embedders[0]))
        assert copied.engine.config.lanes == 1
    for embedder in [*embedders, copy.copy(embedders[0])]:  # its owner closed it
        with pytest.raises(ClosedError):
            embedder.query_vector("a cat")
    assert len(copied.query_vector("a cat")) == 8


def test_something_else_than_an_engine_is_refused(tiny: str) -> None:
    with pytest.raises(SettingError, match="must be an Engine"):
        OnnxEmbedder.from_engine(tiny)  # type: ignore[arg-type]


# Points


def test_vectors_are_the_engines_as_flat_lists_of_python_floats(tiny: str) -> None:
    embedder = OnnxEmbedder(tiny)
    with onnx_embeddings.load(tiny) as engine:
        documents = engine.embed_documents(TEXTS).tolist()
        query = engine.embed_queries(["a cat"])[0].tolist()

    assert vectors(embedder, TEXTS) == documents
    assert vectors(embedder, TEXTS[:1]) == documents[:1]
    assert embedder.query_vector("a cat") == query
    flat = [*vectors(embedder, TEXTS), embedder.query_vector("a cat")]
    assert {type(number) for vector in flat for number in vector} == {float}


def test_points_go_in_and_are_found(tiny: str, client: QdrantClient) -> None:
    embedder = OnnxEmbedder(tiny, query_prompt="", document_prompt="")
    client.create_collection("notes", embedder.vector_params())

    client.upsert("notes", embedder.points(TEXTS))

    assert client.count("notes").count == 3  # equal texts are one point
    query = embedder.query_vector("the blue bird flies")
    (found,) = client.query_points("notes", query, limit=1).points
    assert found.payload == {"text": "the blue bird flies"}
    assert found.id == point_id("the blue bird flies")
    assert found.score == pytest.approx(1, abs=1e-6)


def test_a_named_vector_is_filled(tiny: str, client: QdrantClient) -> None:
    embedder = OnnxEmbedder(tiny, query_prompt="", document_prompt="")
    client.create_collection("notes", {"body": embedder.vector_params(on_disk=True)})

    client.upsert("notes", embedder.points(TEXTS, vector_name="body"))

    query = embedder.query_vector("a cat sits")
    (found,) = client.query_points("notes", query, using="body", limit=1).points
    assert found.payload == {"text": "a cat sits"}


def test_queries_and_documents_get_their_own_prompts(tiny: str) -> None:
    own = OnnxEmbedder(tiny)
    none = OnnxEmbedder(tiny, query_prompt="", document_prompt="")

    assert own.query_vector("a cat") == none.query_vector("question: a cat")
    assert vectors(own, ["a cat"]) == vectors(none, ["text: a cat"])
    assert own.query_vector("a cat") != vectors(own, ["a cat"])[0]


def test_no_texts_give_no_points(tiny: str) -> None:
    assert OnnxEmbedder(tiny).points([]) == []


def test_the_id_of_a_text_never_changes(tiny: str) -> None:
    first, second, _, again = OnnxEmbedder(tiny).points(TEXTS)

    # As stored by the first version: with another one, uploads would double every point.
    assert first.id == "886d3c23-c0c3-5051-b383-7f81e513a491"
    assert again.id == first.id == point_id("a cat sits")
    assert second.id != first.id
    assert UUID(str(first.id)).version == 5


def test_ids_may_be_numbers_or_uuids(tiny: str) -> None:
    given: list[Any] = [3, np.int64(4), UUID(int=5), "00000000000000000000000000000006"]

    points = OnnxEmbedder(tiny).points(TEXTS, ids=given)

    assert [point.id for point in points] == [3, 4, str(UUID(int=5)), str(UUID(int=6))]
    assert {type(point.id) for point in points} == {int, str}


def test_ids_may_come_without_end(tiny: str) -> None:
    points = OnnxEmbedder(tiny).points(iter(TEXTS), ids=itertools.count(7))

    assert [point.id for point in points] == [7, 8, 9, 10]


@pytest.mark.parametrize("bad", ["chapter 3", -1, True, None, 1.5])
def test_a_bad_id_is_named_by_its_place(tiny: str, bad: Any) -> None:
    with pytest.raises(InputError, match=r"index 1.*whole numbers and UUIDs") as raised:
        OnnxEmbedder(tiny).points(["a", "b"], ids=[1, bad])
    assert raised.value.index == 1
    assert "point_id" in str(raised.value.hint)


def test_payloads_are_copied_and_hold_the_text(tiny: str) -> None:
    embedder = OnnxEmbedder(tiny)
    given = [{"year": 1999}, None, {"text": ""}, {"tags": ["x"]}]

    ids = range(4)
    points = embedder.points(TEXTS, ids=ids, payloads=given)
    bare = embedder.points(TEXTS, ids=ids, payloads=given, text_key=None)
    other = embedder.points(["a"], payloads=[{"text": "b"}], text_key="body")

    assert points[0].payload == {"year": 1999, "text": "a cat sits"}
    assert points[1].payload == {"text": "the blue bird flies"}
    assert points[2].payload == {"text": ""}
    assert given == [{"year": 1999}, None, {"text": ""}, {"tags": ["x"]}]
    assert [point.payload for point in bare] == [{"year": 1999}, {}, {"text": ""}, {"tags": ["x"]}]
    assert other[0].payload == {"text": "b", "body": "a"}


@pytest.mark.parametrize(
    ("payload", "message"),
    [({"text": "another"}, "index 1.*another 'text'"), ("a cat", "index 1.*str, not a dict")],
)
def test_a_bad_payload_is_named_by_its_place(tiny: str, payload: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        OnnxEmbedder(tiny).points(["a", "b"], payloads=[None, payload])


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"payloads": [{"f": 1, "g": 0}, {}, {"f": 2, "g": 0}]}, r"{'f': 2}, there {'f': 1}"),
        ({"payloads": [{}, {}, {"f": 2}]}, r"{'f': 2}, there {}"),
        ({"ids": [1, 2, 1], "payloads": [{"f": 1}, {}, {"f": 2}]}, r"{'f': 2}, there {'f': 1}"),
        ({"ids": ["0" * 31 + "5", 2, UUID(int=5)], "payloads": [{}, {}, {"f": 2}]}, "there {}"),
    ],
)
def test_equal_ids_with_different_payloads_are_refused_and_both_are_named(
    tiny: str, columns: dict[str, Any], message: str
) -> None:
    embedder = OnnxEmbedder(tiny)

    with pytest.raises(InputError, match=f"index 2: .* id of index 0, .*{message}") as raised:
        embedder.points(["x", "y", "x"], **columns)

    assert raised.value.index == 2
    assert 'point_id(f"{file}#{number}")' in str(raised.value.hint)
    assert embedder._engine is None


def test_equal_ids_with_different_texts_are_refused(tiny: str) -> None:
    with pytest.raises(InputError, match=r"index 1: .* id of index 0, 7, .*'y', there 'x'"):
        OnnxEmbedder(tiny).points(["x", "y"], ids=[7, 7], text_key=None)


def test_equal_ids_with_equal_payloads_are_as_many_points(tiny: str) -> None:
    embedder = OnnxEmbedder(tiny)
    payloads = [{"f": [1, float("nan")]} for _ in range(3)]  # NaN is not equal to itself

    points = embedder.points(["x", "x", "x"], payloads=payloads)
    assert len(points) == 3
    assert len({point.id for point in points}) == 1


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"ids": [1]}, "2 texts, but 1 ids"),
        ({"ids": [1, 2, 3]}, "2 texts, but 3 ids"),
        ({"ids": iter([1])}, "index 1: there is no id"),
        ({"payloads": [{}]}, "2 texts, but 1 payloads"),
        ({"payloads": iter([{}])}, "index 1: there is no payload"),
        ({"payloads": {"year": 1}}, "payloads: dict where one for each"),
        ({"ids": "12"}, "ids: str where one for each"),
    ],
)
def test_there_is_one_of_each_for_each_text(
    tiny: str, columns: dict[str, Any], message: str
) -> None:
    embedder = OnnxEmbedder(tiny)
    with pytest.raises(InputError, match=message):
        embedder.points(["a", "b"], **columns)
    assert embedder._engine is None


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (None, "index 1: None"),
        (float("nan"), "index 1: nan"),
        (b"bytes", "decode"),
        (["a cat"], "flat list of strings"),
        ("\ud800", "lone surrogate"),
    ],
)
def test_a_bad_text_is_named_by_its_place(tiny: str, bad: Any, message: str) -> None:
    with pytest.raises(InputError, match=message) as raised:
        OnnxEmbedder(tiny).points(["a cat", bad])
    assert raised.value.index == 1


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ("a cat", "put it in a list"),
        (None, "NoneType where a list"),
        (b"a cat", "bytes where a list"),
        ({"a": 1}, "dict where a list"),
        (np.array([["a"]]), "ndarray where a list"),
    ],
)
def test_what_is_no_list_of_texts_is_refused(tiny: str, bad: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        OnnxEmbedder(tiny).points(bad)


def test_a_missing_model_is_an_error_at_first_use_each_time(tmp_path: Path) -> None:
    embedder = OnnxEmbedder(tmp_path / "nothing")

    for _ in range(2):
        with pytest.raises(ModelNotFoundError, match="nothing"):
            embedder.query_vector("a cat")


@pytest.mark.parametrize("shown", [True, False])
def test_progress_is_shown_for_points_if_asked(
    tiny: str, capsys: pytest.CaptureFixture[str], *, shown: bool
) -> None:
    embedder = OnnxEmbedder(tiny, show_progress=shown)

    embedder.query_vector("a cat")
    assert capsys.readouterr() == ("", "")
    embedder.points(TEXTS)
    out, err = capsys.readouterr()
    assert out == ""
    assert ("4/4" in err) is shown


@pytest.mark.parametrize(
    ("similarity", "distance"),
    [
        ("cosine", models.Distance.COSINE),
        ("dot", models.Distance.DOT),
        ("euclidean", models.Distance.EUCLID),
        ("manhattan", models.Distance.MANHATTAN),
    ],
)
def test_size_and_distance_are_the_models(
    tmp_path: Path, similarity: str, distance: models.Distance
) -> None:
    folder = tmp_path / similarity
    write_tiny_model(folder)
    settings = folder / "config_sentence_transformers.json"
    settings.write_text(f'{{"similarity_fn_name": "{similarity}"}}', encoding="utf-8")

    params = OnnxEmbedder(folder, dim=8).vector_params(on_disk=True)

    assert params == models.VectorParams(size=8, distance=distance, on_disk=True)


# Async, copies, processes


class Held(OnnxEmbedder):
    """Its engine can be had once it is let go."""

    @property
    def engine(self) -> Engine:
        assert let_go.wait(20), "the event loop stood still"
        return super().engine


let_go = threading.Event()


@pytest.fixture
def _held() -> Iterator[None]:
    let_go.clear()
    yield
    let_go.set()


@pytest.mark.usefixtures("_held")
async def test_the_event_loop_goes_on_while_the_engine_works(tiny: str) -> None:
    embedder = Held(tiny)
    work = asyncio.gather(embedder.apoints(TEXTS), embedder.aquery_vector("a cat"))

    for _ in range(20):  # a heart that beats only on a free loop
        await asyncio.sleep(0)
    let_go.set()

    points, query = await work
    assert points == embedder.points(TEXTS)
    assert query == embedder.query_vector("a cat")


async def test_apoints_takes_what_points_takes(tiny: str) -> None:
    assert inspect.signature(OnnxEmbedder.apoints) == inspect.signature(OnnxEmbedder.points)
    embedder = OnnxEmbedder(tiny)
    options: dict[str, Any] = {"ids": [1], "payloads": [{"a": 1}], "vector_name": "body"}

    assert await embedder.apoints(["a"], **options) == embedder.points(["a"], **options)
    with pytest.raises(InputError, match="index 0"):
        await embedder.apoints([None])  # type: ignore[list-item]


@pytest.mark.parametrize("used", [True, False])
@pytest.mark.parametrize(
    "copied",
    [lambda it: pickle.loads(pickle.dumps(it)), copy.copy, copy.deepcopy],
    ids=["pickle", "copy", "deepcopy"],
)
def test_a_copy_gives_the_same_vectors(
    tiny: str, copied: Callable[[OnnxEmbedder], OnnxEmbedder], *, used: bool
) -> None:
    embedder = OnnxEmbedder(tiny, dim=16, query_prompt="q: ", show_progress=True)
    if used:
        embedder.query_vector("a cat")

    other = copied(embedder)

    assert other.request == embedder.request
    assert other.show_progress
    assert other.query_vector("a cat") == embedder.query_vector("a cat")


def test_objects_of_one_model_share_it_and_the_last_one_frees_it(tmp_path: Path) -> None:
    folder = str(write_tiny_model(tmp_path / "own", seed=22))
    gc.collect()
    before = loaded_models()
    objects = [OnnxEmbedder(folder, dim=dim) for dim in (None, 8, 4)]
    for embedder in objects:
        embedder.query_vector("a cat")

    assert loaded_models() == before + 1
    del objects, embedder
    gc.collect()
    assert loaded_models() == before


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_process_embeds_too(tiny: str) -> None:
    # In a process of its own: a fork of this one would copy the threads' locks of other tests.
    in_a_fresh_process(
        """
        import os, sys, warnings
        from qdrant_onnx_embeddings import OnnxEmbedder
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 on fork and threads
        embedder = OnnxEmbedder(sys.argv[1])
        before = embedder.points(["a cat"])
        child = os.fork()
        if not child:
            os._exit(0 if embedder.points(["a cat"]) == before else 1)
        _, status = os.waitpid(child, 0)
        sys.exit(os.waitstatus_to_exitcode(status))
        """,
        tiny,
    )
