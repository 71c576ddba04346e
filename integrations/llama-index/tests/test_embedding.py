"""The adapter on the tiny model: LlamaIndex's interface in, exactly the engine's vectors out."""

from __future__ import annotations

import asyncio
import copy
import gc
import json
import os
import pickle
import subprocess
import sys
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from pathlib import Path
from threading import Barrier
from typing import TYPE_CHECKING, Any

import pytest
from llama_index.core import Settings
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.callbacks import CallbackManager
from llama_index.core.embeddings.utils import resolve_embed_model
from llama_index.core.schema import MetadataMode, TextNode
from llama_index.core.storage.kvstore import SimpleKVStore
from pydantic import BaseModel, ValidationError

import onnx_embeddings
from llama_index.embeddings.onnx import OnnxEmbedding
from onnx_embeddings import Engine, EngineConfig, ModelRequest
from onnx_embeddings.errors import InputError, ModelNotFoundError, SettingError
from onnx_embeddings.shared import loaded_models
from onnx_embeddings.testing import check_adapter, check_import, write_tiny_model

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.usefixtures("no_sockets")

TEXTS = ["a cat sits", "the blue bird flies", "", " ", "a cat sits"]

# What LlamaIndex's own class has, and what this one adds to a request.
LLAMA_INDEX_FIELDS = {"callback_manager", "num_workers", "rate_limiter"}
OTHER_FIELDS = LLAMA_INDEX_FIELDS | {
    "model_name",
    "engine_options",
    "embed_batch_size",
    "embeddings_cache",
}


