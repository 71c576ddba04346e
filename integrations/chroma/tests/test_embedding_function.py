"""The function on the tiny model: Chroma's interface in, exactly the engine's vectors out."""

from __future__ import annotations

import copy
import gc
import json
import os
import pickle
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from pathlib import Path
from threading import Barrier
from typing import Any

import numpy as np
import pytest
from chromadb.api.types import EmbeddingFunction, validate_embedding_function

import onnx_embeddings
from chroma_onnx_embeddings import OnnxEmbeddingFunction
from onnx_embeddings import EngineConfig, ModelRequest
from onnx_embeddings.errors import InputError, ModelNotFoundError, SettingError
from onnx_embeddings.shared import loaded_models
from onnx_embeddings.testing import check_adapter, check_import, write_tiny_model

pytestmark = pytest.mark.usefixtures("no_sockets")

TEXTS = ["a cat sits", "the blue bird flies", "", "a cat sits"]

# What version 0.1.0 keeps in a collection; every later version must take it.
KEPT_BY_0_1 = {
    "model": "sentence-transformers/all-MiniLM-L6-v2",
    "revision": None,
    "precision": None,
    "variant": None,
    "dim": None,
    "max_tokens": None,
    "long_text": "truncate",
    "query_prompt": None,
    "document_prompt": None,
}


def in_a_fresh_process(code: str, *arguments: str) -> str:
    command = [sys.executable, "-W", "error", "-c", textwrap.dedent(code), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


# The contract of all adapters


def test_the_adapter_keeps_the_promises_of_the_engine() -> None:
    check_adapter(
        OnnxEmbeddingFunction,
        documents=lambda ef, texts: ef(texts),
        query=lambda ef, text: ef.embed_query(input=[text])[0],
    )


def test_importing_and_constructing_load_nothing_heavy() -> None:
    check_import(
        "chroma_onnx_embeddings",
        "chroma_onnx_embeddings.OnnxEmbeddingFunction().get_config()",
        framework="chromadb.utils.embedding_functions",
    )


def test_constructing_and_rebuilding_touch_neither_disk_nor_network() -> None:
    in_a_fresh_process("""
        import sys
        from chroma_onnx_embeddings import OnnxEmbeddingFunction as Function
        Function()
        def refuse(event, arguments):
            if event.startswith(("open", "os.", "socket.", "import")):
                sys.stderr.write(f"{event} {arguments}")
                raise SystemExit(1)
        sys.addaudithook(refuse)
        for model in ("org/name", "/not/there", "./not/there"):
            made = Function(model, dim=3, engine_options={"home": "/not/there/either"})
            again = Function.build_from_config(made.get_config())
            assert again.request == made.request and not again.is_legacy()
            Function.validate_config(made.get_config())
    """)


# To make one


def test_importing_registers_it_under_a_name_that_chroma_does_not_have() -> None:
    in_a_fresh_process("""
        from chromadb.utils.embedding_functions import known_embedding_functions as known
        assert "onnx_embeddings" not in known
        import chroma_onnx_embeddings
        assert known["onnx_embeddings"] is chroma_onnx_embeddings.OnnxEmbeddingFunction
        assert chroma_onnx_embeddings.OnnxEmbeddingFunction.name() == "onnx_embeddings"
    """)


def test_chroma_takes_it_for_an_embedding_function() -> None:
    ef = OnnxEmbeddingFunction()

    assert isinstance(ef, EmbeddingFunction)
    validate_embedding_function(ef)  # type: ignore[arg-type]  # only of texts, as most
    assert not ef.is_legacy()
    assert ef.default_space() == "cosine"
    assert ef.supported_spaces() == ["cosine", "ip", "l2"]


def test_the_request_is_what_was_asked_for() -> None:
    ef = OnnxEmbeddingFunction("org/name", revision="main", dim=8, query_prompt="q: ")

    assert ef.request == ModelRequest(model="org/name", revision="main", dim=8, query_prompt="q: ")
    assert "org/name" in repr(ef)


def test_a_folder_is_kept_with_its_whole_path() -> None:
    for model in ("./models/tiny", Path("models/tiny")):
        ef = OnnxEmbeddingFunction(model)
        assert ef.get_config()["model"] == str(Path("models/tiny").absolute())
    assert OnnxEmbeddingFunction("~/tiny").get_config()["model"] == "~/tiny"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"modle": "org/name"}, "modle"),
        ({"model": "two words"}, "neither a name"),
        ({"model": None}, "must be a name"),
        ({"dim": "8"}, "whole number"),
        ({"long_text": "cut"}, "truncate, error"),
        ({"precision": "fp31"}, "must be one of"),
        ({"variant": "../model.onnx"}, "inside the model's folder"),
        ({"model": "./folder", "revision": "main"}, "no revisions"),
        ({"engine_options": {"lanes": 0}}, "lanes=0: must be a whole number"),
    ],
)
def test_a_bad_setting_fails_at_construction(settings: dict[str, Any], message: str) -> None:
    with pytest.raises((SettingError, TypeError), match=message):
        OnnxEmbeddingFunction(**settings)


