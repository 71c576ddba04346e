"""What the tests of all adapters share: the tiny model, the real one, a home of their own."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pytest_socket import disable_socket, enable_socket

import onnx_embeddings
from onnx_embeddings import EngineConfig
from onnx_embeddings.testing import write_tiny_model

if TYPE_CHECKING:
    from collections.abc import Iterator

PROMPTS = {"query": "question: ", "document": "text: "}

# Where the root's tests keep the real model too, so that it is fetched once.
MODELS = Path(__file__).parents[1] / ".venv" / "models"


@pytest.fixture(autouse=True)
def _home(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads or writes the models of the user."""
    real = request.node.get_closest_marker("weights")
    monkeypatch.setenv("ONNX_EMBEDDINGS_HOME", str(MODELS if real else tmp_path / "home"))
    # What a test compares must have been computed.
    monkeypatch.setenv("ONNX_EMBEDDINGS_CACHE", "off")


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The folder of a tiny model that has prompts."""
    folder = tmp_path_factory.mktemp("models") / "tiny"
    return str(write_tiny_model(folder, prompts=PROMPTS, seed=11))


@pytest.fixture(scope="session")
def minilm() -> str:
    """The name of the real model, fetched if it must be.

    ONNX_EMBEDDINGS_TEST_MODEL names another model or folder to run these tests on.
    """
    model = os.environ.get("ONNX_EMBEDDINGS_TEST_MODEL", onnx_embeddings.DEFAULT_MODEL)
    onnx_embeddings.load(model, config=EngineConfig(home=MODELS)).close()
    return model


@pytest.fixture
def no_sockets() -> Iterator[None]:
    """Only Unix sockets, which an event loop needs for itself."""
    disable_socket(allow_unix_socket=True)
    yield
    enable_socket()
