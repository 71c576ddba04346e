"""The adapter on the tiny model: LangChain's interface in, exactly the engine's vectors out."""

from __future__ import annotations

import asyncio
import copy
import gc
import os
import pickle
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from pathlib import Path
from threading import Barrier
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import InMemoryVectorStore
from pydantic import ValidationError

import onnx_embeddings
from langchain_onnx_embeddings import OnnxEmbeddings
from onnx_embeddings import EngineConfig, ModelRequest
from onnx_embeddings.errors import InputError, ModelNotFoundError
from onnx_embeddings.shared import loaded_models
from onnx_embeddings.testing import write_tiny_model

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.usefixtures("no_sockets")

TEXTS = ["a cat sits", "the blue bird flies", "", "a cat sits"]


def in_a_fresh_process(code: str, *arguments: str) -> str:
    command = [sys.executable, "-W", "error", "-c", textwrap.dedent(code), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


# To make one


def test_importing_and_constructing_load_nothing_heavy() -> None:
    loaded = in_a_fresh_process("""
        import sys
        from langchain_onnx_embeddings import OnnxEmbeddings
        OnnxEmbeddings(engine_options={"lanes": 1})
        heavy = {"numpy", "onnxruntime", "tokenizers", "onnx", "huggingface_hub", "tqdm"}
        print(sorted(heavy & set(sys.modules)))
    """)

    assert loaded.strip() == "[]"


def test_constructing_touches_neither_disk_nor_network() -> None:
    in_a_fresh_process("""
        import sys
        from langchain_onnx_embeddings import OnnxEmbeddings
        OnnxEmbeddings()
        def refuse(event, arguments):
            if event.startswith(("open", "os.", "socket.")):
                sys.stderr.write(f"{event} {arguments}")
                raise SystemExit(1)
        sys.addaudithook(refuse)
        OnnxEmbeddings(model="/not/there", dim=3, engine_options={"home": "/not/there/either"})
        OnnxEmbeddings(model="org/name")
    """)


def test_the_fields_are_those_of_a_model_request() -> None:
    ours = OnnxEmbeddings.model_fields
    for field in fields(ModelRequest):
        name = "model_name" if field.name == "model" else field.name
        assert ours[name].default == field.default, name
    others = set(ours) - {field.name for field in fields(ModelRequest)}
    assert others == {"model_name", "show_progress", "engine_options"}


def test_a_model_may_be_given_under_both_names() -> None:
    assert OnnxEmbeddings(model="org/name") == OnnxEmbeddings.model_validate(
        {"model_name": "org/name"}
    )


def test_a_model_may_be_read_under_both_names() -> None:
    embeddings = OnnxEmbeddings(model="org/name")

    assert embeddings.model == embeddings.model_name == "org/name"
    assert "model" not in embeddings.model_dump()
    with pytest.raises(ValidationError, match="frozen"):
        embeddings.model = "org/other"  # type: ignore[misc]


def test_every_setting_has_a_description() -> None:
    for name, field in OnnxEmbeddings.model_fields.items():
        assert field.description, name


def test_the_request_is_what_was_asked_for() -> None:
    embeddings = OnnxEmbeddings(model="org/name", revision="main", dim=8, query_prompt="q: ")

    request = ModelRequest(model="org/name", revision="main", dim=8, query_prompt="q: ")
    assert embeddings.request == request


def test_a_path_is_a_folder(tiny: str) -> None:
    for path in (Path(tiny), Path("models/tiny")):
        embeddings = OnnxEmbeddings(model=path)  # type: ignore[arg-type]  # kept as a text
        assert embeddings.request.folder == path
        assert type(embeddings.model_name) is str


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"modle": "org/name"}, "modle"),
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
    ],
)
def test_a_bad_setting_fails_at_construction(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        OnnxEmbeddings(**settings)


def test_an_object_is_frozen_and_an_updated_copy_is_checked(tiny: str) -> None:
    embeddings = OnnxEmbeddings(model=tiny)
    whole = embeddings.embed_query("a cat")

    with pytest.raises(ValidationError, match="frozen"):
        embeddings.dim = 4
    with pytest.raises(ValidationError, match="dim=0"):
        embeddings.model_copy(update={"dim": 0})
    assert len(embeddings.model_copy(update={"dim": 4}).embed_query("a cat")) == 4
    assert embeddings.model_copy(update={"model": "org/name"}).model_name == "org/name"
    assert embeddings.embed_query("a cat") == whole


def test_engine_options_reach_the_engine_and_no_dump(tiny: str) -> None:
    embeddings = OnnxEmbeddings(model=tiny, engine_options={"lanes": 1, "batch_tokens": 64})

    assert embeddings.engine.config.lanes == 1
    assert embeddings.engine.config.batch_tokens == 64
    assert "engine_options" not in embeddings.model_dump()
    assert "lanes" not in embeddings.model_dump_json()


def test_none_are_no_engine_options() -> None:
    embeddings = OnnxEmbeddings(engine_options=None)  # type: ignore[arg-type]

    assert embeddings == OnnxEmbeddings()
    assert embeddings.engine_options == {}
    assert embeddings.model_copy(update={"engine_options": None}).engine_options == {}


def test_every_field_of_the_engine_config_is_an_engine_option() -> None:
    defaults = {field.name: field.default for field in fields(EngineConfig)}

    assert OnnxEmbeddings(engine_options=defaults)._config == EngineConfig()


# Vectors


def test_vectors_are_the_engines_as_python_floats(tiny: str) -> None:
    embeddings = OnnxEmbeddings(model=tiny)
    with onnx_embeddings.load(tiny) as engine:
        documents = engine.embed_documents(TEXTS).tolist()
        query = engine.embed_queries(["a cat"])[0].tolist()

    assert isinstance(embeddings, Embeddings)
    assert embeddings.embed_documents(TEXTS) == documents
    assert embeddings.embed_query("a cat") == query
    assert {type(number) for row in embeddings.embed_documents(TEXTS) for number in row} == {float}
    assert type(embeddings.embed_query("a cat")) is list


def test_queries_and_documents_get_their_own_prompts(tiny: str) -> None:
    own = OnnxEmbeddings(model=tiny)
    none = OnnxEmbeddings(model=tiny, query_prompt="", document_prompt="")

    assert own.embed_query("a cat") == none.embed_query("question: a cat")
    assert own.embed_documents(["a cat"]) == none.embed_documents(["text: a cat"])
    assert own.embed_query("a cat") != own.embed_documents(["a cat"])[0]
    assert none.embed_query("a cat") == none.embed_documents(["a cat"])[0]


def test_no_texts_give_no_vectors(tiny: str) -> None:
    assert OnnxEmbeddings(model=tiny).embed_documents([]) == []


async def test_async_gives_the_same_vectors(tiny: str) -> None:
    embeddings = OnnxEmbeddings(model=tiny)

    many = await asyncio.gather(*(embeddings.aembed_query(text) for text in TEXTS))

    assert list(many) == [embeddings.embed_query(text) for text in TEXTS]
    assert await embeddings.aembed_documents(TEXTS) == embeddings.embed_documents(TEXTS)


def test_a_vector_store_finds_the_nearest_text(tiny: str) -> None:
    embeddings = OnnxEmbeddings(model=tiny, query_prompt="", document_prompt="")
    store = InMemoryVectorStore.from_texts(TEXTS, embeddings)

    ((found, score),) = store.similarity_search_with_score("the blue bird flies", k=1)

    assert found.page_content == "the blue bird flies"
    assert score == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("shown", [True, False])
def test_progress_is_shown_for_documents_if_asked(
    tiny: str, capsys: pytest.CaptureFixture[str], *, shown: bool
) -> None:
    embeddings = OnnxEmbeddings(model=tiny, show_progress=shown)

    embeddings.embed_query("a cat")
    assert capsys.readouterr() == ("", "")
    embeddings.embed_documents(TEXTS)
    out, err = capsys.readouterr()
    assert out == ""
    assert ("4/4" in err) is shown


# Errors


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (None, "index 1: None"),
        (float("nan"), "index 1: nan"),
        (b"bytes", "decode"),
        (Document(page_content="a cat"), "page_content"),
        ("\ud800", "lone surrogate"),
    ],
)
def test_a_bad_text_is_named_by_its_place(tiny: str, bad: Any, message: str) -> None:
    with pytest.raises(InputError, match=message) as raised:
        OnnxEmbeddings(model=tiny).embed_documents(["a cat", bad])
    assert raised.value.index == 1


