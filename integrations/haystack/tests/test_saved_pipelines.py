"""A pipeline goes through YAML and back: nothing is lost, nothing is loaded, nothing allowed."""

from __future__ import annotations

import copy
import inspect
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from haystack import Document, Pipeline
from haystack.core.errors import DeserializationError
from haystack.marshal import YamlMarshaller

from haystack_integrations.components.embedders.onnx_embeddings import (
    OnnxDocumentEmbedder,
    OnnxTextEmbedder,
)

pytestmark = pytest.mark.usefixtures("no_sockets")

KINDS = (OnnxTextEmbedder, OnnxDocumentEmbedder)
YAML = YamlMarshaller()
GOLDEN = Path(__file__).parent / "golden_pipeline.yaml"

# A value for each init parameter that is not its default. `model` and `variant` come with files.
OTHER: dict[str, Any] = {
    "model": "./a/folder",
    "revision": None,
    "precision": "fp32",
    "variant": "onnx/model.onnx",
    "dim": 16,
    "max_tokens": 12,
    "long_text": "error",
    "query_prompt": "q: ",
    "document_prompt": "d: ",
    "prefix": "<",
    "suffix": ">",
    "engine_options": {"lanes": 1, "batch_tokens": 64, "offline": True, "home": "./home"},
}
OTHER_OF_DOCUMENTS: dict[str, Any] = {
    "meta_fields_to_embed": ["title", "year"],
    "embedding_separator": " | ",
    "progress_bar": False,
}


def other(kind: type) -> dict[str, Any]:
    return OTHER | (OTHER_OF_DOCUMENTS if kind is OnnxDocumentEmbedder else {})


def saved(*embedders: Any) -> str:
    pipeline = Pipeline()
    for number, embedder in enumerate(embedders):
        pipeline.add_component(f"embedder_{number}", embedder)
    return pipeline.dumps()


@pytest.mark.parametrize("kind", KINDS)
def test_every_init_parameter_is_saved_and_comes_back(kind: Any) -> None:
    parameters = dict(inspect.signature(kind.__init__).parameters)
    del parameters["self"]
    settings = other(kind)
    assert settings.keys() == parameters.keys()
    # A revision goes only with a name, all the rest also with a folder.
    for given in (settings, {"model": "org/name", "revision": "main"}):
        embedder = kind(**given)
        for name, value in given.items():
            assert name == "revision" or value != parameters[name].default, name
            assert getattr(embedder, name) == value, name

        loaded: Any = Pipeline.loads(saved(embedder)).get_component("embedder_0")

        found = loaded.to_dict()["init_parameters"]
        defaults = kind().to_dict()["init_parameters"]
        assert found.keys() == parameters.keys()
        assert found == defaults | given
        assert loaded.request == embedder.request


def test_a_loaded_pipeline_gives_the_same_vectors(tiny: str) -> None:
    settings: dict[str, Any] = {"dim": 16, "max_tokens": 12, "query_prompt": "q: ", "prefix": "<"}
    text = OnnxTextEmbedder(tiny, **settings)
    document = OnnxDocumentEmbedder(
        tiny, meta_fields_to_embed=["title"], progress_bar=False, **settings
    )
    given = [Document(content="a cat " * 9, meta={"title": "a title"})]

    pipeline = Pipeline.loads(saved(text, document))
    result = pipeline.run({"embedder_0": {"text": "a cat"}, "embedder_1": {"documents": given}})

    assert result["embedder_0"] == text.run("a cat")
    assert result["embedder_1"] == document.run(given)


def test_the_golden_file_loads_and_is_what_is_saved() -> None:
    golden = YAML.unmarshal(GOLDEN.read_text(encoding="utf-8"))

    pipeline = Pipeline.loads(GOLDEN.read_text(encoding="utf-8"))

    documents, text = pipeline.get_component("documents"), pipeline.get_component("text")
    assert type(documents) is OnnxDocumentEmbedder
    assert type(text) is OnnxTextEmbedder
    assert documents.request.max_tokens == 128
    assert documents.engine_options == {"lanes": 2}
    assert YAML.unmarshal(pipeline.dumps())["components"] == golden["components"]


def test_loading_needs_no_import_no_allowlist_and_no_model() -> None:
    code = """
        import sys
        from haystack import Pipeline
        import haystack.core.pipeline.base
        opened = []
        def watch(event, arguments):
            if event.startswith("socket."):
                raise SystemExit(f"{event} {arguments}")
            if event == "open" and "w" in str(arguments[1]) or event == "os.mkdir":
                opened.append(arguments)
        sys.addaudithook(watch)
        sys.dont_write_bytecode = True
        pipeline = Pipeline.loads(open(sys.argv[1]).read())
        print(type(pipeline.get_component("documents")).__name__, opened)
        print([name for name in ("onnx_embeddings.engine", "onnxruntime") if name in sys.modules])
    """
    environment = {
        name: value for name, value in os.environ.items() if "DESERIALIZATION" not in name
    }
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), str(GOLDEN)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["OnnxDocumentEmbedder []", "[]"]


@pytest.mark.parametrize("kind", KINDS)
def test_from_dict_leaves_its_input_as_it_is(kind: Any) -> None:
    data = kind(**other(kind)).to_dict()
    before = copy.deepcopy(data)

    loaded = kind.from_dict(data)

    assert data == before
    assert loaded.to_dict() == before
    # Nothing of the component is handed out to be changed from outside.
    for value in (data, loaded.to_dict()):
        value["init_parameters"]["engine_options"]["lanes"] = 7
        value["init_parameters"].get("meta_fields_to_embed", []).append("other")
    assert loaded.to_dict() == before


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"dim": 0}, "dim=0: must be a whole number"),
        ({"batch_size": 32}, "batch_size"),
        ({"engine_options": {"lane": 2}}, "lane=2: no such option"),
    ],
)
@pytest.mark.parametrize("kind", KINDS)
def test_a_bad_setting_in_a_file_is_named(
    kind: Any, settings: dict[str, Any], message: str
) -> None:
    data = YAML.unmarshal(saved(kind()))
    data["components"]["embedder_0"]["init_parameters"].update(settings)

    with pytest.raises(DeserializationError) as raised:
        Pipeline.loads(YAML.marshal(data))
    assert re.search(message, str(raised.value.__cause__))


def test_no_secret_is_saved(monkeypatch: pytest.MonkeyPatch, tiny: str) -> None:
    monkeypatch.setenv("HF_TOKEN", "not-to-be-seen")
    embedders = OnnxTextEmbedder(tiny), OnnxDocumentEmbedder(tiny)
    for embedder in embedders:
        embedder.warm_up()

    assert "not-to-be-seen" not in saved(*embedders)
