from __future__ import annotations

import copy
import inspect
import pickle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import onnx_embeddings
from onnx_embeddings import Engine, EngineConfig, ModelRequest, errors
from onnx_embeddings.errors import (
    CacheError,
    ClosedError,
    DownloadError,
    InferenceError,
    InputError,
    ModelError,
    ModelFormatError,
    ModelNotFoundError,
    OnnxEmbeddingsError,
    SettingError,
    SpecMismatchError,
    StoreError,
    VerificationError,
)
from onnx_embeddings.testing import write_tiny_model

if TYPE_CHECKING:
    from collections.abc import Callable

ERRORS: list[tuple[OnnxEmbeddingsError, dict[str, Any], str]] = [
    (OnnxEmbeddingsError("it broke"), {"hint": None}, "it broke"),
    (OnnxEmbeddingsError("it broke", "mend it"), {"hint": "mend it"}, "it broke\nHint: mend it"),
    (ModelError("it broke", "mend it"), {"hint": "mend it"}, "it broke\nHint: mend it"),
    (
        ModelNotFoundError("org/name"),
        {"model": "org/name", "looked_in": (), "hint": None},
        "model 'org/name' was not found",
    ),
    (
        ModelNotFoundError("org/name", ["here: nothing", "there: nothing"], "look elsewhere"),
        {"model": "org/name", "looked_in": ("here: nothing", "there: nothing")},
        (
            "model 'org/name' was not found, looked in:\n"
            "  - here: nothing\n"
            "  - there: nothing\n"
            "Hint: look elsewhere"
        ),
    ),
    (
        ModelFormatError(Path("file"), "is damaged", "get another"),
        {"path": "file", "reason": "is damaged", "hint": "get another"},
        "file: is damaged\nHint: get another",
    ),
    (
        DownloadError("hub", "no answer"),
        {"source": "hub", "reason": "no answer", "hint": None},
        "download from hub failed: no answer",
    ),
    (
        VerificationError(Path("file"), "aa", "bb", "get another"),
        {"path": "file", "expected": "aa", "found": "bb"},
        "file has sha256 bb, expected aa\nHint: get another",
    ),
    (
        StoreError(Path("folder"), "disk full", "make room"),
        {"folder": "folder", "reason": "disk full", "hint": "make room"},
        "model store folder: disk full\nHint: make room",
    ),
    (
        SettingError("dim", -1, "must be positive"),
        {"name": "dim", "value": -1, "reason": "must be positive", "hint": None},
        "dim=-1: must be positive",
    ),
    (
        SpecMismatchError(
            "collection 'notes'",
            stored="org/one",
            given="org/other",
            differences={"weights": ("a" * 64, "b" * 64), "dim": (384, 768)},
        ),
        {"where": "collection 'notes'", "stored": "org/one", "given": "org/other"},
        (
            "collection 'notes' holds vectors of another vector space: "
            "made by org/one, and now org/other is given\n"
            f"  - weights: stored '{'a' * 37}…', given '{'b' * 37}…'\n"
            "  - dim: stored 384, given 768\n"
            "Hint: use the model and settings that made them, or fill a new place"
        ),
    ),
    (
        SpecMismatchError(
            "index",
            stored="org/one",
            given="org/one",
            differences={"scheme": ("fp32/1", "int8/1")},
            same_space=True,
        ),
        {"differences": {"scheme": ("fp32/1", "int8/1")}, "same_space": True},
        (
            "index holds vectors made another way: made by org/one, and now org/one is given\n"
            "  - scheme: stored 'fp32/1', given 'int8/1'\n"
            "Hint: use the model and settings that made them, or fill a new place, "
            "or accept='same-space' to mix them on purpose"
        ),
    ),
    (
        CacheError("folder", "may not be written"),
        {"folder": "folder", "reason": "may not be written"},
        (
            "cache folder: may not be written\n"
            "Hint: name a folder that is writable and has space, or cache=None for no cache"
        ),
    ),
    (
        InputError("is no text", index=3, hint="drop it"),
        {"reason": "is no text", "index": 3, "hint": "drop it"},
        "text at index 3: is no text\nHint: drop it",
    ),
    (InputError("no list"), {"reason": "no list", "index": None}, "no list"),
    (
        InferenceError((2, 7), "out of memory"),
        {"shape": (2, 7), "reason": "out of memory"},
        "batch of 2 texts, longest 7 tokens: out of memory",
    ),
    (
        ClosedError("org/name"),
        {"model": "org/name"},
        "engine for org/name is closed\nHint: call onnx_embeddings.load() again",
    ),
]
SECOND_BASES: dict[type[OnnxEmbeddingsError], type[Exception]] = {
    ModelNotFoundError: FileNotFoundError,
    ModelFormatError: ValueError,
    DownloadError: ConnectionError,
    VerificationError: ValueError,
    StoreError: OSError,
    SettingError: ValueError,
    SpecMismatchError: ValueError,
    CacheError: RuntimeError,
    InputError: ValueError,
    InferenceError: RuntimeError,
    ClosedError: RuntimeError,
}
KINDS = [
    value
    for value in vars(errors).values()
    if inspect.isclass(value) and issubclass(value, OnnxEmbeddingsError)
]
NAMES = [f"{type(error).__name__} {number}" for number, (error, _, _) in enumerate(ERRORS)]