def test_a_bare_text_is_no_list_of_texts(tiny: str) -> None:
    with pytest.raises(InputError, match="put it in a list"):
        OnnxEmbeddings(model=tiny).embed_documents("a cat")  # type: ignore[arg-type]


@pytest.mark.parametrize("bad", [None, 3, ["a cat"], Document(page_content="a cat")])
def test_a_query_must_be_a_text(tiny: str, bad: Any) -> None:
    with pytest.raises(InputError, match="is not a text"):
        OnnxEmbeddings(model=tiny).embed_query(bad)


async def test_async_raises_the_same_errors(tiny: str) -> None:
    with pytest.raises(InputError, match="index 1"):
        await OnnxEmbeddings(model=tiny).aembed_documents(["a cat", None])  # type: ignore[list-item]


def test_a_long_text_is_an_error_if_asked(tiny: str) -> None:
    with pytest.raises(InputError, match=r"index 1.* tokens"):
        OnnxEmbeddings(model=tiny, long_text="error").embed_documents(["a cat", "a cat " * 50])


def test_a_missing_model_is_an_error_at_first_use_each_time(tmp_path: Path) -> None:
    embeddings = OnnxEmbeddings(model=str(tmp_path / "nothing"))

    for _ in range(2):
        with pytest.raises(ModelNotFoundError, match="nothing"):
            embeddings.embed_query("a cat")


