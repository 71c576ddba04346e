"""Both components on the tiny model: what goes in, what comes out, what is shared."""

from __future__ import annotations

import asyncio
import copy
import gc
import inspect
import os
import pickle
import pydoc
import subprocess
import sys
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from haystack import Document
from haystack.dataclasses import ByteStream, SparseEmbedding

import onnx_embeddings
from haystack_integrations.components.embedders.onnx_embeddings import (
    OnnxDocumentEmbedder,
    OnnxTextEmbedder,
)
from onnx_embeddings import EngineConfig, ModelRequest
from onnx_embeddings.errors import InputError, ModelNotFoundError, SettingError
from onnx_embeddings.shared import loaded_models
from onnx_embeddings.testing import write_tiny_model

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from onnx_embeddings import Engine

    Kind = type[OnnxTextEmbedder | OnnxDocumentEmbedder]

pytestmark = pytest.mark.usefixtures("no_sockets")

KINDS = (OnnxTextEmbedder, OnnxDocumentEmbedder)
TEXTS = ["a cat sits", "the blue bird flies", "", "a cat sits"]


def quiet(model: str, **settings: Any) -> OnnxDocumentEmbedder:
    return OnnxDocumentEmbedder(model, progress_bar=False, **settings)


def embeddings(embedder: OnnxDocumentEmbedder, *documents: Document | str) -> list[Any]:
    made = [Document(content=one) if isinstance(one, str) else one for one in documents]
    return [document.embedding for document in embedder.run(made)["documents"]]


@pytest.fixture
def engine(tiny: str) -> Iterator[Engine]:
    """The tiny model without prompts: what it gives for a text is what that very text gives."""
    with onnx_embeddings.load(tiny, query_prompt="", document_prompt="") as opened:
        yield opened


# Settings


@pytest.mark.parametrize("kind", KINDS)
def test_the_settings_are_those_of_a_model_request(kind: Kind) -> None:
    parameters = inspect.signature(kind.__init__).parameters
    for field in fields(ModelRequest):
        assert parameters[field.name].default == field.default
        assert getattr(kind(), field.name) == field.default
    assert kind().request == ModelRequest()


@pytest.mark.parametrize("kind", KINDS)
def test_the_request_is_what_was_asked_for(kind: Kind) -> None:
    embedder = kind(model="org/name", revision="main", dim=8, query_prompt="q: ")

    asked = ModelRequest(model="org/name", revision="main", dim=8, query_prompt="q: ")
    assert embedder.request == asked


@pytest.mark.parametrize("kind", KINDS)
def test_a_path_is_a_folder(kind: Kind, tiny: str) -> None:
    for path in (Path(tiny), Path("models/tiny")):
        embedder = kind(path)
        assert embedder.request.folder == path
        assert type(embedder.model) is str


BAD_SETTINGS: list[tuple[dict[str, Any], str]] = [
    ({"model": "two words"}, "neither a name"),
    ({"model": None}, "must be a name"),
    ({"dim": 0}, "dim=0: must be a whole number"),
    ({"dim": "8"}, "dim='8'"),
    ({"long_text": "cut"}, "truncate, error"),
    ({"precision": "fp31"}, "must be one of"),
    ({"variant": "../model.onnx"}, "inside the model's folder"),
    ({"model": "./folder", "revision": "main"}, "no revisions"),
    ({"engine_options": {"lane": 2}}, "lane=2: no such option.*lanes"),
    ({"engine_options": {"lanes": 0}}, "lanes=0: must be a whole number"),
    ({"engine_options": []}, "must be a dictionary"),
    ({"engine_options": ""}, "must be a dictionary"),
    ({"engine_options": 0}, "must be a dictionary"),
    ({"engine_options": False}, "must be a dictionary"),
    ({"prefix": None}, "prefix=None: must be a string"),
    ({"suffix": 3}, "suffix=3: must be a string"),
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("settings", "message"), BAD_SETTINGS)
def test_a_bad_setting_fails_at_construction(
    kind: Kind, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(SettingError, match=message):
        kind(**settings)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"meta_fields_to_embed": "title"}, "'title': must be a list of names"),
        ({"meta_fields_to_embed": ["title", 3]}, "must be a list of names"),
        ({"embedding_separator": None}, "embedding_separator=None: must be a string"),
    ],
)
def test_a_bad_setting_for_documents_fails_at_construction(
    settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(SettingError, match=message):
        OnnxDocumentEmbedder(**settings)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["batch_size", "modle", "token"])