def test_no_error_is_left_out_here() -> None:
    assert {type(error) for error, _, _ in ERRORS} == set(KINDS)
    assert set(SECOND_BASES) == set(KINDS) - {OnnxEmbeddingsError, ModelError}


@pytest.mark.parametrize(("error", "attributes", "message"), ERRORS, ids=NAMES)
def test_an_error_says_its_message_and_keeps_its_parts(
    error: OnnxEmbeddingsError, attributes: dict[str, Any], message: str
) -> None:
    assert str(error) == message
    assert error.args == (message,)
    for name, value in attributes.items():
        assert getattr(error, name) == value
    assert repr(error).startswith(type(error).__name__)


@pytest.mark.parametrize(("error", "attributes", "message"), ERRORS, ids=NAMES)
def test_an_error_survives_pickling(
    error: OnnxEmbeddingsError, attributes: dict[str, Any], message: str
) -> None:
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        again = pickle.loads(pickle.dumps(error, protocol))
        assert type(again) is type(error)
        assert str(again) == message
        assert again.args == error.args
        assert vars(again) == vars(error)
        assert vars(again).keys() >= attributes.keys()


@pytest.mark.parametrize(("error", "attributes", "message"), ERRORS, ids=NAMES)
@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_an_error_survives_copying(
    error: OnnxEmbeddingsError,
    attributes: dict[str, Any],
    message: str,
    copied: Callable[[OnnxEmbeddingsError], OnnxEmbeddingsError],
) -> None:
    again = copied(error)
    assert type(again) is type(error)
    assert str(again) == message
    assert vars(again) == vars(error)
    assert vars(again).keys() >= attributes.keys()


def test_notes_survive_pickling() -> None:
    error = InputError("is no text", index=3)
    error.add_note("in the third file")
    assert pickle.loads(pickle.dumps(error)).__notes__ == ["in the third file"]


def test_an_error_about_a_value_that_does_not_pickle_survives_all_the_same() -> None:
    with pytest.raises(SettingError) as caught:
        EngineConfig(lanes=lambda: 2)  # type: ignore[arg-type]
    again = pickle.loads(pickle.dumps(caught.value))
    assert type(again) is SettingError
    assert again.name == "lanes"
    assert str(again) == str(caught.value)


@pytest.mark.parametrize(("kind", "base"), SECOND_BASES.items())
def test_a_handler_that_knows_only_built_in_errors_catches_it_too(
    kind: type[OnnxEmbeddingsError], base: type[Exception]
) -> None:
    assert issubclass(kind, base)
    assert issubclass(kind, OnnxEmbeddingsError)


def test_errors_of_the_model_have_a_base_of_their_own() -> None:
    of_the_model = {kind for kind in KINDS if issubclass(kind, ModelError)}
    assert of_the_model == {
        ModelError,
        ModelNotFoundError,
        ModelFormatError,
        DownloadError,
        VerificationError,
        StoreError,
    }


def test_a_full_or_closed_store_has_a_hint_even_if_nobody_gives_one() -> None:
    assert "ONNX_EMBEDDINGS_HOME" in str(StoreError("folder", "disk full"))


# Each of them comes out of the public interface (those of the network: see test_sources.py).


def caught(kind: type[OnnxEmbeddingsError], do: Callable[[], object]) -> OnnxEmbeddingsError:
    with pytest.raises(OnnxEmbeddingsError) as raised:
        do()
    assert type(raised.value) is kind
    again = pickle.loads(pickle.dumps(raised.value))
    assert str(again) == str(raised.value)
    return raised.value


def test_a_missing_folder_is_model_not_found(tmp_path: Path) -> None:
    folder = tmp_path / "not-there"
    error = caught(ModelNotFoundError, lambda: onnx_embeddings.load(folder))
    assert isinstance(error, ModelNotFoundError)
    assert error.model == str(folder)
    assert "does not exist" in error.looked_in[0]


