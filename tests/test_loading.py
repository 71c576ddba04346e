"""The engines that a process keeps for those that are built anew all the time."""

from __future__ import annotations

import gc
import os
import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

import onnx_embeddings
from onnx_embeddings import EngineConfig, ModelRequest, load_shared
from onnx_embeddings.errors import SettingError
from onnx_embeddings.shared import loaded_models
from onnx_embeddings.testing import write_tiny_model

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def request_(tmp_path: Path) -> Iterator[ModelRequest]:
    request = ModelRequest(model=str(write_tiny_model(tmp_path / "model", seed=77)))
    yield request
    load_shared(request).close()


def test_equal_requests_get_one_engine_that_stays(request_: ModelRequest) -> None:
    gc.collect()
    before = loaded_models()
    vectors = [load_shared(request_).embed_documents(["a text"]) for _ in range(5)]
    gc.collect()
    assert loaded_models() == before + 1
    assert load_shared(request_) is load_shared(ModelRequest.from_dict(request_.to_dict()))
    assert load_shared(request_).stats().texts == 5
    for vector in vectors:
        np.testing.assert_array_equal(vector, vectors[0])


def test_a_relative_folder_is_the_same_engine(
    request_: ModelRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(Path(request_.model).parent)
    assert load_shared(ModelRequest(model="./model")) is load_shared(request_)


def test_other_requests_and_configurations_get_another_engine(request_: ModelRequest) -> None:
    one = load_shared(request_)
    shorter = load_shared(ModelRequest(model=request_.model, dim=8))
    slower = load_shared(request_, config=EngineConfig(lanes=1))
    assert len({id(one), id(shorter), id(slower)}) == 3


def test_it_opens_with_the_first_text(tmp_path: Path) -> None:
    engine = load_shared(ModelRequest(model=str(tmp_path / "missing")))
    with pytest.raises(onnx_embeddings.errors.ModelNotFoundError):
        engine.embed_documents(["a text"])


def test_one_that_was_closed_is_made_anew(request_: ModelRequest) -> None:
    first = load_shared(request_)
    first.close()
    assert first.closed
    again = load_shared(request_)
    assert again is not first
    assert again.embed_documents(["a text"]).shape == (1, 32)


def test_the_eight_used_last_are_kept(request_: ModelRequest, tmp_path: Path) -> None:
    first = load_shared(request_)
    others = [ModelRequest(model=str(tmp_path / str(number))) for number in range(8)]
    for other in others[:7]:
        load_shared(other)
    assert load_shared(request_) is first  # used again, so it is not the next to go
    load_shared(others[7])
    assert load_shared(request_) is first
    for other in others:
        load_shared(other)
    assert load_shared(request_) is not first


def test_threads_get_one_engine(request_: ModelRequest) -> None:
    with ThreadPoolExecutor(16) as pool:
        engines = set(pool.map(lambda _: load_shared(request_), range(64)))
    assert len(engines) == 1


def test_a_bad_request_is_refused() -> None:
    with pytest.raises(SettingError):
        load_shared("org/name")  # type: ignore[arg-type]
    with pytest.raises(SettingError):
        load_shared(ModelRequest(), config={"lanes": 1})  # type: ignore[arg-type]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_child_opens_its_own(request_: ModelRequest, tmp_path: Path) -> None:
    expected = load_shared(request_).embed_documents(["a text"])
    child = os.fork()
    if not child:
        found = load_shared(request_).embed_documents(["a text"])
        (tmp_path / "found").write_bytes(pickle.dumps(found))
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    np.testing.assert_array_equal(pickle.loads((tmp_path / "found").read_bytes()), expected)