def test_a_setting_that_does_not_exist_is_refused(kind: Kind, name: str) -> None:
    with pytest.raises(TypeError, match=name):
        kind(**{name: 1})  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", KINDS)
def test_what_goes_into_every_vector_can_only_be_read(kind: Kind) -> None:
    embedder = kind(engine_options={"lanes": 1})
    for name in [*(field.name for field in fields(ModelRequest)), "prefix", "suffix"]:
        with pytest.raises(AttributeError, match=f"'{name}'.* has no setter"):
            setattr(embedder, name, "query: ")
    embedder.engine_options["lanes"] = 2
    assert embedder.engine_options == {"lanes": 1}


@pytest.mark.parametrize("kind", KINDS)
def test_help_says_what_a_setting_is(kind: Kind) -> None:
    for name in [*(field.name for field in fields(ModelRequest)), "prefix", "suffix"]:
        text = pydoc.render_doc(getattr(kind, name))
        assert "attrgetter" not in text
        assert getattr(kind, name).__doc__ in text


@pytest.mark.parametrize("kind", KINDS)
def test_none_are_no_engine_options(kind: Kind) -> None:
    assert kind(engine_options=None).engine_options == {}


@pytest.mark.parametrize("kind", KINDS)
def test_engine_options_reach_the_engine(kind: Kind, tiny: str) -> None:
    options = {"lanes": 1, "batch_tokens": 64}
    embedder = kind(tiny, engine_options=options)

    options["lanes"] = 5
    assert embedder.engine.config.lanes == 1
    assert embedder.engine.config.batch_tokens == 64


@pytest.mark.parametrize("kind", KINDS)
def test_every_field_of_the_engine_config_is_an_engine_option(kind: Kind) -> None:
    kind(engine_options={field.name: field.default for field in fields(EngineConfig)})


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_told_to_haystacks_telemetry(kind: Kind) -> None:
    assert not hasattr(kind, "_get_telemetry_data")


# Vectors


def test_vectors_are_the_engines_as_python_floats(tiny: str) -> None:
    with onnx_embeddings.load(tiny) as engine:
        documents = engine.embed_documents(TEXTS).tolist()
        query = engine.embed_queries(["a cat"])[0].tolist()

    found = embeddings(quiet(tiny), *TEXTS)
    assert found == documents
    assert {type(number) for vector in found for number in vector} == {float}
    result = OnnxTextEmbedder(tiny).run("a cat")
    assert result == {"embedding": query, "meta": {"model": tiny}}
    assert {type(number) for number in result["embedding"]} == {float}


def test_prompts_are_applied_once_with_prefix_and_suffix_inside(tiny: str, engine: Engine) -> None:
    text = OnnxTextEmbedder(tiny, prefix="<", suffix=">").run("a cat")["embedding"]
    (document,) = embeddings(quiet(tiny, prefix="<", suffix=">"), "a cat")

    assert text == engine.embed_queries(["question: <a cat>"])[0].tolist()
    assert document == engine.embed_documents(["text: <a cat>"])[0].tolist()
    assert text != document


