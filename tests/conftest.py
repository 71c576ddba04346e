"""What all tests share: a store of their own, the tiny model, the real one, evaluation data."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import onnx_embeddings
from onnx_embeddings import Engine, EngineConfig
from onnx_embeddings.testing import write_tiny_model

if TYPE_CHECKING:
    from collections.abc import Iterator

REPOSITORY = Path(__file__).parent.parent


def of_us(printed: str) -> str:
    """What a process printed, less what tokenizers before 0.23.1 says of its own at a fork."""
    return re.sub(
        r"huggingface/tokenizers: The current process just got forked(.*\n){4}", "", printed
    )


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads or writes the models of the user, nor follows the user's settings."""
    for name in list(os.environ):
        if name.startswith(("ONNX_EMBEDDINGS_", "HF_", "HUGGINGFACE_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("ONNX_EMBEDDINGS_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "huggingface"))
    # What a test compares must have been computed; tests of the cache name a folder.
    monkeypatch.setenv("ONNX_EMBEDDINGS_CACHE", "off")


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny model, written once; tests that change a folder write their own."""
    return write_tiny_model(tmp_path_factory.mktemp("tiny") / "model")


@pytest.fixture
def tiny(tiny_folder: Path) -> Iterator[Engine]:
    """An engine for the tiny model."""
    with onnx_embeddings.load(tiny_folder) as engine:
        yield engine


@pytest.fixture(scope="session")
def models_home() -> Path:
    """A store with the real model, fetched by the product's own code and kept between runs."""
    return REPOSITORY / ".venv" / "models"


@pytest.fixture(scope="session")
def minilm(models_home: Path) -> Iterator[Engine]:
    """An engine for the default model, with its real weights."""
    with onnx_embeddings.load(config=EngineConfig(home=models_home)) as engine:
        yield engine


@pytest.fixture(scope="session")
def data() -> Path:
    """Evaluation data, which is not part of the project."""
    folder = os.environ.get("ONNX_EMBEDDINGS_DATA")
    if not folder:
        pytest.skip("set ONNX_EMBEDDINGS_DATA to the folder that holds stsb/ and cranfield/")
    return Path(folder)