def in_a_fresh_process(code: str, *arguments: str) -> str:
    command = [sys.executable, "-W", "error", "-c", textwrap.dedent(code), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_contract_of_all_adapters() -> None:
    check_adapter(
        OnnxEmbedding,
        documents=OnnxEmbedding.get_text_embedding_batch,
        query=OnnxEmbedding.get_query_embedding,
        adocuments=OnnxEmbedding.aget_text_embedding_batch,
        aquery=OnnxEmbedding.aget_query_embedding,
    )


# To make one


def test_importing_and_constructing_are_free() -> None:
    check_import(
        "llama_index.embeddings.onnx",
        'llama_index.embeddings.onnx.OnnxEmbedding(engine_options={"lanes": 1})',
        framework="llama_index.core",
    )


def test_constructing_touches_neither_disk_nor_network() -> None:
    in_a_fresh_process("""
        import sys
        from llama_index.embeddings.onnx import OnnxEmbedding
        OnnxEmbedding()
        def refuse(event, arguments):
            if event.startswith(("open", "os.", "socket.")):
                sys.stderr.write(f"{event} {arguments}")
                raise SystemExit(1)
        sys.addaudithook(refuse)
        OnnxEmbedding(model="/not/there", dim=3, engine_options={"home": "/not/there/either"})
        OnnxEmbedding(model="org/name").model_copy(update={"dim": 8}).to_dict()
    """)


def test_the_fields_are_those_of_a_model_request() -> None:
    ours = OnnxEmbedding.model_fields
    for field in fields(ModelRequest):
        name = "model_name" if field.name == "model" else field.name
        assert ours[name].default == field.default, name
        assert ours[name].frozen, name
        assert not ours[name].exclude, name
    others = set(ours) - {field.name for field in fields(ModelRequest)}
    assert others <= OTHER_FIELDS  # the first versions supported have no rate limiter


def test_a_model_may_be_given_under_both_names() -> None:
    by_name = OnnxEmbedding.model_validate({"model_name": "org/name"})
    assert OnnxEmbedding(model="org/name").request == by_name.request


def test_a_model_may_be_read_under_both_names() -> None:
    embed_model = OnnxEmbedding(model="org/name")

    assert embed_model.model == embed_model.model_name == "org/name"
    assert "model" not in embed_model.to_dict()
    with pytest.raises(AttributeError, match="no setter"):
        embed_model.model = "org/other"  # type: ignore[misc]


def test_every_setting_that_is_ours_has_a_description() -> None:
    for name in {field.name for field in fields(ModelRequest)} | OTHER_FIELDS - LLAMA_INDEX_FIELDS:
        if name != "model":
            assert OnnxEmbedding.model_fields[name].description, name


def test_the_request_is_what_was_asked_for() -> None:
    embed_model = OnnxEmbedding(model="org/name", revision="main", dim=8, query_prompt="q: ")

    request = ModelRequest(model="org/name", revision="main", dim=8, query_prompt="q: ")
    assert embed_model.request == request


def test_a_path_is_a_folder(tiny: str) -> None:
    for path in (Path(tiny), Path("models/tiny")):
        embed_model = OnnxEmbedding(model=path)  # type: ignore[arg-type]  # kept as a text
        assert embed_model.request.folder == path
        assert type(embed_model.model_name) is str


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"modle": "org/name"}, "modle"),
        ({"max_length": 128}, "max_length"),
        ({"class_name": "OtherEmbedding"}, "class_name"),
        ({"model": "two words"}, "neither a name"),
        ({"model": None}, "must be a name"),
        ({"dim": 0}, "dim=0: must be a whole number"),
        ({"dim": "8"}, "valid integer"),
        ({"long_text": "cut"}, "'truncate' or 'error'"),
        ({"precision": "fp31"}, "must be one of"),
        ({"variant": "../model.onnx"}, "inside the model's folder"),
        ({"model": "./folder", "revision": "main"}, "no revisions"),
        ({"engine_options": []}, "valid dictionary"),
        ({"engine_options": {"lane": 2}}, "lane=2: no such option.*lanes"),
        ({"engine_options": {"lanes": 0}}, "lanes=0: must be a whole number"),
        ({"embed_batch_size": 4096}, "less than or equal to 2048"),
        ({"embed_batch_size": 0}, "greater than 0"),
    ],
)
def test_a_bad_setting_fails_at_construction(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        OnnxEmbedding(**settings)


def test_a_cache_by_text_alone_is_refused_and_a_reason_given() -> None:
    store = SimpleKVStore()
    for settings in ({"embeddings_cache": store}, {"embeddings_cache": "no store at all"}):
        with pytest.raises(ValidationError, match=r"embeddings_cache=.*texts alone") as bad:
            OnnxEmbedding(**settings)
        assert "the engine has a cache of its own, by model, prompt and text" in str(bad.value)
        (detail,) = bad.value.errors()
        assert isinstance(detail["ctx"]["error"], SettingError)
    embed_model = OnnxEmbedding(embeddings_cache=None)
    with pytest.raises(ValidationError, match="frozen"):
        embed_model.embeddings_cache = store
    with pytest.raises(ValidationError, match="texts alone"):
        embed_model.model_copy(update={"embeddings_cache": store})


@pytest.mark.parametrize("name", [field.name for field in fields(ModelRequest)])
def test_what_changes_a_vector_can_not_be_assigned(name: str) -> None:
    embed_model = OnnxEmbedding()
    attribute = "model_name" if name == "model" else name

    with pytest.raises(ValidationError, match="frozen"):
        setattr(embed_model, attribute, getattr(embed_model, attribute))


def test_llama_index_may_assign_what_is_its_own(tiny: str) -> None:
    embed_model = OnnxEmbedding(model=tiny)
    manager = CallbackManager([])

    assert resolve_embed_model(embed_model, callback_manager=manager) is embed_model
    assert embed_model.callback_manager is manager
    embed_model.num_workers = 2
    embed_model.embed_batch_size = 3
    assert len(embed_model.get_text_embedding_batch(TEXTS)) == len(TEXTS)


def test_it_is_the_embed_model_of_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Settings, "_embed_model", None)
    embed_model = OnnxEmbedding()

    Settings.embed_model = embed_model

    assert isinstance(embed_model, BaseEmbedding)
    assert Settings.embed_model is embed_model


def test_a_copy_with_an_update_is_checked_and_has_an_engine_of_its_own(tiny: str) -> None:
    manager = CallbackManager([])
    embed_model = OnnxEmbedding(
        model=tiny, callback_manager=manager, embed_batch_size=7, engine_options={"lanes": 1}
    )
    whole = embed_model.get_query_embedding("a cat")

    with pytest.raises(ValidationError, match="dim=0"):
        embed_model.model_copy(update={"dim": 0})
    with pytest.raises(ValidationError, match="dims"):
        embed_model.model_copy(update={"dims": 4})
    changed = embed_model.model_copy(update={"dim": 4})

    assert len(changed.get_query_embedding("a cat")) == 4
    assert changed.callback_manager is manager
    assert changed.embed_batch_size == 7
    assert changed.engine.config.lanes == 1
    assert embed_model.model_copy(update={"model": "org/name"}).model_name == "org/name"
    assert embed_model.get_query_embedding("a cat") == whole