@pytest.mark.parametrize(
    ("kind", "prompt"), [(OnnxTextEmbedder, "question: "), (OnnxDocumentEmbedder, "text: ")]
)
def test_a_prefix_that_repeats_the_models_prompt_is_refused(
    kind: Kind, prompt: str, tiny: str
) -> None:
    embedder = kind(tiny, prefix=f" {prompt} more")
    for _ in range(2):
        with pytest.raises(SettingError, match=r"already\nHint: leave prefix empty.*_prompt=''"):
            embedder.warm_up()

    own: dict[str, Any] = {"query_prompt": "", "document_prompt": ""}
    kind(tiny, prefix=prompt, **own).warm_up()
    kind(tiny, prefix="in short: ").warm_up()


META = {"title": "a title", "none": None, "year": 1999, "tags": ["a", "b"], "empty": ""}


@pytest.mark.parametrize(
    ("settings", "content", "text"),
    [
        ({}, "a cat", "a cat"),
        ({}, None, ""),
        ({"meta_fields_to_embed": ["title"]}, "a cat", "a title\na cat"),
        ({"meta_fields_to_embed": ["title"]}, None, "a title\n"),
        ({"meta_fields_to_embed": ["year", "title"]}, "a cat", "1999\na title\na cat"),
        ({"meta_fields_to_embed": ["missing", "none", "title"]}, "a cat", "a title\na cat"),
        ({"meta_fields_to_embed": ["tags", "empty"]}, "a cat", "['a', 'b']\n\na cat"),
        (
            {"meta_fields_to_embed": ["title"], "embedding_separator": " | "},
            "a cat",
            "a title | a cat",
        ),
        (
            {"meta_fields_to_embed": ["title"], "prefix": "<", "suffix": ">"},
            "a cat",
            "<a title\na cat>",
        ),
    ],
)
def test_what_is_embedded_of_a_document(
    tiny: str, engine: Engine, settings: dict[str, Any], content: str | None, text: str
) -> None:
    embedder = quiet(tiny, document_prompt="", **settings)
    (found,) = embeddings(embedder, Document(content=content, meta=dict(META)))

    assert found == engine.embed_documents([text])[0].tolist()


def test_documents_are_replaced_and_never_changed(tiny: str) -> None:
    embedder = quiet(tiny, meta_fields_to_embed=["n"])
    documents = [Document(content=f"text {n % 5}", meta={"n": n}, score=n / 10) for n in range(20)]
    documents[3] = Document(
        content="with all there is",
        blob=ByteStream(b"bytes"),
        embedding=[1.0, 2.0],
        sparse_embedding=SparseEmbedding([1], [2.0]),
    )
    before = copy.deepcopy(documents)

    with ThreadPoolExecutor(4) as pool:
        runs = list(pool.map(lambda _: embedder.run(documents)["documents"], range(8)))

    assert documents == before
    first = runs[0]
    assert all(run == first for run in runs)
    for document, new in zip(documents, first, strict=True):
        assert new is not document
        assert new.id == document.id
        assert len(new.embedding or []) == 32
        restored = copy.copy(new).to_dict(flatten=False) | {"embedding": document.embedding}
        assert restored == document.to_dict(flatten=False)


def test_no_documents_need_no_model(tmp_path: Path) -> None:
    missing = str(tmp_path / "nothing")

    found = OnnxDocumentEmbedder(missing).run([])

    assert found == {"documents": [], "meta": {"model": missing}}


@pytest.mark.parametrize("shown", [True, False, None])
def test_a_bar_for_documents_and_none_for_a_query(
    tiny: str, capsys: pytest.CaptureFixture[str], *, shown: bool | None
) -> None:
    settings: dict[str, Any] = {} if shown is None else {"progress_bar": shown}

    OnnxTextEmbedder(tiny).run("a cat")
    assert capsys.readouterr() == ("", "")
    embeddings(OnnxDocumentEmbedder(tiny, **settings), *TEXTS)
    out, err = capsys.readouterr()
    assert out == ""
    assert ("4/4" in err) is (shown is not False)


# Errors