def test_engine_options_reach_the_engine_and_are_not_kept(tiny: str) -> None:
    ef = OnnxEmbeddingFunction(tiny, engine_options={"lanes": 1, "batch_tokens": 64})

    assert ef.engine.open().config.lanes == 1
    assert ef.engine.config.batch_tokens == 64
    assert set(ef.get_config()) == {field.name for field in fields(ModelRequest)}


def test_every_field_of_the_engine_config_is_an_engine_option() -> None:
    defaults = {field.name: field.default for field in fields(EngineConfig)}

    assert OnnxEmbeddingFunction(engine_options=defaults)._config == EngineConfig()


@pytest.mark.parametrize("field", [field.name for field in fields(ModelRequest)])
def test_a_setting_can_be_read_and_not_set(tiny: str, field: str) -> None:
    ef = OnnxEmbeddingFunction(tiny, dim=8, max_tokens=16, query_prompt="q: ")

    for one in (ef, pickle.loads(pickle.dumps(ef)), copy.copy(ef), copy.deepcopy(ef)):
        assert getattr(one, field) == getattr(ef.request, field)
        with pytest.raises(AttributeError):
            setattr(one, field, getattr(ef.request, field))


# What Chroma keeps


def test_the_configuration_goes_through_json_and_back() -> None:
    ef = OnnxEmbeddingFunction(
        "org/name",
        revision="main",
        precision="fp32",
        variant="onnx/model.onnx",
        dim=8,
        max_tokens=16,
        long_text="error",
        query_prompt="q: ",
        document_prompt="",
    )

    kept = json.loads(json.dumps(ef.get_config()))

    assert OnnxEmbeddingFunction.build_from_config(kept).request == ef.request


def test_what_the_first_version_kept_is_taken_for_ever() -> None:
    assert OnnxEmbeddingFunction().get_config() == KEPT_BY_0_1
    assert OnnxEmbeddingFunction.build_from_config(KEPT_BY_0_1).request == ModelRequest()


@pytest.mark.parametrize("missing", KEPT_BY_0_1)
def test_a_key_that_is_missing_takes_its_default(missing: str) -> None:
    kept = {name: value for name, value in KEPT_BY_0_1.items() if name != missing}

    OnnxEmbeddingFunction.validate_config(kept)
    assert OnnxEmbeddingFunction.build_from_config(kept).get_config() == KEPT_BY_0_1
    assert OnnxEmbeddingFunction.build_from_config({}).get_config() == KEPT_BY_0_1


