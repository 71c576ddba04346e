from __future__ import annotations

import dataclasses
import json
import re

import pytest

import onnx_embeddings
from onnx_embeddings import ModelRequest, catalog
from onnx_embeddings.errors import ModelFormatError
from onnx_embeddings.families import COMPILED_FAMILIES
from onnx_embeddings.request import DEFAULT_MODEL


def test_the_default_model_is_known_by_name_and_alias() -> None:
    model = catalog.find(DEFAULT_MODEL)
    assert model is not None
    assert model is catalog.find("all-MiniLM-L6-v2")
    assert (model.name, model.dim, model.max_tokens) == (DEFAULT_MODEL, 384, 256)
    weights = {file.path: file for file in model.files}["model.safetensors"]
    # models.md 1: the hash that many public sources quote
    assert weights.sha256.startswith("53aa51172d142c89")
    assert weights.size == 90_868_376


def test_an_unknown_name_is_none() -> None:
    assert catalog.find("org/unknown") is None


MODELS = {model.name: model for model in catalog.models().values()}
PINNED = {name: model for name, model in MODELS.items() if model.files}


@pytest.mark.parametrize("model", PINNED.values(), ids=PINNED)
def test_every_entry_with_files_is_pinned(model: catalog.CatalogModel) -> None:
    assert model.source == "files"
    assert re.fullmatch("[0-9a-f]{40}", str(model.revision))
    pairs = [(file.sha256, file.size) for file in model.files]
    pairs += [(mirror.sha256, mirror.size) for mirror in model.mirrors]
    for sha256, size in pairs:
        assert re.fullmatch("[0-9a-f]{64}", sha256)
        assert size > 0
    paths = [file.path for file in model.files]
    assert len(set(paths)) == len(paths)
    for path in paths:
        assert not path.startswith("/")
        assert ".." not in path
    assert {"config.json", "modules.json", "tokenizer.json"} <= {
        file.path for file in model.files if not file.optional
    }


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_every_entry_says_what_it_must(model: catalog.CatalogModel) -> None:
    assert ModelRequest(model=model.name).folder is None
    assert model.licence
    assert (model.licence == "other") == (model.licence_note is not None)
    assert 16 <= model.dim <= 8192
    assert 32 <= model.max_tokens <= 32_768
    assert model.languages
    assert all(re.fullmatch("[a-z]{2}|multilingual", language) for language in model.languages)
    assert model.pooling in {"cls", "mean", "last"}
    assert model.source in {"files", "card"}
    assert all(size < model.dim for size in model.matryoshka)
    assert model.revision_seen is None or re.fullmatch("[0-9a-f]{40}", model.revision_seen)
    # Only what runs is listed: from weights, or from a ready file.
    runs = model.family in COMPILED_FAMILIES or model.ready is not None
    assert runs or model.unsupported
    assert json.loads(json.dumps(model.to_dict()))["name"] == model.name
    assert dict(model.facts())["numbers"] == str(model.dim)


def test_names_and_aliases_are_of_one_model_each() -> None:
    names = [name for model in MODELS.values() for name in (model.name, *model.aliases)]
    assert len(set(names)) == len(names) == len(catalog.models())
    assert len(MODELS) >= 40


def test_the_list_is_of_what_runs() -> None:
    models = catalog.list_models()
    assert list(models) == list(onnx_embeddings.list_models())
    assert [model.name for model in models] == sorted((m.name for m in models), key=str.lower)
    assert {m.name for m in models} == {m.name for m in MODELS.values() if not m.unsupported}
    assert len(models) >= 30


@pytest.mark.parametrize("name", ["jina-embeddings-v3", "google/embeddinggemma-300m"])
def test_a_model_that_cannot_run_says_why_before_anything_is_fetched(name: str) -> None:
    with pytest.raises(ModelFormatError, match="not supported") as caught:
        onnx_embeddings.load(name)
    assert "onnx-embeddings list" in str(caught.value.hint)


def test_entries_cannot_be_changed() -> None:
    model = catalog.models()[DEFAULT_MODEL]
    with pytest.raises(dataclasses.FrozenInstanceError):
        model.dim = 1  # type: ignore[misc]
    with pytest.raises(TypeError):
        catalog.models()["x"] = model  # type: ignore[index]


def test_a_model_is_the_same_however_it_is_asked_for() -> None:
    for name, model in catalog.models().items():
        assert catalog.find(name) is model
    for odd in ('"', "models", "", "bert", "MIT", "mean"):
        assert catalog.find(odd) is None