@pytest.mark.parametrize("bad", [None, 3, b"bytes", ["a cat"], [Document(content="a cat")]])
def test_a_query_must_be_a_string(tiny: str, bad: Any) -> None:
    message = f"expects a string as input, not {type(bad).__name__}.*use OnnxDocumentEmbedder"
    with pytest.raises(TypeError, match=message):
        OnnxTextEmbedder(tiny).run(bad)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ("a cat", "not str"),
        (None, "not NoneType"),
        (Document(content="a cat"), "not Document"),
        ((Document(content="a cat"),), "not tuple"),
        (["a cat"], "index 0 is of type str"),
        ([Document(content="a cat"), None], "index 1 is of type NoneType"),
    ],
)
def test_documents_must_be_a_list_of_documents(tiny: str, bad: Any, message: str) -> None:
    message = f"expects a list of Documents as input, .*{message}.*use OnnxTextEmbedder"
    with pytest.raises(TypeError, match=message):
        OnnxDocumentEmbedder(tiny).run(bad)


async def test_async_raises_the_same_errors(tiny: str) -> None:
    with pytest.raises(TypeError, match="use OnnxDocumentEmbedder"):
        await OnnxTextEmbedder(tiny).run_async(["a cat"])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="use OnnxTextEmbedder"):
        await OnnxDocumentEmbedder(tiny).run_async("a cat")  # type: ignore[arg-type]


def test_a_bad_text_is_named_by_the_place_of_its_document(tiny: str) -> None:
    documents = [Document(id="1", content="a cat"), Document(id="2", content="\ud800")]
    with pytest.raises(InputError, match="index 1: lone surrogate"):
        quiet(tiny).run(documents)

    documents[1] = Document(content="a cat " * 50)
    with pytest.raises(InputError, match=r"index 1.* tokens") as raised:
        quiet(tiny, long_text="error").run(documents)
    assert raised.value.index == 1


@pytest.mark.parametrize("kind", KINDS)
def test_a_missing_model_is_an_error_each_time(kind: Kind, tmp_path: Path) -> None:
    embedder = kind(tmp_path / "nothing")
    for _ in range(2):
        with pytest.raises(ModelNotFoundError, match="nothing"):
            embedder.warm_up()


# Async


@pytest.mark.parametrize("kind", KINDS)
def test_run_and_run_async_take_and_give_the_same(kind: Kind) -> None:
    assert inspect.iscoroutinefunction(kind.run_async)
    assert inspect.signature(kind.run) == inspect.signature(kind.run_async)
    sockets = [getattr(run, "_output_types_cache") for run in (kind.run, kind.run_async)]  # noqa: B009
    assert sockets[0] == sockets[1]
    assert sockets[0].keys() >= {"meta"}


async def test_async_gives_the_same_vectors(tiny: str) -> None:
    text, documents = OnnxTextEmbedder(tiny), quiet(tiny)

    many = await asyncio.gather(*(text.run_async(one) for one in TEXTS))

    assert list(many) == [text.run(one) for one in TEXTS]
    given = [Document(content=one) for one in TEXTS]
    assert await documents.run_async(given) == documents.run(given)