@pytest.mark.parametrize("bad", [{"layer": 3}, {"dim": 0}, {"model": None}, [], None])
def test_a_configuration_that_this_version_does_not_know_is_refused(bad: Any) -> None:
    for take in (OnnxEmbeddingFunction.validate_config, OnnxEmbeddingFunction.build_from_config):
        with pytest.raises(SettingError):
            take(bad)


# Vectors


def test_vectors_are_the_engines_as_float32_arrays(tiny: str) -> None:
    ef = OnnxEmbeddingFunction(tiny)
    with onnx_embeddings.load(tiny) as engine:
        documents, queries = engine.embed_documents(TEXTS), engine.embed_queries(TEXTS)

    for found, expected in ((ef(TEXTS), documents), (ef.embed_query(input=TEXTS), queries)):
        assert type(found) is list
        assert {(type(row), row.dtype.name, row.shape) for row in found} == {
            (np.ndarray, "float32", (32,))
        }
        assert np.array_equal(found, expected)


def test_queries_and_documents_get_their_own_prompts(tiny: str) -> None:
    own = OnnxEmbeddingFunction(tiny)
    none = OnnxEmbeddingFunction(tiny, query_prompt="", document_prompt="")

    assert np.array_equal(own.embed_query(["a cat"]), none.embed_query(["question: a cat"]))
    assert np.array_equal(own(["a cat"]), none(["text: a cat"]))
    assert not np.array_equal(own.embed_query(["a cat"]), own(["a cat"]))


def test_no_texts_give_no_vectors(tiny: str) -> None:
    assert OnnxEmbeddingFunction(tiny)([]) == []
    assert OnnxEmbeddingFunction(tiny).embed_query(input=[]) == []


def test_a_class_of_ones_own_may_add_to_it(tiny: str) -> None:
    class Upper(OnnxEmbeddingFunction):
        def __call__(self, input: list[str]) -> Any:
            return super().__call__([text.upper() for text in input])

    assert np.array_equal(Upper(tiny)(["a cat"]), OnnxEmbeddingFunction(tiny)(["A CAT"]))


@pytest.mark.parametrize("shown", [True, False])
def test_progress_is_shown_for_documents_if_asked(
    tiny: str, capsys: pytest.CaptureFixture[str], *, shown: bool
) -> None:
    ef = OnnxEmbeddingFunction(tiny, show_progress=shown)

    ef.embed_query(input=TEXTS)
    assert capsys.readouterr() == ("", "")
    ef(TEXTS)
    out, err = capsys.readouterr()
    assert out == ""
    assert ("4/4" in err) is shown


# Errors


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ("hello world", "put it in a list"),
        (None, "None"),
        ([1], "index 0: 1"),
        (["a cat", None], "index 1: None"),
        (["a cat", ["a cat"]], "index 1"),
        ([b"bytes"], "decode"),
    ],
)
def test_what_is_no_list_of_texts_is_refused(tiny: str, bad: Any, message: str) -> None:
    ef = OnnxEmbeddingFunction(tiny)

    for embed in (ef, ef.embed_query):
        with pytest.raises(InputError, match=message):
            embed(bad)
    assert ef.engine.stats().texts == 0


def test_a_tuple_of_texts_is_one_too(tiny: str) -> None:
    ef = OnnxEmbeddingFunction(tiny)

    assert np.array_equal(ef(("a", "b")), ef(["a", "b"]))  # type: ignore[arg-type]


def test_a_missing_model_is_an_error_at_first_use_each_time(tmp_path: Path) -> None:
    ef = OnnxEmbeddingFunction(tmp_path / "nothing")

    for _ in range(2):
        with pytest.raises(ModelNotFoundError, match="nothing"):
            ef(["a cat"])


# One engine, however many functions


