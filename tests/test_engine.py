from __future__ import annotations

import copy
import pickle
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import onnx_embeddings
from onnx_embeddings import EngineConfig, ModelRequest
from onnx_embeddings.engine import Engine
from onnx_embeddings.errors import ClosedError, InferenceError, InputError, SettingError
from onnx_embeddings.testing import write_tiny_model

if TYPE_CHECKING:
    from pathlib import Path

WORDS = ["the", "cat", "sits", "on", "a", "red", "moon", "two", "dogs", "run", "to", "sea", "is"]
TEXTS = [
    "",
    " ",
    "\n\t",
    "a",
    "the cat sits",
    "the dog runs",
    "the cat sits",
    "\u4f60\u597d \u4e16\u754c",
    "\U0001f642\U0001f642",
    "[SEP] [CLS] [PAD]",
    "ab\x00cd",
    *(" ".join(WORDS[i % 13] for i in range(start, start + size)) for start, size in
      [(0, 3), (4, 9), (2, 17), (7, 28), (1, 29), (5, 30), (3, 31), (0, 200)]),
]  # fmt: skip


def spoil_word(folder: Path, word: str) -> None:
    """Texts with this word get vectors that are not finite."""
    from safetensors.numpy import load_file, save_file

    with onnx_embeddings.load(folder) as engine:
        _, token, _ = engine._opened().encoder.encode([word]).ids[0]
    weights = load_file(folder / "model.safetensors")
    weights["embeddings.word_embeddings.weight"][token] = np.nan
    save_file(weights, folder / "model.safetensors")


def test_vectors_are_float32_rows_of_unit_length(tiny: Engine) -> None:
    vectors = tiny.embed_documents(TEXTS)
    assert vectors.shape == (len(TEXTS), 32)
    assert vectors.dtype == np.float32
    assert vectors.flags.c_contiguous
    assert vectors.flags.owndata
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)


def test_no_texts_give_no_rows(tiny: Engine) -> None:
    nothing: list[Any] = [[], (), iter([]), np.array([], dtype=str)]
    for none in nothing:
        assert tiny.embed_documents(none).shape == (0, 32)
        assert tiny.embed_queries(none).dtype == np.float32
        assert tiny.count_tokens(none).shape == (0,)


def test_any_iterable_of_texts_will_do(tiny: Engine) -> None:
    texts = ["the cat", "a dog", "two"]
    expected = tiny.embed_documents(texts)
    for same in (tuple(texts), iter(texts), (text for text in texts), dict.fromkeys(texts).keys()):
        np.testing.assert_array_equal(tiny.embed_documents(same), expected)
    np.testing.assert_array_equal(tiny.embed_documents(np.array(texts)), expected)


@pytest.mark.parametrize("budget", [1, 16, 64, 512, 100_000])
@pytest.mark.parametrize("lanes", [1, 2, 5])
def test_budget_and_lanes_do_not_change_a_bit(tiny_folder: Path, budget: int, lanes: int) -> None:
    with onnx_embeddings.load(tiny_folder) as engine:
        alone = np.concatenate([engine.embed_documents([text]) for text in TEXTS])
    config = EngineConfig(batch_tokens=budget, lanes=lanes)
    with onnx_embeddings.load(tiny_folder, config=config) as engine:
        np.testing.assert_array_equal(engine.embed_documents(TEXTS), alone)
        order = np.random.default_rng(budget + lanes).permutation(len(TEXTS))
        shuffled = engine.embed_documents([TEXTS[i] for i in order])
        np.testing.assert_array_equal(shuffled, alone[order])


def test_more_texts_than_a_window_keep_their_order(tiny: Engine) -> None:
    texts = [f"{WORDS[i % 13]} {i} {WORDS[i % 7]}" for i in range(2500)]
    vectors = tiny.embed_documents(texts)
    for i in (0, 1, 1023, 1024, 2047, 2048, 2499):
        np.testing.assert_array_equal(vectors[i], tiny.embed_documents([texts[i]])[0])


def test_equal_texts_get_equal_bits(tiny: Engine) -> None:
    vectors = tiny.embed_documents(["", "", "x", "x", "", " "] * 50)
    assert len(np.unique(vectors[[0, 1, 4, 6]], axis=0)) == 1
    assert len(np.unique(vectors[[2, 3, 8]], axis=0)) == 1
    # A blank text has no tokens of its own either.
    np.testing.assert_array_equal(vectors[5], vectors[0])


def test_a_text_cut_in_the_middle_of_control_characters_is_not_cut(tiny: Engine) -> None:
    with_nul, without = tiny.embed_documents(["ab\x00cd", "ab"])
    assert np.abs(with_nul - without).max() > 1e-3