def test_engine_options_reach_the_engine_and_no_dump(tiny: str) -> None:
    embed_model = OnnxEmbedding(model=tiny, engine_options={"lanes": 1, "batch_tokens": 64})

    assert embed_model.engine.config.lanes == 1
    assert embed_model.engine.config.batch_tokens == 64
    assert "engine_options" not in embed_model.to_dict()
    assert "lanes" not in embed_model.to_json()


def test_none_are_no_engine_options() -> None:
    embed_model = OnnxEmbedding(engine_options=None)  # type: ignore[arg-type]

    assert embed_model.engine_options == {}
    assert embed_model._config == EngineConfig()
    assert embed_model.model_copy(update={"engine_options": None}).engine_options == {}


def test_every_field_of_the_engine_config_is_an_engine_option() -> None:
    defaults = {field.name: field.default for field in fields(EngineConfig)}

    assert OnnxEmbedding(engine_options=defaults)._config == EngineConfig()


# Vectors


async def every_way(embed_model: OnnxEmbedding) -> dict[str, list[list[float]]]:
    """The vectors of `TEXTS`, by every method that gives some."""
    nodes = [TextNode(text=text) for text in TEXTS]
    anodes = [TextNode(text=text) for text in TEXTS]
    await embed_model.acall(anodes)
    return {
        "text": [embed_model.get_text_embedding(text) for text in TEXTS],
        "atext": [await embed_model.aget_text_embedding(text) for text in TEXTS],
        "batch": embed_model.get_text_embedding_batch(TEXTS),
        "abatch": await embed_model.aget_text_embedding_batch(TEXTS),
        "call": [node.embedding or [] for node in embed_model(nodes)],
        "acall": [node.embedding or [] for node in anodes],
        "query": [embed_model.get_query_embedding(text) for text in TEXTS],
        "aquery": [await embed_model.aget_query_embedding(text) for text in TEXTS],
    }


@pytest.mark.parametrize("settings", [{}, {"dim": 16}, {"engine_options": {"cache": None}}])
async def test_every_method_gives_the_engines_vectors_as_python_floats(
    tiny: str, settings: dict[str, Any]
) -> None:
    embed_model = OnnxEmbedding(model=tiny, **settings)
    with onnx_embeddings.load(tiny, dim=settings.get("dim")) as engine:
        documents = engine.embed_documents(TEXTS).tolist()
        queries = engine.embed_queries(TEXTS).tolist()

    for _ in range(2):  # the second time, the cache has them
        for way, vectors in (await every_way(embed_model)).items():
            assert vectors == (queries if "query" in way else documents), way
            assert {type(vector) for vector in vectors} == {list}
            assert {type(number) for vector in vectors for number in vector} == {float}
            assert json.loads(json.dumps(vectors)) == vectors


def test_queries_and_texts_get_their_own_prompts(tiny: str) -> None:
    own = OnnxEmbedding(model=tiny)
    none = OnnxEmbedding(model=tiny, query_prompt="", document_prompt="")

    assert own.get_query_embedding("a cat") == none.get_query_embedding("question: a cat")
    assert own.get_text_embedding("a cat") == none.get_text_embedding("text: a cat")
    assert own.get_query_embedding("a cat") != own.get_text_embedding("a cat")
    assert none.get_query_embedding("a cat") == none.get_text_embedding("a cat")


def test_in_the_engines_cache_queries_texts_and_models_do_not_meet(
    tiny: str, tmp_path: Path
) -> None:
    options = {"cache": str(tmp_path / "vectors")}
    prompts = {"query": "question: ", "document": "text: "}
    other = str(write_tiny_model(tmp_path / "other", prompts=prompts, seed=14))
    settings: list[dict[str, Any]] = [{"model": tiny}, {"model": tiny, "dim": 16}, {"model": other}]
    for each in settings:
        bare = OnnxEmbedding(**each, engine_options={"cache": None})
        for known in (0, 2):
            cached = OnnxEmbedding(**each, engine_options=options)
            assert cached.get_text_embedding("a cat") == bare.get_text_embedding("a cat")
            assert cached.get_query_embedding("a cat") == bare.get_query_embedding("a cat")
            assert cached.engine.stats().cached_texts == known


