from __future__ import annotations

import copy
import dataclasses
import json
import os
import pickle
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import onnx_embeddings
from onnx_embeddings import DEFAULT_MODEL, ModelRequest, ModelSpec, Pooling, Precision, Similarity
from onnx_embeddings.errors import ModelNotFoundError, SettingError, SpecMismatchError

if TYPE_CHECKING:
    from collections.abc import Callable

REQUEST = ModelRequest(
    model="org/name",
    revision="v1.0",
    precision="fp32",
    variant="onnx/model.onnx",
    dim=7,
    max_tokens=9,
    long_text="error",
    query_prompt="query: ",
    document_prompt="\u00e9\U0001f642",
)

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

OTHER: dict[str, Any] = {
    "model": "elsewhere/other",
    "weights": "c" * 64,
    "tokenizer": "c" * 64,
    "pooling": Pooling.CLS,
    "normalize": False,
    "dim": 256,
    "precision": "own",
    "scheme": "int8/1",
    "max_tokens": 255,
    "long_text": "error",
    "query_prompt": "query:",
    "document_prompt": " ",
    "similarity": Similarity.DOT,
    "variant": "onnx/model.onnx",
}


class OddPath(os.PathLike[str]):
    """A path of somebody's own."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __fspath__(self) -> str:
        return self.path


# The request.


def test_a_request_goes_through_json_and_back() -> None:
    for request in (REQUEST, ModelRequest()):
        again = ModelRequest.from_dict(json.loads(json.dumps(request.to_dict())))
        assert again == request
        assert hash(again) == hash(request)
    assert set(REQUEST.to_dict()) == {field.name for field in dataclasses.fields(ModelRequest)}


def test_every_field_of_the_request_in_the_tests_is_set() -> None:
    for field in dataclasses.fields(ModelRequest):
        assert getattr(REQUEST, field.name) != field.default, field.name


def test_missing_fields_take_their_defaults() -> None:
    assert ModelRequest.from_dict({}) == ModelRequest()
    assert ModelRequest.from_dict({"dim": 5}) == ModelRequest(dim=5)
    assert ModelRequest().model == DEFAULT_MODEL


@pytest.mark.parametrize("name", ["dims", "Model", "", "__class__", "folder", "pooling"])
def test_an_unknown_field_is_refused_by_name(name: str) -> None:
    with pytest.raises(SettingError, match="no such field") as caught:
        ModelRequest.from_dict({"model": "org/name", name: 5})
    assert caught.value.name == name
    assert "max_tokens" in str(caught.value)


@pytest.mark.parametrize("values", [None, [], "org/name", 5, [["model", "org/name"]]])
def test_what_is_no_dictionary_is_refused(values: Any) -> None:
    with pytest.raises(SettingError):
        ModelRequest.from_dict(values)


def test_a_request_is_a_value() -> None:
    assert pickle.loads(pickle.dumps(REQUEST)) == REQUEST
    assert copy.deepcopy(REQUEST) == REQUEST
    assert dataclasses.replace(REQUEST, dim=8).dim == 8
    with pytest.raises(dataclasses.FrozenInstanceError):
        REQUEST.dim = 8  # type: ignore[misc]
    assert {REQUEST: 1}[dataclasses.replace(REQUEST)] == 1


BAD: dict[str, list[Any]] = {
    "model": ["", " ", "\n", None, 5, b"org/name", ["org/name"], True],
    "revision": [5, b"main", ["main"], True, ""],
    "precision": ["", "FP32", "int3", "own", 32, b"fp32", ["fp32"], {}, True],
    "variant": [
        "",
        5,
        True,
        ["model.onnx"],
        "onnx/model",
        "model.safetensors",
        "../model.onnx",
        "onnx/../../model.onnx",
        "/model.onnx",
        "onnx//model.onnx",
        "./model.onnx",
        "onnx\\model.onnx",
        "C:/model.onnx",
        "C:model.onnx",
    ],
    "dim": [0, -1, 1.0, "5", True, False, np.int64(0), np.float32(5), [], float("nan")],
    "max_tokens": [0, -1, 256.0, "256", True, np.int64(-1), [], 1e30],
    "long_text": ["", "cut", "TRUNCATE", None, True, 5, ["truncate"], {}],
    "query_prompt": [5, b"query: ", True, ["query: "], {}, "lone \ud800"],
    "document_prompt": [5, b"", False, [], "\udfff"],
}


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in BAD.items() for value in values]
)
def test_a_value_that_cannot_be_used_is_refused_with_its_name(name: str, value: object) -> None:
    ways: list[Callable[[], object]] = [
        lambda: ModelRequest(**{name: value}),  # type: ignore[arg-type]
        lambda: ModelRequest.from_dict({name: value}),
        lambda: onnx_embeddings.load(**{name: value}),  # type: ignore[arg-type]
        lambda: dataclasses.replace(ModelRequest(), **{name: value}),  # type: ignore[arg-type]
    ]
    for make in ways:
        with pytest.raises(SettingError) as caught:
            make()
        assert caught.value.name == name
        assert isinstance(caught.value, ValueError)


def test_all_fields_are_among_those_that_are_tried_with_bad_values() -> None:
    assert set(BAD) == {field.name for field in dataclasses.fields(ModelRequest)}


def test_a_precision_may_be_given_by_its_member() -> None:
    request = ModelRequest(precision=Precision.FP32)
    assert type(request.precision) is str
    assert request == ModelRequest(precision="fp32")


# A folder or a name.


@pytest.mark.parametrize(
    "name",
    [
        "org/name",
        "name",
        "sentence-transformers/all-MiniLM-L6-v2",
        "a.b/c_d-1",
        "BAAI/bge-small-en-v1.5",
        "models",
    ],
)
def test_a_name_is_never_a_folder(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).mkdir(parents=True)
    assert ModelRequest(model=name).folder is None
    assert ModelRequest(model=name, revision="main").revision == "main"


@pytest.mark.parametrize(
    "model",
    [
        "./model",
        "../model",
        ".",
        "..",
        "/models/model",
        "/",
        "./with space",
        ".\\model",
        "C:\\models\\model",
        "c:/models/model",
        "\\\\server\\share\\model",
        "/models/\u6a21\u578b",
    ],
)
def test_a_text_that_starts_like_a_path_is_a_folder(model: str) -> None:
    request = ModelRequest(model=model)
    assert request.folder == Path(model)
    assert request.model == model
    with pytest.raises(SettingError, match="a folder on disk has no revisions"):
        ModelRequest(model=model, revision="main")


def test_the_users_own_folder_is_filled_in(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(name, str(Path("/home/somebody")))
    assert ModelRequest(model="~/model").folder == Path("/home/somebody/model")
    assert ModelRequest(model="~/model").to_dict()["model"] == "~/model"


def test_the_folder_of_an_unknown_user_is_an_error_of_ours() -> None:
    for model in ("~no-such-user-here/model", Path("~no-such-user-here")):
        with pytest.raises((SettingError, ModelNotFoundError)):
            onnx_embeddings.load(model)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (Path("model"), f".{os.sep}model"),
        (Path("models/model"), f".{os.sep}{Path('models/model')}"),
        (Path("./model"), f".{os.sep}model"),
        (Path("../model"), str(Path("../model"))),
        (Path("/models/model"), str(Path("/models/model"))),
        (Path(), "."),
        (PurePosixPath("org/name"), f".{os.sep}org/name"),
        (Path("~/model"), str(Path("~/model"))),
        (OddPath("org/name"), f".{os.sep}org/name"),
        (OddPath("/models/model"), "/models/model"),
    ],
)
def test_a_path_is_always_a_folder(path: Any, text: str) -> None:
    request = ModelRequest(model=path)
    assert request.model == text
    assert request.folder is not None
    again = ModelRequest.from_dict(json.loads(json.dumps(request.to_dict())))
    assert again.folder == request.folder


@pytest.mark.parametrize(
    "model",
    [
        "org/name/more",
        "org name",
        "org/na me",
        "org\\name",
        "models\\model",
        "C:model",
        "org/name\n",
        "org/\u540d",
        "https://huggingface.co/org/name",
        "org/name@main",
        "org/",
        "org//name",
        "org/..",
        "org/.",
        "name/../../..",
        "\0",
    ],
)
def test_what_is_neither_a_name_nor_a_folder_is_refused_with_the_rule(model: str) -> None:
    with pytest.raises(SettingError) as caught:
        ModelRequest(model=model)
    assert caught.value.name == "model"
    assert "folder" in str(caught.value)


# The spec and its digests.


def test_every_other_value_is_another_value() -> None:
    assert set(OTHER) == {field.name for field in dataclasses.fields(ModelSpec)}
    for name, value in OTHER.items():
        assert value != getattr(SPEC, name)


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(ModelSpec)])
def test_every_field_that_changes_a_vector_changes_the_fingerprint(name: str) -> None:
    other = dataclasses.replace(SPEC, **{name: OTHER[name]})
    # A model's name says nothing, what a precision means is said by its scheme, and how vectors
    # are compared does not change them.
    assert (other.fingerprint != SPEC.fingerprint) == (
        name not in {"model", "precision", "similarity", "variant"}
    )


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(ModelSpec)])
def test_only_what_makes_vectors_incomparable_changes_the_space(name: str) -> None:
    other = dataclasses.replace(SPEC, **{name: OTHER[name]})
    of_the_space = {"weights", "tokenizer", "pooling", "normalize", "dim"}
    assert (other.space != SPEC.space) == (name in of_the_space)


def test_fields_do_not_run_into_each_other() -> None:
    one = dataclasses.replace(SPEC, query_prompt="a", document_prompt="bc")
    other = dataclasses.replace(SPEC, query_prompt="ab", document_prompt="c")
    assert one.fingerprint != other.fingerprint
    one = dataclasses.replace(SPEC, weights="b" * 64, tokenizer="a" * 64)
    assert one.space != SPEC.space
    composed = dataclasses.replace(SPEC, query_prompt="\u00e9")
    decomposed = dataclasses.replace(SPEC, query_prompt="e\u0301")
    assert composed.fingerprint != decomposed.fingerprint


def test_the_digests_are_what_they_were() -> None:
    """People keep these beside their vectors: if one changes, their vectors are refused."""
    assert SPEC.space == "ec8cb4de4eccb35f1950c4c8f5358ea9d88a002571b4a946d85a0adf7e87454e"
    assert SPEC.fingerprint == "dc74c9098dd71c2d36636eb4f97bf75112bc5f57dc40caba625fbb03f76e6944"
    other = ModelSpec(
        model="x",
        weights="0" * 64,
        tokenizer="f" * 64,
        pooling=Pooling.WEIGHTED_MEAN,
        normalize=False,
        dim=1,
        precision="own",
        scheme="onnx/" + "1" * 64,
        max_tokens=512,
        long_text="error",
        query_prompt='\u00e9\U0001f642 "\\\n',
        document_prompt="e\u0301\x00",
    )
    assert other.space == "7ea84254b5270429286c73913726021ca8d3eeb232ef86f63255b64d76993346"
    assert other.fingerprint == "0fc7638e36b6a03867cbc47654f68dc24fc341915b01e54a9e690fa389e8bd47"


def test_the_words_in_the_digests_are_what_they_were() -> None:
    assert [pooling.value for pooling in Pooling] == [
        "cls",
        "mean",
        "max",
        "mean_sqrt_len",
        "weighted_mean",
        "last",
    ]
    assert Precision.FP32.value == "fp32"


def test_the_spec_of_the_tiny_model_says_what_its_files_say(tiny_folder: Path) -> None:
    with onnx_embeddings.load(tiny_folder, query_prompt="q ", dim=8) as engine:
        spec = engine.spec
        assert spec.model == str(tiny_folder)
        assert (spec.pooling, spec.normalize, spec.dim) == (Pooling.MEAN, True, 8)
        assert (spec.precision, spec.scheme) == ("fp32", "fp32/1")
        assert (spec.max_tokens, spec.long_text) == (32, "truncate")
        assert (spec.query_prompt, spec.document_prompt) == ("q ", "")
        assert all(len(digest) == 64 for digest in (spec.weights, spec.tokenizer))
        assert pickle.loads(pickle.dumps(spec)) == spec
        assert json.loads(json.dumps(dataclasses.asdict(spec))) == dataclasses.asdict(spec)


# The guard.


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(ModelSpec)])
def test_the_guard_lets_pass_what_makes_the_same_vectors(name: str) -> None:
    other = dataclasses.replace(SPEC, **{name: OTHER[name]})
    harmless = {"model", "precision", "similarity", "variant"}
    same_space = {"scheme", "max_tokens", "long_text", "query_prompt", "document_prompt"}
    if name in harmless:
        other.check(SPEC, where="here")
        assert other.differences(SPEC) == {}
        return
    assert other.differences(SPEC) == {name: (OTHER[name], getattr(SPEC, name))}
    with pytest.raises(SpecMismatchError) as caught:
        other.check(SPEC, where="collection 'notes'")
    assert caught.value.differences == {name: (getattr(SPEC, name), OTHER[name])}
    assert caught.value.same_space == (name in same_space)
    assert str(caught.value).startswith("collection 'notes' holds vectors ")
    assert ("accept='same-space'" in str(caught.value)) == (name in same_space)
    if name in same_space:
        other.check(SPEC, where="here", accept="same-space")
    else:
        with pytest.raises(SpecMismatchError):
            other.check(SPEC, where="here", accept="same-space")


def test_one_field_of_the_space_is_enough_to_refuse() -> None:
    other = dataclasses.replace(SPEC, weights="c" * 64, query_prompt="")
    with pytest.raises(SpecMismatchError) as caught:
        other.check(SPEC, where="here", accept="same-space")
    assert set(caught.value.differences) == {"weights", "query_prompt"}
    assert not caught.value.same_space


@pytest.mark.parametrize("stored", [None, {}, SPEC.to_dict(), "spec"])
def test_what_is_compared_must_be_a_spec(stored: Any) -> None:
    with pytest.raises(SettingError, match="from_dict") as caught:
        SPEC.check(stored, where="here")
    assert caught.value.name == "stored"


@pytest.mark.parametrize("accept", ["any", "", True, "space", "same_space", [], {}])
def test_another_word_than_same_space_is_refused(accept: Any) -> None:
    with pytest.raises(SettingError) as caught:
        SPEC.check(SPEC, where="here", accept=accept)
    assert caught.value.name == "accept"


def test_a_spec_goes_through_json_and_back() -> None:
    for spec in (SPEC, dataclasses.replace(SPEC, **OTHER)):
        values = json.loads(json.dumps(spec.to_dict()))
        assert ModelSpec.from_dict(values) == spec
        assert values["space"] == spec.space
        assert values["fingerprint"] == spec.fingerprint
        names = {field.name for field in dataclasses.fields(ModelSpec)} | {"space", "fingerprint"}
        assert set(values) == names - (set() if spec.variant else {"variant"})
        assert type(ModelSpec.from_dict(values).pooling) is Pooling
        assert type(ModelSpec.from_dict(values).similarity) is Similarity


def test_a_record_has_json_types_only(tiny_folder: Path) -> None:
    with onnx_embeddings.load(tiny_folder) as engine:
        for spec in (SPEC, engine.spec, dataclasses.replace(SPEC, precision=Precision.FP32)):
            assert {type(value) for value in spec.to_dict().values()} == {str, int, bool}
            assert ModelSpec.from_dict(spec.to_dict()) == spec


@pytest.mark.parametrize(
    "change",
    [
        {"dim": "384"},
        {"dim": True},
        {"dim": 385},
        {"normalize": 1},
        {"weights": None},
        {"pooling": "sum"},
        {"similarity": 5},
        {"query_prompt": "\ud800"},
        {"space": "0" * 64},
        {"fingerprint": ""},
        {"another": 5},
    ],
)
def test_a_record_that_was_changed_or_is_of_a_later_version_is_refused(
    change: dict[str, Any],
) -> None:
    with pytest.raises(SettingError, match="Hint: a later version") as caught:
        ModelSpec.from_dict(SPEC.to_dict() | change)
    assert caught.value.name.startswith("spec")


@pytest.mark.parametrize("name", sorted({*OTHER, "space", "fingerprint"} - {"variant"}))
def test_a_record_without_a_field_is_refused(name: str) -> None:
    values = SPEC.to_dict()
    del values[name]
    with pytest.raises(SettingError):
        ModelSpec.from_dict(values)


@pytest.mark.parametrize("values", [None, [], "spec", 5, {}, [["model", "x"]]])
def test_what_is_no_record_is_refused(values: Any) -> None:
    with pytest.raises(SettingError):
        ModelSpec.from_dict(values)


def test_requests_say_how_they_differ() -> None:
    assert REQUEST.differences(REQUEST) == {}
    other = dataclasses.replace(REQUEST, dim=8, query_prompt=None)
    assert REQUEST.differences(other) == {"dim": (7, 8), "query_prompt": ("query: ", None)}


# The guard in a file.


def test_a_file_gets_the_spec_and_guards_it(tmp_path: Path) -> None:
    file = tmp_path / "spec.json"
    SPEC.check_file(file)
    assert ModelSpec.from_dict(json.loads(file.read_text(encoding="utf-8"))) == SPEC
    assert [path.name for path in tmp_path.iterdir()] == ["spec.json"]
    SPEC.check_file(str(file))
    with pytest.raises(SpecMismatchError, match=r"spec\.json holds vectors"):
        dataclasses.replace(SPEC, weights="c" * 64).check_file(file, accept="same-space")
    other = dataclasses.replace(SPEC, query_prompt="")
    with pytest.raises(SpecMismatchError):
        other.check_file(file)
    other.check_file(file, accept="same-space")
    assert ModelSpec.from_dict(json.loads(file.read_text(encoding="utf-8"))) == SPEC


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", "null", '{"model": 5}', "\u00e9"])
def test_a_file_that_holds_no_spec_is_refused_and_kept(tmp_path: Path, text: str) -> None:
    file = tmp_path / "spec.json"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(SettingError):
        SPEC.check_file(file)
    assert file.read_text(encoding="utf-8") == text


def test_a_file_in_a_folder_that_is_not_there_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        SPEC.check_file(tmp_path / "missing" / "spec.json")


def test_a_record_from_before_there_were_variants_is_read() -> None:
    values = SPEC.to_dict()
    assert "variant" not in values
    assert ModelSpec.from_dict(values) == SPEC
    values_of_other_types: list[Any] = [5, [], True]
    for odd in values_of_other_types:
        with pytest.raises(SettingError, match=r"spec\.variant"):
            ModelSpec.from_dict(values | {"variant": odd})