def test_a_long_text_is_cut_at_the_limit(tiny: Engine) -> None:
    counts = tiny.count_tokens(["cat " * 30, "cat " * 31, "cat " * 100])
    assert counts.tolist() == [32, 33, 102]
    assert counts.dtype == np.int64
    vectors = tiny.embed_documents(["cat " * 30, "cat " * 31, "cat " * 30 + "dog"])
    np.testing.assert_array_equal(vectors[0], vectors[1])
    np.testing.assert_array_equal(vectors[0], vectors[2])


def test_a_long_text_is_an_error_where_that_is_asked_for(tiny_folder: Path) -> None:
    with onnx_embeddings.load(tiny_folder, long_text="error") as engine:
        engine.embed_documents(["cat " * 30])
        with pytest.raises(
            InputError, match="index 1: 33 tokens, and this model takes 32"
        ) as caught:
            engine.embed_documents(["a", "cat " * 31])
        assert caught.value.index == 1
        with pytest.raises(InputError) as caught:
            engine.embed_documents(["a"] * 1500 + ["cat " * 31])
        assert caught.value.index == 1500


def test_max_tokens_moves_the_limit(tiny_folder: Path) -> None:
    with (
        onnx_embeddings.load(tiny_folder, max_tokens=4) as short,
        onnx_embeddings.load(tiny_folder, max_tokens=48) as long,
    ):
        assert (short.spec.max_tokens, long.spec.max_tokens) == (4, 48)
        np.testing.assert_array_equal(
            short.embed_documents(["the cat sits on"]), short.embed_documents(["the cat"])
        )
        different = long.embed_documents(["cat " * 46, "cat " * 45])
        assert np.abs(different[0] - different[1]).max() > 1e-4
        assert short.spec.space == long.spec.space
        assert short.spec.fingerprint != long.spec.fingerprint
    for wrong in (1, 2, 49, 10**9):
        with pytest.raises(SettingError, match="max_tokens"):
            onnx_embeddings.load(tiny_folder, max_tokens=wrong)


def test_dim_keeps_the_first_numbers_at_unit_length(tiny: Engine, tiny_folder: Path) -> None:
    whole = tiny.embed_documents(TEXTS)
    with onnx_embeddings.load(tiny_folder, dim=10) as engine:
        cut = engine.embed_documents(TEXTS)
        assert engine.spec.dim == 10
        assert engine.spec.space != tiny.spec.space
    expected = whole[:, :10] / np.linalg.norm(whole[:, :10], axis=1, keepdims=True)
    np.testing.assert_allclose(cut, expected, atol=1e-6)
    with pytest.raises(SettingError, match="dim=33: this model's vectors have 32 numbers"):
        onnx_embeddings.load(tiny_folder, dim=33)


def test_prompts_go_before_the_text_by_role(tmp_path: Path) -> None:
    prompts = {"query": "query: ", "passage": "document: "}
    folder = write_tiny_model(tmp_path / "prompted", prompts=prompts)
    plain = write_tiny_model(tmp_path / "plain")
    with onnx_embeddings.load(folder) as engine, onnx_embeddings.load(plain) as bare:
        query, document = engine.embed_queries(["the cat"]), engine.embed_documents(["the cat"])
        np.testing.assert_array_equal(query, bare.embed_documents(["query: the cat"]))
        np.testing.assert_array_equal(document, bare.embed_queries(["document: the cat"]))
        assert np.abs(query - document).max() > 1e-3
        assert engine.count_tokens(["the cat"]).tolist() == [4]
        assert engine.spec.space == bare.spec.space
        assert engine.spec.fingerprint != bare.spec.fingerprint
    with onnx_embeddings.load(folder, query_prompt="", document_prompt="a ") as engine:
        np.testing.assert_array_equal(
            engine.embed_queries(["a the cat"]), engine.embed_documents(["the cat"])
        )


@pytest.mark.parametrize(
    ("texts", "index", "words"),
    [
        ("a text", None, "one text where a list"),
        (b"bytes", None, "bytes where a list"),
        (None, None, "NoneType where a list"),
        (5, None, "int where a list"),
        (np.zeros((2, 2)), None, "ndarray where a list"),
        ({"cat": "a text"}, None, "dict where a list"),
        (["a", None], 1, "None"),
        (["a", float("nan")], 1, "nan"),
        ([np.float64("nan")], 0, "nan"),
        (["a", "b", 5], 2, "5"),
        (["a", b"x"], 1, "bytes"),
        ([True], 0, "True"),
        ([["a", "b"]], 0, "list"),
        ([("a", "b")], 0, "tuple"),
        (["fine", "bad \ud800 text"], 1, "surrogate"),
    ],
)
def test_bad_input_is_named_with_its_index(
    tiny: Engine, texts: object, index: int | None, words: str
) -> None:
    for method in (tiny.embed_documents, tiny.embed_queries, tiny.count_tokens):
        with pytest.raises(InputError, match=words) as caught:
            method(texts)  # type: ignore[arg-type]
        assert caught.value.index == index
        assert isinstance(caught.value, ValueError)
    assert tiny.stats().texts == 0