@pytest.mark.parametrize("embed_batch_size", [1, 2, 1024])
@pytest.mark.parametrize("show_progress", [True, False])
async def test_blank_texts_have_vectors_and_places_like_all_others(
    tiny: str, embed_batch_size: int, capsys: pytest.CaptureFixture[str], *, show_progress: bool
) -> None:
    embed_model = OnnxEmbedding(model=tiny, embed_batch_size=embed_batch_size)
    expected = [embed_model.get_text_embedding(text) for text in ("a", "", " ", "b")]

    found = embed_model.get_text_embedding_batch(["a", "", " ", "b"], show_progress=show_progress)
    assert found == expected
    assert ("4/4" in capsys.readouterr().err) is show_progress
    afound = await embed_model.aget_text_embedding_batch(
        ["a", "", " ", "b"], show_progress=show_progress
    )
    assert afound == expected
    assert bool(capsys.readouterr().err) is show_progress


def test_nodes_are_embedded_with_their_metadata_as_llama_index_does(tiny: str) -> None:
    embed_model = OnnxEmbedding(model=tiny)
    node = TextNode(text="a cat sits", metadata={"colour": "red"})

    embed_model([node])

    text = node.get_content(metadata_mode=MetadataMode.EMBED)
    assert text != "a cat sits"
    assert node.embedding == embed_model.get_text_embedding(text)


async def test_several_queries_have_one_vector_between_them(tiny: str) -> None:
    embed_model = OnnxEmbedding(model=tiny)
    one, two = (embed_model.get_query_embedding(text) for text in ("a cat", "a dog"))

    middle = embed_model.get_agg_embedding_from_queries(["a cat", "a dog"])

    assert middle == pytest.approx([(a + b) / 2 for a, b in zip(one, two, strict=True)])
    assert await embed_model.aget_agg_embedding_from_queries(["a cat", "a dog"]) == middle


def test_similarity_is_one_for_a_vector_with_itself(tiny: str) -> None:
    embed_model = OnnxEmbedding(model=tiny)
    one, two = embed_model.get_text_embedding_batch(["a cat", "the blue bird flies"])

    assert embed_model.similarity(one, one) == pytest.approx(1)
    assert embed_model.similarity(one, two) < 0.999


def test_no_texts_give_no_vectors(tiny: str) -> None:
    assert OnnxEmbedding(model=tiny).get_text_embedding_batch([]) == []


@pytest.mark.parametrize(
    "made", [iter, tuple, lambda texts: dict.fromkeys(texts).keys()], ids=["iter", "tuple", "keys"]
)
async def test_texts_may_be_any_iterable(tiny: str, made: Callable[[list[str]], Any]) -> None:
    embed_model = OnnxEmbedding(model=tiny, embed_batch_size=2)
    texts = ["a cat sits", "the blue bird flies", ""]
    expected = embed_model.get_text_embedding_batch(texts)

    assert embed_model.get_text_embedding_batch(made(texts)) == expected
    assert await embed_model.aget_text_embedding_batch(made(texts)) == expected


# Batches and the event loop


async def test_the_engine_gets_texts_by_the_batch_and_off_the_event_loop(
    tiny: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    embed_model = OnnxEmbedding(model=tiny)
    calls: list[tuple[int, int]] = []
    loop_thread = threading.get_ident()

    def watched(name: str) -> None:
        embed = getattr(Engine, name)

        def embed_and_note(self: Engine, texts: list[str], **kwargs: Any) -> Any:
            calls.append((len(texts), threading.get_ident()))
            return embed(self, texts, **kwargs)

        monkeypatch.setattr(Engine, name, embed_and_note)

    watched("embed_documents")
    watched("embed_queries")
    await embed_model.aget_text_embedding_batch([f"text {number}" for number in range(1500)])
    await embed_model.aget_text_embedding("a text")
    await embed_model.aget_query_embedding("a query")
    assert [size for size, _ in calls] in ([1024, 476, 1, 1], [476, 1024, 1, 1])
    assert loop_thread not in {thread for _, thread in calls}

    calls.clear()
    embed_model.get_text_embedding_batch([f"text {number}" for number in range(1500)])
    assert [size for size, _ in calls] == [1024, 476]


async def test_the_model_is_loaded_off_the_event_loop(
    tiny: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[int] = []
    load = onnx_embeddings.load

    def load_and_note(*args: Any, **kwargs: Any) -> Engine:
        threads.append(threading.get_ident())
        return load(*args, **kwargs)

    monkeypatch.setattr(onnx_embeddings, "load", load_and_note)
    await OnnxEmbedding(model=tiny).aget_query_embedding("a cat")
    await OnnxEmbedding(model=tiny).aget_text_embedding("a cat")
    await OnnxEmbedding(model=tiny).aget_text_embedding_batch(["a cat"])

    assert len(threads) == 3
    assert threading.get_ident() not in threads


async def test_many_calls_at_once_give_each_its_own_vectors(tiny: str) -> None:
    embed_model = OnnxEmbedding(model=tiny, num_workers=3, embed_batch_size=2)

    many = await asyncio.gather(*(embed_model.aget_query_embedding(text) for text in TEXTS))

    assert list(many) == [embed_model.get_query_embedding(text) for text in TEXTS]
    batches = await asyncio.gather(*(embed_model.aget_text_embedding_batch(TEXTS) for _ in "abc"))
    assert list(batches) == [embed_model.get_text_embedding_batch(TEXTS)] * 3


# Errors


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (None, "index 1: None"),
        (float("nan"), "index 1: nan"),
        (b"bytes", "decode"),
        (TextNode(text="a cat"), "type TextNode is not a text"),
        ("\ud800", "lone surrogate"),
    ],
)
async def test_a_bad_text_is_named_by_its_place(tiny: str, bad: Any, message: str) -> None:
    embed_model = OnnxEmbedding(model=tiny)
    with pytest.raises(InputError, match=message) as raised:
        embed_model.get_text_embedding_batch(["a cat", bad])
    assert raised.value.index == 1
    assert not hasattr(raised.value, "__notes__")
    with pytest.raises(InputError, match=message):
        await embed_model.aget_text_embedding_batch(["a cat", bad])


