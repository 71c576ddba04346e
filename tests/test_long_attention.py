"""Models of more than 512 positions: a longer text runs alone, without a matrix of scores."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import onnx
import pytest
from compiled_models import MODELS, all_nodes, prepared, random_ids, run, unit_means
from onnx import AttributeProto
from reference_bert import ReferenceBert

import onnx_embeddings
from onnx_embeddings import EngineConfig
from onnx_embeddings.compiler.packed import LONG_TEXT
from onnx_embeddings.errors import InferenceError
from onnx_embeddings.runtime.onnxruntime import Session
from onnx_embeddings.store import Store
from onnx_embeddings.testing import write_tiny_model

if TYPE_CHECKING:
    from pathlib import Path

    from onnx_embeddings.arrays import Graph

POSITIONS = 1200
LENGTHS = (3, 511, 512, 513, 514, 600, 700, 1023, 1024, 1025, 1200)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    config = {"max_position_embeddings": POSITIONS}
    return write_tiny_model(
        tmp_path_factory.mktemp("long") / "model", config=config, max_tokens=None
    )


@pytest.fixture(scope="module", params=["fp32", "int8"])
def graph(
    request: pytest.FixtureRequest, folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Graph:
    return prepared(folder, Store(tmp_path_factory.mktemp("store")), request.param)


def in_grid(graph: Graph) -> Session:
    """The same graph, told of no text that it is long."""
    return Session(replace(graph, long_text=POSITIONS))


def branches(file: Path) -> list[tuple[str, set[str], set[str]]]:
    """Each choice of a graph: by what, the operators of its two sides."""
    found = []
    for node in all_nodes(onnx.load(file, load_external_data=False).graph):
        sides = {a.name: a.g for a in node.attribute if a.type == AttributeProto.GRAPH}
        if sides:
            yes, no = (
                {inner.op_type for inner in all_nodes(sides[f"{side}_branch"])}
                for side in ("then", "else")
            )
            found.append((node.input[0], yes, no))
    return found


def test_the_graph_has_a_way_of_its_own_for_long_texts(graph: Graph) -> None:
    assert graph.long_text == LONG_TEXT == 512
    choices = [found for found in branches(graph.path) if found[0] == "long"]
    assert len(choices) == 2  # one in each layer
    for _, long, short in choices:
        assert "MultiHeadAttention" in long
        assert not {"Softmax", "MatMul"} & long
        assert {"Softmax", "MatMul"} <= short
        assert "MultiHeadAttention" not in short


@pytest.mark.parametrize("positions", [512, 513])
def test_models_without_long_texts_have_standard_operators_only(
    tmp_path: Path, positions: int
) -> None:
    config = {"max_position_embeddings": positions}
    graph = prepared(write_tiny_model(tmp_path / "model", config=config), Store(tmp_path / "home"))
    model = onnx.load(graph.path, load_external_data=False)
    standard = positions <= LONG_TEXT
    assert graph.long_text == (None if standard else LONG_TEXT)
    assert ("long" in {value.name for value in model.graph.input}) != standard
    assert ({node.domain for node in all_nodes(model.graph)} == {""}) == standard
    assert ({opset.domain for opset in model.opset_import} == {""}) == standard
    assert len(branches(graph.path)) == (2 if standard else 4)


def test_long_texts_have_the_vectors_of_the_reference(tmp_path: Path) -> None:
    # One layer and one head, since the reference takes its time.
    config = {
        "max_position_embeddings": 600,
        "num_hidden_layers": 1,
        "num_attention_heads": 1,
    }
    folder = write_tiny_model(tmp_path / "model", config=config, max_tokens=None)
    session = Session(prepared(folder, Store(tmp_path / "home")))
    (ids,) = random_ids(513)
    (tokens,) = run(session, [ids])
    reference = ReferenceBert.read(folder)
    expected = reference.token_vectors(ids)
    assert np.abs(tokens - expected).max() < 1e-5 * max(1, np.abs(expected).max())
    # And it can tell: other scores are other vectors.
    other = replace(reference, scale=0.2).token_vectors(ids)
    assert np.abs(tokens - other).max() > 1e-2


@pytest.mark.parametrize("name", ["tiny", "odd sizes", "wide", "one head", "sixteen heads"])
def test_both_ways_give_the_same_vectors(tmp_path: Path, name: str) -> None:
    config = MODELS[name] | {"max_position_embeddings": POSITIONS}
    folder = write_tiny_model(tmp_path / "model", config=config, max_tokens=None)
    graph = prepared(folder, Store(tmp_path / "home"))
    alone, grid = Session(graph), in_grid(graph)
    for ids in random_ids(513, 777, POSITIONS):
        (tokens,), (expected,) = run(alone, [ids]), run(grid, [ids])
        np.testing.assert_allclose(tokens, expected, atol=2e-5)
        # It is another way indeed: the last bits differ.
        assert tokens.tobytes() != expected.tobytes()


def test_both_ways_of_int8_are_near_fp32(folder: Path, tmp_path: Path) -> None:
    store = Store(tmp_path / "home")
    exact = Session(prepared(folder, store, "fp32"))
    graph = prepared(folder, store, "int8")
    for ids in random_ids(513, 777, POSITIONS):
        right = unit_means(run(exact, [ids]))
        for session in (Session(graph), in_grid(graph)):
            assert (unit_means(run(session, [ids])) * right).sum() > 0.998


def test_a_long_text_has_the_same_bits_on_every_kind_of_session(graph: Graph) -> None:
    sessions = [Session(graph), Session(graph, threads=2), Session(graph, threads=3)]
    for ids in random_ids(512, 513, 640, POSITIONS):
        first, *others = (run(session, [ids])[0].tobytes() for session in sessions)
        assert others == [first, first]


def test_two_long_texts_in_a_batch_would_not_go_unseen(graph: Graph) -> None:
    """Or the tests of equal bits would not show that batches are planned for them."""
    texts = random_ids(520, 520)
    session = Session(graph)
    alone = [run(session, [ids])[0] for ids in texts]
    try:
        found = run(session, texts)
    except InferenceError:
        return
    assert any(
        np.abs(tokens - expected).max() > 1e-3
        for tokens, expected in zip(found, alone, strict=True)
    )


@pytest.mark.parametrize("precision", ["fp32", "int8"])
@pytest.mark.parametrize("budget", [64, 512, 4096])
def test_alone_and_among_others_have_equal_bits(folder: Path, precision: str, budget: int) -> None:
    random = np.random.default_rng(budget)
    words = ["the", "cat", "red", "moon", "x", "7", "."]
    lengths = [*LENGTHS, *LENGTHS, 5, 5, 40, 1300]
    texts = [" ".join(random.choice(words, max(0, length - 2))) for length in lengths]
    config = EngineConfig(batch_tokens=budget, lanes=2)
    with onnx_embeddings.load(folder, precision=precision, config=config) as engine:
        assert engine.count_tokens(texts).tolist() == lengths
        together = engine.embed_documents(texts)
        for text, vector in zip(texts, together, strict=True):
            np.testing.assert_array_equal(engine.embed_documents([text])[0], vector)
        order = random.permutation(len(texts))
        shuffled = engine.embed_documents([texts[i] for i in order])
        np.testing.assert_array_equal(shuffled, together[order])