def test_a_hundred_rebuilds_use_one_engine_and_one_session() -> None:
    in_a_fresh_process("""
        import gc, tempfile
        from pathlib import Path
        from chroma_onnx_embeddings import OnnxEmbeddingFunction as Function
        from onnx_embeddings.shared import loaded_models
        from onnx_embeddings.testing import write_tiny_model

        config = Function(write_tiny_model(Path(tempfile.mkdtemp()) / "tiny")).get_config()
        engines = set()
        for number in range(100):
            ef = Function.build_from_config(config)
            (ef if number % 2 else ef.embed_query)(input=["a cat"])
            engines.add(ef.engine)
            assert loaded_models() == 1
            # Not one function is left, and the model stays.
            del ef
            if number % 10 == 0:
                gc.collect()
        assert loaded_models() == 1
        (engine,) = engines
        assert engine.stats().texts == 100
    """)


def test_threads_with_functions_of_their_own_load_one_model(tmp_path: Path) -> None:
    folder = write_tiny_model(tmp_path / "own", seed=13)
    gc.collect()
    before = loaded_models()
    config = OnnxEmbeddingFunction(folder).get_config()
    together = Barrier(16)

    def embed(_: int) -> tuple[int, bytes]:
        ef = OnnxEmbeddingFunction.build_from_config(config)
        together.wait()
        return id(ef.engine), ef(["a cat"])[0].tobytes()

    with ThreadPoolExecutor(16) as pool:
        found = set(pool.map(embed, range(16)))

    assert loaded_models() == before + 1
    assert len(found) == 1


def test_other_settings_have_another_engine_on_the_same_model(tiny: str) -> None:
    one, other = OnnxEmbeddingFunction(tiny), OnnxEmbeddingFunction(tiny, dim=8)
    one(["a cat"])
    models = loaded_models()

    assert other(["a cat"])[0].shape == (8,)
    assert one.engine is not other.engine
    assert loaded_models() == models


@pytest.mark.parametrize(
    "copied",
    [lambda it: pickle.loads(pickle.dumps(it)), copy.copy, copy.deepcopy],
    ids=["pickle", "copy", "deepcopy"],
)
def test_a_copy_has_the_same_engine(tiny: str, copied: Any) -> None:
    ef = OnnxEmbeddingFunction(tiny, dim=16, query_prompt="q: ", engine_options={"lanes": 1})
    before = ef.embed_query(input=["a cat"])

    other = copied(ef)

    assert other.request == ef.request
    assert np.array_equal(other.embed_query(input=["a cat"]), before)
    assert other.engine is ef.engine


def test_a_function_keeps_its_engine_when_many_others_come(tiny: str) -> None:
    ef = OnnxEmbeddingFunction(tiny)
    engine = ef.engine
    for dim in range(1, 12):
        assert OnnxEmbeddingFunction(tiny, dim=dim).engine is not engine

    assert ef.engine is engine


def test_an_engine_that_was_closed_is_made_anew(tiny: str) -> None:
    ef = OnnxEmbeddingFunction(tiny)
    before = ef(["a cat"])
    ef.engine.close()

    assert np.array_equal(ef(["a cat"]), before)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_process_embeds_too(tiny: str) -> None:
    # In a process of its own: a fork of this one would copy the threads' locks of other tests.
    in_a_fresh_process(
        """
        import os, sys, warnings
        from chroma_onnx_embeddings import OnnxEmbeddingFunction
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 on fork and threads
        ef = OnnxEmbeddingFunction(sys.argv[1])
        before = ef(["a cat"])[0].tobytes()
        child = os.fork()
        if not child:
            os._exit(0 if ef(["a cat"])[0].tobytes() == before else 1)
        _, status = os.waitpid(child, 0)
        sys.exit(os.waitstatus_to_exitcode(status))
        """,
        tiny,
    )


@pytest.mark.weights
def test_the_real_model_gives_the_engines_vectors(minilm: str) -> None:
    ef = OnnxEmbeddingFunction(minilm)
    with onnx_embeddings.load(minilm) as engine:
        expected = engine.embed_documents(TEXTS)

    assert np.array_equal(ef(TEXTS), expected)
