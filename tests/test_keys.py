from __future__ import annotations

import dataclasses
import hashlib
from typing import TYPE_CHECKING, Any

import pytest

import onnx_embeddings
from onnx_embeddings import EngineConfig, ModelRequest, ModelSpec, Pooling
from onnx_embeddings.keys import keys

if TYPE_CHECKING:
    from pathlib import Path

    from onnx_embeddings import Engine

SPEC = ModelSpec(
    model="org/name",
    weights="a" * 64,
    tokenizer="b" * 64,
    pooling=Pooling.MEAN,
    normalize=True,
    dim=384,
    precision="fp32",
    scheme="fp32/1",
    max_tokens=256,
    long_text="truncate",
    query_prompt="query: ",
    document_prompt="",
)

# For each field of a request: what gives other vectors of the tiny model, or can't.
REQUESTS: dict[str, Any] = {
    "model": None,  # another model is tried on its own
    "revision": None,  # names one: its content counts
    "precision": "int8",
    "variant": None,  # a ready file's hash is in the scheme
    "dim": 8,
    "max_tokens": 7,
    "long_text": "error",
    "query_prompt": None,  # the prompt applied counts
    "document_prompt": None,
}
CONFIGS: dict[str, Any] = {
    "cache": "folder",
    "cache_bytes": 2**20,
    "lanes": 1,
    "batch_tokens": 64,
    "home": "elsewhere",
    "offline": True,
    "mirror": "https://mirror.example",
}


def key(engine: Engine) -> bytes:
    return keys(engine.spec, "", ["a text"])[0]


def test_every_field_of_request_and_config_is_tried_here() -> None:
    assert set(REQUESTS) == {field.name for field in dataclasses.fields(ModelRequest)}
    assert set(CONFIGS) == {field.name for field in dataclasses.fields(EngineConfig)}


@pytest.mark.parametrize("name", [name for name, value in REQUESTS.items() if value is not None])
def test_what_changes_a_vector_changes_the_key(name: str, tiny: Engine, tiny_folder: Path) -> None:
    request = ModelRequest(**{"model": str(tiny_folder), name: REQUESTS[name]})
    with onnx_embeddings.load(request) as other:
        assert key(other) != key(tiny)


@pytest.mark.parametrize("name", CONFIGS)
def test_how_an_engine_works_changes_no_key(
    name: str, tiny: Engine, tiny_folder: Path, tmp_path: Path
) -> None:
    value = tmp_path / CONFIGS[name] if name in {"cache", "home"} else CONFIGS[name]
    with onnx_embeddings.load(tiny_folder, config=EngineConfig(**{name: value})) as other:
        assert key(other) == key(tiny)


SPECS: dict[str, Any] = {
    "model": "other/name",
    "weights": "c" * 64,
    "tokenizer": "c" * 64,
    "pooling": Pooling.CLS,
    "normalize": False,
    "dim": 256,
    "precision": "own",
    "scheme": "int8/1",
    "max_tokens": 255,
    "long_text": "error",
    "query_prompt": "other",
    "document_prompt": "other",
    "similarity": "dot",
    "variant": "onnx/model.onnx",
}


def test_only_fields_of_the_spec_that_change_a_vector_are_in_the_key() -> None:
    assert set(SPECS) == {field.name for field in dataclasses.fields(ModelSpec)}
    no_matter = {"model", "precision", "query_prompt", "document_prompt", "similarity", "variant"}
    for name, value in SPECS.items():
        other = dataclasses.replace(SPEC, **{name: value})
        assert (keys(other, "", ["a"]) == keys(SPEC, "", ["a"])) == (name in no_matter), name


def test_fields_do_not_run_into_each_other() -> None:
    pairs = [("ab", "c"), ("a", "bc"), ("", "abc"), ("abc", ""), ("ab", "c\x00"), ("ab\x00", "c")]
    assert len({keys(SPEC, prompt, [text])[0] for prompt, text in pairs}) == len(pairs)


def test_texts_that_only_look_alike_have_other_keys() -> None:
    texts = ["\u00e9", "e\u0301", "ab", "ab\x00cd", "\x00", "", " ", "a", "A", "a\n", "\ufeffa"]
    assert len(set(keys(SPEC, "", texts))) == len(texts)


def test_a_query_and_a_document_with_one_prompt_share_a_key() -> None:
    other = dataclasses.replace(SPEC, document_prompt="query: ")
    assert keys(other, other.document_prompt, ["a"]) == keys(SPEC, SPEC.query_prompt, ["a"])


def test_a_key_is_a_whole_digest_and_the_same_for_good() -> None:
    (found,) = keys(SPEC, "query: ", ["a text \U0001f642"])
    fields = ["vector/1", SPEC.space, "fp32/1", "256", "truncate", "query: ", "a text \U0001f642"]
    data = b"".join(len(f.encode()).to_bytes(8, "little") + f.encode() for f in fields)
    assert found == hashlib.sha256(data).digest()
    assert found.hex() == hashlib.sha256(data).hexdigest()
    assert keys(SPEC, "", []) == []


def test_models_whose_content_differs_share_no_key(tiny: Engine, tmp_path: Path) -> None:
    from onnx_embeddings.testing import write_tiny_model

    folder = tmp_path / "model"
    seen = {key(tiny)}
    for seed in (1, 2):  # the second one is written over the first
        with onnx_embeddings.load(write_tiny_model(folder, seed=seed)) as other:
            seen.add(key(other))
    assert len(seen) == 3