async def test_where_batches_are_many_the_error_says_what_its_place_counts(tiny: str) -> None:
    embed_model = OnnxEmbedding(model=tiny, embed_batch_size=2)
    note = "The index counts within a batch of embed_batch_size=2 texts."

    for bad in ([None], "\ud800"):
        texts: list[Any] = ["a", "b", "c", bad]
        with pytest.raises(InputError, match="index 1") as raised:
            embed_model.get_text_embedding_batch(texts)
        assert raised.value.__notes__ == [note]
        with pytest.raises(InputError, match="index 1") as raised:
            await embed_model.aget_text_embedding_batch(texts)
        assert raised.value.__notes__ == [note]


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ("a cat", r"str where a list .*\nHint: put a single text in a list"),
        (None, "NoneType where a list of texts"),
        (5, "int where a list of texts"),
        ({"a cat": 1}, "dict where a list of texts"),
        (b"a cat", "is not a text"),
    ],
)
async def test_what_is_no_list_of_texts_is_named(tiny: str, bad: Any, message: str) -> None:
    embed_model = OnnxEmbedding(model=tiny)
    with pytest.raises(InputError, match=message):
        embed_model.get_text_embedding_batch(bad)
    with pytest.raises(InputError, match=message):
        await embed_model.aget_text_embedding_batch(bad)


@pytest.mark.parametrize("bad", [None, 3, ["a cat"], TextNode(text="a cat")])
async def test_a_single_text_must_be_one(tiny: str, bad: Any) -> None:
    embed_model = OnnxEmbedding(model=tiny)
    for ask in (embed_model.get_query_embedding, embed_model.get_text_embedding):
        with pytest.raises(InputError, match="is not a text"):
            ask(bad)
    for aask in (embed_model.aget_query_embedding, embed_model.aget_text_embedding):
        with pytest.raises(InputError, match="is not a text"):
            await aask(bad)


def test_a_long_text_is_an_error_if_asked(tiny: str) -> None:
    embed_model = OnnxEmbedding(model=tiny, long_text="error")
    with pytest.raises(InputError, match=r"index 1.* tokens"):
        embed_model.get_text_embedding_batch(["a cat", "a cat " * 50])


def test_a_missing_model_is_an_error_at_first_use_each_time(tmp_path: Path) -> None:
    embed_model = OnnxEmbedding(model=str(tmp_path / "nothing"))

    for _ in range(2):
        with pytest.raises(ModelNotFoundError, match="nothing"):
            embed_model.get_query_embedding("a cat")


# Dumps, copies, threads, processes


class Holder(BaseModel):
    """A model of somebody else's that holds ours."""

    embed_model: OnnxEmbedding