def test_a_file_in_the_place_of_a_folder_is_model_not_found(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("text", encoding="utf-8")
    error = caught(ModelNotFoundError, lambda: onnx_embeddings.load(tmp_path / "file"))
    assert "is a file" in str(error)


@pytest.mark.parametrize("name", ["a" * 5000, "a\0b", "\ud800"])
def test_a_folder_of_an_impossible_name_is_model_not_found(name: str) -> None:
    error = caught(ModelNotFoundError, lambda: onnx_embeddings.load(f"./{name}"))
    assert str(error)


def test_an_empty_folder_is_model_format(tmp_path: Path) -> None:
    error = caught(ModelFormatError, lambda: onnx_embeddings.load(tmp_path))
    assert isinstance(error, ModelFormatError)
    assert error.path.startswith(str(tmp_path))


def test_a_store_that_cannot_be_written_is_store(tiny_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder", encoding="utf-8")
    config = EngineConfig(home=tmp_path / "file" / "home")
    error = caught(StoreError, lambda: onnx_embeddings.load(tiny_folder, config=config))
    assert isinstance(error, StoreError)
    assert str(tmp_path / "file") in error.folder


def test_a_setting_that_the_model_does_not_have_is_setting(tiny_folder: Path) -> None:
    for settings in ({"dim": 33}, {"max_tokens": 49}, {"max_tokens": 2}, {"precision": "int3"}):
        error = caught(
            SettingError,
            lambda settings=settings: onnx_embeddings.load(tiny_folder, **settings),  # type: ignore[misc]
        )
        assert isinstance(error, SettingError)
        assert {error.name: error.value} == settings


def test_a_text_that_is_none_is_input(tiny: Engine) -> None:
    error = caught(InputError, lambda: tiny.embed_documents(["a", None]))  # type: ignore[list-item]
    assert isinstance(error, InputError)
    assert error.index == 1


def test_numbers_that_are_not_finite_are_inference(tmp_path: Path) -> None:
    from safetensors.numpy import load_file, save_file

    folder = write_tiny_model(tmp_path / "model")
    weights = load_file(folder / "model.safetensors")
    with onnx_embeddings.load(folder) as engine:
        _, cat, _ = engine._opened().encoder.encode(["cat"]).ids[0]
    weights["embeddings.word_embeddings.weight"][cat] = np.nan
    save_file(weights, folder / "model.safetensors")
    with onnx_embeddings.load(folder) as engine:
        error = caught(InferenceError, lambda: engine.embed_documents(["cat"]))
        assert isinstance(error, InferenceError)
        assert error.shape == (1, 3)


@pytest.mark.parametrize(
    ("value", "said"),
    [(np.nan, "are not finite"), (np.inf, "are not finite"), (0.0, "are all zero")],
)
def test_weights_that_make_no_vectors_are_refused_at_load(
    tmp_path: Path, value: float, said: str
) -> None:
    from safetensors.numpy import load_file, save_file

    folder = write_tiny_model(tmp_path / "model")
    weights = load_file(folder / "model.safetensors")
    for tensor in weights.values():
        tensor[:] = value
    save_file(weights, folder / "model.safetensors")
    for _ in range(2):  # nor is it remembered as checked
        error = caught(ModelFormatError, lambda: onnx_embeddings.load(folder))
        assert said in str(error)
        assert "onnx-embeddings verify" in str(error.hint)


def test_a_runtime_that_fails_is_inference_and_prints_nothing(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    # A vocabulary with more words than the table has rows: the runtime finds out.
    folder = write_tiny_model(tmp_path / "model")
    words = [f"word{number}" for number in range(200)]
    (folder / "tokenizer.json").unlink()
    vocabulary = "\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *words])
    (folder / "vocab.txt").write_text(vocabulary, encoding="utf-8")
    capfd.readouterr()  # what older tokenizers say of the tiny model's vocabulary
    with onnx_embeddings.load(folder) as engine:
        assert engine.embed_documents(["word1"]).shape == (1, 32)
        error = caught(InferenceError, lambda: engine.embed_documents(["word1", "word199"]))
        assert error.__cause__ is not None
        assert engine.embed_documents(["word1"]).shape == (1, 32)
    assert capfd.readouterr() == ("", "")


def test_an_engine_after_its_end_is_closed(tiny_folder: Path) -> None:
    engine = onnx_embeddings.load(tiny_folder)
    engine.close()
    methods: list[Callable[[], object]] = [
        lambda: engine.embed_documents(["a"]),
        lambda: engine.embed_queries(["a"]),
        lambda: engine.count_tokens(["a"]),
        lambda: engine.spec,
        lambda: engine.path,
        engine.open,
    ]
    for method in methods:
        error = caught(ClosedError, method)
        assert isinstance(error, ClosedError)
        assert error.model == str(tiny_folder)


def test_a_failed_open_may_be_tried_again(tmp_path: Path) -> None:
    engine = Engine(ModelRequest(model=str(tmp_path / "model")))
    caught(ModelNotFoundError, engine.open)
    write_tiny_model(tmp_path / "model")
    with engine:
        assert engine.embed_documents(["a"]).shape == (1, 32)
