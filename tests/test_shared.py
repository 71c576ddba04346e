from __future__ import annotations

import gc
import threading
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import onnx_embeddings
from onnx_embeddings import EngineConfig, shared
from onnx_embeddings.errors import ModelFormatError
from onnx_embeddings.shared import loaded_models
from onnx_embeddings.testing import write_tiny_model

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def at_once(number: int, do: Callable[[int], object]) -> list[object]:
    """The results of so many threads that start together."""
    barrier = threading.Barrier(number)
    results: list[object] = [None] * number

    def run(i: int) -> None:
        barrier.wait(20)
        try:
            results[i] = do(i)
        except Exception as error:  # noqa: BLE001  a thread hands back what it got
            results[i] = error

    threads = [threading.Thread(target=run, args=(i,)) for i in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return results


def test_engines_of_one_model_share_one_session(tiny_folder: Path) -> None:
    before = loaded_models()
    first = onnx_embeddings.load(tiny_folder)
    second = onnx_embeddings.load(
        tiny_folder, max_tokens=8, dim=4, query_prompt="q ", config=EngineConfig(lanes=1)
    )
    assert loaded_models() == before + 1
    assert first._opened().sessions is second._opened().sessions
    first.close()
    assert loaded_models() == before + 1
    assert second.embed_documents(["a"]).shape == (1, 4)
    second.close()
    assert loaded_models() == before


def test_the_same_weights_elsewhere_are_the_same_model(tmp_path: Path) -> None:
    before = loaded_models()
    folders = [write_tiny_model(tmp_path / name, seed=3) for name in ("one", "two")]
    engines = [onnx_embeddings.load(folder) for folder in folders]
    assert loaded_models() == before + 1
    assert engines[0].spec.fingerprint == engines[1].spec.fingerprint
    for engine in engines:
        engine.close()


def test_another_model_is_another_session(tmp_path: Path, tiny_folder: Path) -> None:
    before = loaded_models()
    other_folder = write_tiny_model(tmp_path / "other", seed=1)
    with onnx_embeddings.load(tiny_folder) as one, onnx_embeddings.load(other_folder) as other:
        assert loaded_models() == before + 2
        assert one.spec.space != other.spec.space
        difference = one.embed_documents(["a cat"]) - other.embed_documents(["a cat"])
        assert np.abs(difference).max() > 1e-3


def test_an_engine_that_is_dropped_gives_its_model_back(tiny_folder: Path) -> None:
    before = loaded_models()
    engine = onnx_embeddings.load(tiny_folder)
    assert loaded_models() == before + 1
    del engine
    gc.collect()
    assert loaded_models() == before


def test_sixteen_threads_that_load_at_once_load_one_session(tmp_path: Path) -> None:
    before = loaded_models()
    folder = write_tiny_model(tmp_path / "model", seed=5)
    engines = at_once(16, lambda _: onnx_embeddings.load(folder))
    assert all(isinstance(engine, onnx_embeddings.Engine) for engine in engines)
    assert loaded_models() == before + 1
    sessions = {id(engine._opened().sessions) for engine in engines}  # type: ignore[attr-defined]
    assert len(sessions) == 1
    del engines
    gc.collect()
    assert loaded_models() == before


def test_a_load_that_failed_is_tried_again(tmp_path: Path) -> None:
    before = loaded_models()
    folder = write_tiny_model(tmp_path / "model", seed=6)
    whole = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(whole[:1000])
    for _ in range(2):
        with pytest.raises(ModelFormatError, match=r"model\.safetensors"):
            onnx_embeddings.load(folder)
    (folder / "model.safetensors").write_bytes(whole)
    with onnx_embeddings.load(folder) as engine:
        assert engine.embed_documents(["a"]).shape == (1, 32)
    assert loaded_models() == before


def test_sixteen_threads_get_the_vectors_of_one(tiny_folder: Path) -> None:
    texts = [f"the cat {'sits ' * (i % 25)}{i}" for i in range(60)]
    limits = (8, 32)
    engines = {limit: onnx_embeddings.load(tiny_folder, max_tokens=limit) for limit in limits}
    expected = {limit: engine.embed_documents(texts) for limit, engine in engines.items()}

    def embed(i: int) -> bool:
        limit = limits[i % 2]
        rows = np.random.default_rng(i).permutation(len(texts))
        for _ in range(5):
            many = engines[limit].embed_documents([texts[row] for row in rows])
            (one,) = engines[limit].embed_queries([texts[i]])
            if not np.array_equal(many, expected[limit][rows]):
                return False
            if not np.array_equal(one, expected[limit][i]):
                return False
        return True

    assert at_once(16, embed) == [True] * 16


def test_a_bad_text_fails_only_its_own_caller(tiny: onnx_embeddings.Engine) -> None:
    expected = tiny.embed_documents(["the cat", "the dog"])

    def embed(i: int) -> object:
        texts: list[Any] = ["the cat", "the dog" if i % 2 else None]
        return tiny.embed_documents(texts)

    for i, result in enumerate(at_once(8, embed)):
        if i % 2:
            np.testing.assert_array_equal(result, expected)
        else:
            assert isinstance(result, onnx_embeddings.errors.InputError)


def test_a_file_replaced_in_place_is_another_model(tmp_path: Path) -> None:
    folder = write_tiny_model(tmp_path / "model", seed=7)
    with onnx_embeddings.load(folder) as engine:
        first, fingerprint = engine.embed_documents(["a cat"]), engine.spec.fingerprint
    write_tiny_model(folder, seed=8)
    with onnx_embeddings.load(folder) as engine:
        assert engine.spec.fingerprint != fingerprint
        assert np.abs(engine.embed_documents(["a cat"]) - first).max() > 1e-3


def test_the_folder_may_vanish_while_the_engine_runs(tmp_path: Path) -> None:
    import shutil

    folder = write_tiny_model(tmp_path / "model", seed=9)
    with onnx_embeddings.load(folder) as engine:
        expected = engine.embed_documents(["a cat"])
        shutil.rmtree(folder)
        np.testing.assert_array_equal(engine.embed_documents(["a cat"]), expected)


def test_close_frees_the_model_while_the_engine_lives(tmp_path: Path) -> None:
    engine = onnx_embeddings.load(write_tiny_model(tmp_path / "model", seed=7412))
    sessions = weakref.ref(engine._opened().sessions)
    encoder = weakref.ref(engine._opened().encoder)
    engine.close()
    gc.collect()
    assert (sessions(), encoder()) == (None, None)


def test_engines_with_one_limit_share_one_tokenizer(tiny_folder: Path) -> None:
    with (
        onnx_embeddings.load(tiny_folder) as one,
        onnx_embeddings.load(tiny_folder, dim=3) as same,
        onnx_embeddings.load(tiny_folder, max_tokens=8) as other,
    ):
        assert one._opened().encoder is same._opened().encoder
        assert one._opened().encoder is not other._opened().encoder


def test_the_garbage_collector_may_drop_an_engine_anywhere(tmp_path: Path) -> None:
    before = loaded_models()
    engine: Any = onnx_embeddings.load(write_tiny_model(tmp_path / "model", seed=7413))
    engine.itself = engine
    with shared._registry._lock:
        del engine
        gc.collect()
    shared._registry.release_pending()
    assert loaded_models() == before


def test_a_model_is_tried_once_for_each_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a text, when it is loaded; later starts know that it makes vectors."""
    tried = []
    check = shared._check

    def watched(*arguments: Any) -> None:
        tried.append(arguments)
        check(*arguments)

    monkeypatch.setattr(shared, "_check", watched)
    folder = write_tiny_model(tmp_path / "model", seed=41)
    for expected in (1, 1):
        onnx_embeddings.load(folder, config=EngineConfig(home=tmp_path / "one")).close()
        assert len(tried) == expected
    onnx_embeddings.load(folder, config=EngineConfig(home=tmp_path / "two")).close()
    onnx_embeddings.load(
        folder, precision="int8", config=EngineConfig(home=tmp_path / "one")
    ).close()
    write_tiny_model(folder, seed=42)
    onnx_embeddings.load(folder, config=EngineConfig(home=tmp_path / "one")).close()
    assert len(tried) == 4
