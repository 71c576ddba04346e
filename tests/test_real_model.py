"""The default model with its real weights, against what the authors' own code computes."""

from __future__ import annotations

import csv
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import onnx
import pytest

import onnx_embeddings
from onnx_embeddings import Engine, EngineConfig
from onnx_embeddings.compiler import ranges

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.weights

GOLDEN = Path(__file__).parent / "golden"
TOLERANCE = 2e-5


@pytest.fixture(scope="module")
def int8(minilm: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """The same in 8 bits, compiled anew, whatever the store has."""
    config = EngineConfig(home=tmp_path_factory.mktemp("int8"))
    with onnx_embeddings.load(minilm.path, precision="int8", config=config) as engine:
        yield engine


@pytest.fixture(scope="module")
def texts() -> list[str]:
    entries = json.loads((GOLDEN / "texts.json").read_text(encoding="utf-8"))
    return [entry["text"] for entry in entries]


@pytest.fixture(scope="module")
def golden() -> dict[str, npt.NDArray[np.generic]]:
    with np.load(GOLDEN / "all-MiniLM-L6-v2.npz") as arrays:
        return dict(arrays)


def test_the_golden_file_belongs_to_the_texts(
    texts: list[str], golden: dict[str, npt.NDArray[np.generic]]
) -> None:
    digests = [hashlib.sha256(text.encode()).hexdigest().encode() for text in texts]
    assert golden["texts_sha256"].tolist() == digests
    assert len(texts) >= 100


def test_vectors_are_those_of_the_authors_code(
    minilm: Engine, texts: list[str], golden: dict[str, npt.NDArray[np.float32]]
) -> None:
    vectors = minilm.embed_documents(texts)
    np.testing.assert_allclose(vectors, golden["vectors"], rtol=0, atol=TOLERANCE)
    norms = np.linalg.norm(vectors, axis=1)
    np.testing.assert_allclose(
        norms, np.linalg.norm(golden["vectors"], axis=1), rtol=0, atol=TOLERANCE
    )
    np.testing.assert_array_equal(minilm.embed_queries(texts), vectors)


def test_token_counts_are_those_of_the_authors_code(
    minilm: Engine, texts: list[str], golden: dict[str, npt.NDArray[np.int32]]
) -> None:
    assert minilm.count_tokens(texts).tolist() == golden["token_counts"].tolist()


def test_the_spec_is_what_the_model_card_says(minilm: Engine) -> None:
    spec = minilm.spec
    assert (spec.dim, spec.max_tokens, spec.pooling, spec.normalize) == (384, 256, "mean", True)
    assert (spec.query_prompt, spec.document_prompt, spec.scheme) == ("", "", "fp32/1")


def test_digests_are_those_that_users_have_stored(minilm: Engine) -> None:
    assert minilm.spec.space == "fa70cb4787095e3a3b0eee8becbc6e6f83407b00ccb722a16bcbbb75b15024ef"
    assert (
        minilm.spec.fingerprint
        == "1c4afdaf6a0245d2ef7c6bd1528e40974dd11ba6b68cc63d57e1232b50189c68"
    )


@pytest.mark.parametrize("budget", [1, 512, 4096])
@pytest.mark.parametrize("lanes", [1, 2, 4])
def test_alone_in_a_batch_and_shuffled_have_equal_bits(
    minilm: Engine, models_home: Path, texts: list[str], budget: int, lanes: int
) -> None:
    expected = minilm.embed_documents(texts)
    config = EngineConfig(home=models_home, batch_tokens=budget, lanes=lanes)
    order = np.random.default_rng(budget + lanes).permutation(len(texts))
    with onnx_embeddings.load(config=config) as engine:
        np.testing.assert_array_equal(engine.embed_documents(texts), expected)
        shuffled = engine.embed_documents([texts[i] for i in order])
        np.testing.assert_array_equal(shuffled, expected[order])


def test_a_lone_text_has_the_bits_of_a_batch_on_one_thread_and_on_all(
    minilm: Engine, texts: list[str]
) -> None:
    expected = minilm.embed_documents(texts)
    # Often enough that each length was tried on both kinds of session.
    for _ in range(2):
        for i, text in enumerate(texts):
            np.testing.assert_array_equal(minilm.embed_documents([text])[0], expected[i])


def sts_b(engine: Engine, data: Path) -> float:
    with (data / "stsb" / "stsb-en-test.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    assert len(rows) == 1379
    left, right = (engine.embed_documents([row[side] for row in rows]) for side in (0, 1))
    scores = np.array([float(row[2]) for row in rows])
    return 100 * spearman((left * right).sum(axis=1), scores)


def test_sts_b_correlation_is_the_published_one(minilm: Engine, data: Path) -> None:
    assert sts_b(minilm, data) == pytest.approx(82.03, abs=0.03)


def spearman(a: npt.NDArray[np.floating], b: npt.NDArray[np.floating]) -> float:
    """Pearson correlation of the ranks, equal values sharing their mean rank."""
    return float(np.corrcoef(ranks(a), ranks(b))[0, 1])


def ranks(values: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
    _, where, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    means: npt.NDArray[np.float64] = (last - (counts - 1) / 2)[where]
    return means


@pytest.fixture(scope="module")
def cosines(
    int8: Engine, texts: list[str], golden: dict[str, npt.NDArray[np.float32]]
) -> npt.NDArray[np.float64]:
    """(N,): of the vectors in 8 bits to those of the authors' code."""
    right = golden["vectors"].astype(np.float64)
    right /= np.linalg.norm(right, axis=1, keepdims=True)
    found: npt.NDArray[np.float64] = (int8.embed_documents(texts) * right).sum(axis=1)
    return found


def test_int8_is_near_the_authors_vectors(
    cosines: npt.NDArray[np.float64], golden: dict[str, npt.NDArray[np.int32]]
) -> None:
    # The golden texts are odd ones; the lowest of them repeat a special token.
    assert cosines.mean() >= 0.998
    assert cosines.min() >= 0.99
    assert cosines[golden["token_counts"] >= 8].mean() >= 0.9985
    # It is int8: no vector comes out as in float32.
    assert cosines.max() < 1 - 1e-5


def test_int8_loses_next_to_nothing_on_sts_b(int8: Engine, minilm: Engine, data: Path) -> None:
    assert sts_b(int8, data) == pytest.approx(sts_b(minilm, data), abs=0.1)


def test_an_int8_text_has_the_same_bits_alone_and_in_a_batch(
    int8: Engine, texts: list[str]
) -> None:
    expected = int8.embed_documents(texts)
    config = EngineConfig(batch_tokens=4096, lanes=2)
    with onnx_embeddings.load(int8.path, precision="int8", config=config) as engine:
        np.testing.assert_array_equal(engine.embed_documents(texts), expected)
        for text, vector in zip(texts, expected, strict=True):
            np.testing.assert_array_equal(engine.embed_documents([text])[0], vector)


def test_the_space_of_int8_is_that_of_fp32(int8: Engine, minilm: Engine) -> None:
    assert int8.spec.space == minilm.spec.space
    assert (int8.spec.precision, int8.spec.scheme) == ("int8", "int8/1")
    assert (
        int8.spec.fingerprint == "f5c699c3bf87e49af13a60362dc8c34f56c5653d0543a830adcca1efe95af9a6"
    )


def test_an_int8_model_takes_a_quarter_of_the_disk(int8: Engine) -> None:
    place = int8._opened().sessions._graph.path.parent
    assert sum(file.stat().st_size for file in place.iterdir()) < 24.5 * 10**6


def test_ranges_of_the_default_model_are_shipped(int8: Engine) -> None:
    """So its int8 file is the same on every machine, and made without running a text."""
    graph = int8._opened().sessions._graph
    assert ranges.shipped(graph.weights) is not None
    whole = hashlib.sha256()
    for tensor in onnx.load(graph.path).graph.initializer:
        if tensor.data_type == onnx.TensorProto.INT8:
            whole.update(tensor.name.encode() + tensor.raw_data)
    assert whole.hexdigest()[:16] == "c673fe013cbda5c8"


def test_a_second_start_needs_no_network_and_nothing_heavy(
    minilm: Engine, models_home: Path
) -> None:
    code = """
import socket, sys
import onnx_embeddings

def refused(*arguments, **settings):
    raise AssertionError("the network was touched")

socket.socket.connect = socket.getaddrinfo = socket.create_connection = refused
with onnx_embeddings.load() as engine:
    assert engine.embed_documents(["a text", "another"]).shape == (2, 384)
heavy = {"torch", "transformers", "huggingface_hub", "onnx", "safetensors", "tqdm", "filelock"}
assert not heavy & set(sys.modules), heavy & set(sys.modules)
"""
    assert minilm.path.is_relative_to(models_home)
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env=os.environ | {"ONNX_EMBEDDINGS_HOME": str(models_home)},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert (result.returncode, result.stderr) == (0, "")