@pytest.mark.parametrize("kind", KINDS)
async def test_nothing_loads_or_embeds_on_the_event_loop(
    kind: Kind, tiny: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[int] = []

    def watched(call: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any, **options: Any) -> Any:
            threads.append(threading.get_ident())
            return call(*arguments, **options)

        return run

    monkeypatch.setattr(onnx_embeddings, "load", watched(onnx_embeddings.load))
    for name in ("embed_queries", "embed_documents"):
        embed = getattr(onnx_embeddings.Engine, name)
        monkeypatch.setattr(onnx_embeddings.Engine, name, watched(embed))
    given: Any = "a cat" if kind is OnnxTextEmbedder else [Document(content="a cat")]

    warmed, cold = kind(tiny), kind(tiny)
    await warmed.warm_up_async()
    assert len(threads) == 1
    await warmed.run_async(given)
    await cold.run_async(given)

    assert len(threads) == 4
    assert threading.get_ident() not in threads


# Loading, sharing, closing


@pytest.mark.parametrize("kind", KINDS)
async def test_warming_up_twice_loads_once(kind: Kind, tiny: str) -> None:
    embedder = kind(tiny)
    embedder.warm_up()
    engine = embedder.engine
    embedder.warm_up()
    await embedder.warm_up_async()
    assert embedder.engine is engine


def test_components_of_one_model_share_it_and_the_last_one_frees_it(tmp_path: Path) -> None:
    folder = str(write_tiny_model(tmp_path / "own", seed=12))
    gc.collect()
    before = loaded_models()
    embedders: list[OnnxTextEmbedder | OnnxDocumentEmbedder] = [
        OnnxTextEmbedder(folder),
        OnnxTextEmbedder(folder, dim=8, prefix="a "),
        OnnxDocumentEmbedder(folder),
        pickle.loads(pickle.dumps(OnnxDocumentEmbedder(folder))),
    ]

    for embedder in embedders:
        embedder.warm_up()

    assert loaded_models() == before + 1
    for embedder in embedders[:-1]:
        embedder.close()
    assert loaded_models() == before + 1
    del embedder
    embedders.pop().close()
    assert loaded_models() == before


def test_closing_disturbs_no_copy_and_no_later_run(tiny: str) -> None:
    embedder = OnnxTextEmbedder(tiny)
    vector = embedder.run("a cat")
    other = copy.deepcopy(embedder)

    embedder.close()
    embedder.close()

    assert other.run("a cat") == vector
    assert embedder.run("a cat") == vector


@pytest.mark.parametrize("kind", KINDS)
def test_after_its_engine_was_closed_the_next_run_opens_one(kind: Kind, tiny: str) -> None:
    embedder: Any = kind(tiny)
    given: Any = "a cat" if kind is OnnxTextEmbedder else [Document(content="a cat")]
    result = embedder.run(given)
    other = copy.copy(embedder)

    embedder.engine.close()

    for each in (embedder, other):
        assert each.run(given) == result
        assert not each.engine.closed


@pytest.mark.parametrize("used", [True, False])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "copied",
    [
        lambda it: pickle.loads(pickle.dumps(it)),
        copy.copy,
        copy.deepcopy,
        lambda it: type(it).from_dict(it.to_dict()),
    ],
    ids=["pickle", "copy", "deepcopy", "dict"],
)
def test_a_copy_has_the_same_settings_and_vectors(
    tiny: str, kind: Kind, copied: Callable[[Any], Any], *, used: bool
) -> None:
    embedder: Any = kind(tiny, dim=16, query_prompt="q: ", suffix=".", engine_options={"lanes": 1})
    given: Any = "a cat" if kind is OnnxTextEmbedder else [Document(content="a cat")]
    if used:
        embedder.run(given)

    other = copied(embedder)

    assert other.to_dict() == embedder.to_dict()
    assert other.run(given) == embedder.run(given)


def test_threads_that_come_at_once_load_one_model(tmp_path: Path) -> None:
    folder = str(write_tiny_model(tmp_path / "own", seed=13))
    gc.collect()
    before = loaded_models()
    embedder = OnnxTextEmbedder(folder)
    together = threading.Barrier(8)

    def embed(_: int) -> Any:
        together.wait()
        return embedder.run("a cat")

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(embed, range(8)))

    assert loaded_models() == before + 1
    assert all(result == results[0] for result in results)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_process_embeds_too(tiny: str) -> None:
    # In a process of its own: a fork of this one would copy the threads' locks of other tests.
    code = """
        import os, sys, warnings
        from haystack_integrations.components.embedders.onnx_embeddings import OnnxTextEmbedder
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 on fork and threads
        embedder = OnnxTextEmbedder(sys.argv[1])
        before = embedder.run("a cat")
        child = os.fork()
        if not child:
            os._exit(0 if embedder.run("a cat") == before else 1)
        _, status = os.waitpid(child, 0)
        sys.exit(os.waitstatus_to_exitcode(status))
    """
    command = [sys.executable, "-c", textwrap.dedent(code), tiny]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
