"""Every test has its own database, sends nothing, and leaves no engine behind."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

import chromadb
import pytest
from chromadb.config import Settings

from onnx_embeddings import ModelRequest, load_shared

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from chromadb.api import ClientAPI


@pytest.fixture(autouse=True)
def _no_telemetry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANONYMIZED_TELEMETRY", "False")


@pytest.fixture(autouse=True)
def _no_engine_of_another_test() -> Iterator[None]:
    yield
    for number in range(8):  # as many as load_shared keeps
        load_shared(ModelRequest(model=f"./none-{number}"))
    gc.collect()


@pytest.fixture
def client(tmp_path: Path) -> ClientAPI:
    settings = Settings(anonymized_telemetry=False)
    return chromadb.PersistentClient(path=tmp_path / "chroma", settings=settings)