def test_a_vector_that_is_not_finite_is_an_error_and_names_the_text(tmp_path: Path) -> None:
    folder = write_tiny_model(tmp_path / "model")
    spoil_word(folder, "moon")
    with onnx_embeddings.load(folder) as engine:
        with pytest.raises(InferenceError, match="index 2 is not finite") as caught:
            engine.embed_documents(["a", "cat", "the moon", "sea"])
        assert caught.value.shape[0] >= 1
        # The next call is not harmed.
        assert np.isfinite(engine.embed_documents(["a", "cat"])).all()


def test_an_engine_counts_what_it_does(tiny: Engine) -> None:
    tiny.embed_documents(["the cat", "cat " * 40, ""])
    stats = tiny.stats()
    assert (stats.texts, stats.tokens, stats.cut_texts) == (3, 4 + 32 + 2, 1)
    assert stats.batches >= 1
    assert stats.padded_tokens >= stats.tokens


def test_a_bar_is_shown_only_when_asked_for(
    tiny: Engine, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = tiny.embed_documents(TEXTS)
    assert capsys.readouterr() == ("", "")
    np.testing.assert_array_equal(tiny.embed_documents(TEXTS, progress=True), expected)
    out, err = capsys.readouterr()
    assert not out
    assert f"{len(TEXTS)}/{len(TEXTS)}" in err
    tiny.embed_documents(["alone"], progress=True)
    assert "1/1" in capsys.readouterr().err


def test_a_closed_engine_says_so(tiny_folder: Path) -> None:
    engine = onnx_embeddings.load(tiny_folder)
    engine.close()
    engine.close()
    with pytest.raises(ClosedError, match="is closed"):
        engine.embed_documents(["a"])
    with pytest.raises(ClosedError):
        _ = engine.spec
    with engine.__class__(engine.request) as other:
        assert other.embed_documents(["a"]).shape == (1, 32)


def test_making_an_engine_touches_nothing(tmp_path: Path) -> None:
    engine = Engine(ModelRequest(model=str(tmp_path / "is-not-there")))
    assert engine.request.folder == tmp_path / "is-not-there"
    assert "is-not-there" in repr(engine)
    with pytest.raises(FileNotFoundError):
        engine.open()


def test_an_engine_pickles_as_its_request_and_copies_to_itself(tiny: Engine) -> None:
    assert copy.deepcopy(tiny) is tiny
    assert copy.copy(tiny) is tiny
    payload = pickle.dumps(tiny)
    assert len(payload) < 2000
    again = pickle.loads(payload)
    assert again.request == tiny.request
    np.testing.assert_array_equal(again.embed_documents(TEXTS), tiny.embed_documents(TEXTS))
    again.close()


def test_load_takes_a_request_a_path_or_a_text(tiny_folder: Path) -> None:
    request = ModelRequest(model=str(tiny_folder), dim=7)
    for model in (request, tiny_folder, str(tiny_folder), f"{tiny_folder}/"):
        with onnx_embeddings.load(model) as engine:
            assert engine.path == tiny_folder
            assert engine.spec.dim == (7 if model is request else 32)


def test_load_takes_a_request_or_its_parts_and_not_both(tiny_folder: Path) -> None:
    with pytest.raises(SettingError, match="dim"):
        onnx_embeddings.load(ModelRequest(model=str(tiny_folder)), dim=7)


def test_a_vector_that_is_not_finite_is_an_error_in_every_window(tmp_path: Path) -> None:
    folder = write_tiny_model(tmp_path / "model")
    spoil_word(folder, "moon")
    with onnx_embeddings.load(folder) as engine:
        for place in (0, 1023, 1024, 2999):
            texts = [f"cat {i}" for i in range(3000)]
            texts[place] = "the moon"
            with pytest.raises(InferenceError, match=f"index {place} is not finite"):
                engine.embed_documents(texts)


def test_a_request_for_a_relative_folder_means_the_same_one_for_good(
    tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tiny_folder.parent)
    engine = Engine(ModelRequest(model=f"./{tiny_folder.name}"))
    payload = pickle.dumps(engine)
    monkeypatch.chdir(tmp_path)
    for one in (engine, pickle.loads(payload)):
        assert one.path == tiny_folder
        one.close()


def test_an_engine_is_made_of_a_request_and_a_configuration() -> None:
    with pytest.raises(SettingError, match="must be a ModelRequest"):
        Engine("./model")  # type: ignore[arg-type]
    with pytest.raises(SettingError, match="must be an EngineConfig"):
        onnx_embeddings.load(config={"lanes": 1})  # type: ignore[arg-type]


def test_whole_numbers_of_numpy_will_do(tiny_folder: Path) -> None:
    config = EngineConfig(lanes=np.int64(1), batch_tokens=np.int32(64))  # type: ignore[arg-type]
    with onnx_embeddings.load(tiny_folder, dim=np.int64(5), config=config) as engine:  # type: ignore[arg-type]
        assert engine.embed_documents(["a"]).shape == (1, 5)
        assert type(engine.request.dim) is int
