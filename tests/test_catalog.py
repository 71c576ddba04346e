from __future__ import annotations

import dataclasses
import re

import pytest

from onnx_embeddings import catalog
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


@pytest.mark.parametrize("model", catalog.models().values(), ids=catalog.models())
def test_every_entry_is_pinned(model: catalog.CatalogModel) -> None:
    assert re.fullmatch("[0-9a-f]{40}", model.revision)
    assert model.licence
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


def test_entries_cannot_be_changed() -> None:
    model = catalog.models()[DEFAULT_MODEL]
    with pytest.raises(dataclasses.FrozenInstanceError):
        model.dim = 1  # type: ignore[misc]
    with pytest.raises(TypeError):
        catalog.models()["x"] = model  # type: ignore[index]