@pytest.mark.parametrize("used", [True, False])
@pytest.mark.parametrize(
    "copied",
    [
        lambda it: pickle.loads(pickle.dumps(it)),
        copy.copy,
        copy.deepcopy,
        lambda it: it.model_copy(),
        lambda it: it.model_copy(deep=True),
        lambda it: OnnxEmbedding.from_dict(it.to_dict()),
        lambda it: OnnxEmbedding.from_json(it.to_json()),
        lambda it: OnnxEmbedding.from_dict(json.loads(json.dumps(it.to_dict()))),
        lambda it: Holder.model_validate(Holder(embed_model=it).model_dump()).embed_model,
    ],
    ids=[
        "pickle",
        "copy",
        "deepcopy",
        "model_copy",
        "model_copy_deep",
        "dict",
        "json",
        "json_of_dict",
        "field",
    ],
)
def test_a_copy_gives_the_same_vectors(
    tiny: str,
    copied: Callable[[OnnxEmbedding], OnnxEmbedding],
    caplog: pytest.LogCaptureFixture,
    *,
    used: bool,
) -> None:
    embed_model = OnnxEmbedding(model=tiny, dim=16, query_prompt="q: ", embed_batch_size=5)
    if used:
        embed_model.get_query_embedding("a cat")

    other = copied(embed_model)

    assert other.request == embed_model.request
    assert other.to_dict() == embed_model.to_dict()
    assert other.embed_batch_size == 5
    assert other.get_query_embedding("a cat") == embed_model.get_query_embedding("a cat")
    assert caplog.records == []  # LlamaIndex logs what it drops from a pickle


@pytest.mark.parametrize("used", [True, False])
def test_a_pickle_has_every_setting(tiny: str, tmp_path: Path, *, used: bool) -> None:
    options = {
        "cache": str(tmp_path / "vectors"),
        "cache_bytes": 2**24,
        "lanes": 1,
        "batch_tokens": 64,
        "home": str(tmp_path / "models"),
        "offline": True,
        "mirror": str(tmp_path / "mirror"),
    }
    assert options.keys() == {field.name for field in fields(EngineConfig)}
    asked: dict[str, Any] = {
        "precision": "fp32",
        "dim": 16,
        "max_tokens": 8,
        "query_prompt": "q: ",
        "document_prompt": "d: ",
    }
    embed_model = OnnxEmbedding(model=tiny, num_workers=2, engine_options=options, **asked)
    if used:
        embed_model.get_query_embedding("a cat")

    other = pickle.loads(pickle.dumps(embed_model))

    assert other.engine_options == options
    assert other.num_workers == 2
    assert other.request == embed_model.request
    assert other.engine.config == embed_model.engine.config
    assert other.engine.config.batch_tokens == 64


def test_objects_of_one_model_share_it_and_the_last_one_frees_it(tmp_path: Path) -> None:
    folder = str(write_tiny_model(tmp_path / "own", seed=12))
    gc.collect()
    before = loaded_models()
    objects = [OnnxEmbedding(model=folder, dim=dim) for dim in (None, 8, 4)]
    objects.append(pickle.loads(pickle.dumps(objects[0])))

    for embed_model in objects:
        embed_model.get_query_embedding("a cat")

    assert loaded_models() == before + 1
    del objects, embed_model
    gc.collect()
    assert loaded_models() == before


def test_after_its_engine_was_closed_the_next_text_opens_one(tiny: str) -> None:
    embed_model = OnnxEmbedding(model=tiny, dim=8)
    vector = embed_model.get_query_embedding("a cat")
    other = copy.copy(embed_model)

    embed_model.engine.close()

    for each in (embed_model, other):
        assert each.get_query_embedding("a cat") == vector
        assert not each.engine.closed


def test_threads_that_come_at_once_load_one_model(tmp_path: Path) -> None:
    folder = str(write_tiny_model(tmp_path / "own", seed=13))
    gc.collect()
    before = loaded_models()
    embed_model = OnnxEmbedding(model=folder)
    together = Barrier(8)

    def embed(_: int) -> list[float]:
        together.wait()
        return embed_model.get_query_embedding("a cat")

    with ThreadPoolExecutor(8) as pool:
        vectors = list(pool.map(embed, range(8)))

    assert loaded_models() == before + 1
    assert all(vector == vectors[0] for vector in vectors)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_process_embeds_too(tiny: str) -> None:
    # In a process of its own: a fork of this one would copy the threads' locks of other tests.
    in_a_fresh_process(
        """
        import os, sys, warnings
        from llama_index.embeddings.onnx import OnnxEmbedding
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 on fork and threads
        embed_model = OnnxEmbedding(model=sys.argv[1], engine_options={"cache": None})
        before = embed_model.get_query_embedding("a cat")
        child = os.fork()
        if not child:
            os._exit(0 if embed_model.get_query_embedding("a cat") == before else 1)
        _, status = os.waitpid(child, 0)
        sys.exit(os.waitstatus_to_exitcode(status))
        """,
        tiny,
    )