# Copies, threads, processes


@pytest.mark.parametrize("used", [True, False])
@pytest.mark.parametrize(
    "copied",
    [
        lambda it: pickle.loads(pickle.dumps(it)),
        copy.copy,
        copy.deepcopy,
        lambda it: it.model_copy(),
        lambda it: it.model_copy(deep=True),
        lambda it: OnnxEmbeddings.model_validate(it.model_dump()),
        lambda it: OnnxEmbeddings.model_validate_json(it.model_dump_json(by_alias=True)),
    ],
    ids=["pickle", "copy", "deepcopy", "model_copy", "model_copy_deep", "dump", "json"],
)
def test_a_copy_gives_the_same_vectors(
    tiny: str, copied: Callable[[OnnxEmbeddings], OnnxEmbeddings], *, used: bool
) -> None:
    embeddings = OnnxEmbeddings(model=tiny, dim=16, query_prompt="q: ")
    if used:
        embeddings.embed_query("a cat")

    other = copied(embeddings)

    assert other.request == embeddings.request
    assert other.embed_query("a cat") == embeddings.embed_query("a cat")


def test_objects_of_one_model_share_it_and_the_last_one_frees_it(tmp_path: Path) -> None:
    folder = str(write_tiny_model(tmp_path / "own", seed=12))
    gc.collect()
    before = loaded_models()
    objects = [OnnxEmbeddings(model=folder, dim=dim) for dim in (None, 8, 4)]
    objects.append(pickle.loads(pickle.dumps(objects[0])))

    for embeddings in objects:
        embeddings.embed_query("a cat")

    assert loaded_models() == before + 1
    del objects, embeddings
    gc.collect()
    assert loaded_models() == before


def test_after_its_engine_was_closed_the_next_text_opens_one(tiny: str) -> None:
    embeddings = OnnxEmbeddings(model=tiny, dim=8)
    vector = embeddings.embed_query("a cat")
    other = copy.copy(embeddings)

    embeddings.engine.close()

    for each in (embeddings, other):
        assert each.embed_query("a cat") == vector
        assert not each.engine.closed


def test_threads_that_come_at_once_load_one_model(tmp_path: Path) -> None:
    folder = str(write_tiny_model(tmp_path / "own", seed=13))
    gc.collect()
    before = loaded_models()
    embeddings = OnnxEmbeddings(model=folder)
    together = Barrier(8)

    def embed(_: int) -> list[float]:
        together.wait()
        return embeddings.embed_query("a cat")

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
        from langchain_onnx_embeddings import OnnxEmbeddings
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 on fork and threads
        embeddings = OnnxEmbeddings(model=sys.argv[1])
        before = embeddings.embed_query("a cat")
        child = os.fork()
        if not child:
            os._exit(0 if embeddings.embed_query("a cat") == before else 1)
        _, status = os.waitpid(child, 0)
        sys.exit(os.waitstatus_to_exitcode(status))
        """,
        tiny,
    )
