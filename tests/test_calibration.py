"""How far a model's values reach on sample texts: the texts, the measuring, what comes of it."""

from __future__ import annotations

import io
import threading
import unicodedata
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from importlib import resources
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from compiled_models import prepared, run
from reference_bert import ReferenceBert

import onnx_embeddings
from onnx_embeddings import EngineConfig, ModelRequest, Precision, calibration, compiler
from onnx_embeddings.compiler import packed, ranges
from onnx_embeddings.compiler.int8 import Range, to_grid
from onnx_embeddings.errors import InferenceError, ModelFormatError
from onnx_embeddings.folder import read
from onnx_embeddings.runtime.onnxruntime import Session
from onnx_embeddings.scheduler import process_scheduler
from onnx_embeddings.store import Store
from onnx_embeddings.testing import write_tiny_model

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from onnx_embeddings.arrays import Graph
    from onnx_embeddings.compiler.encoder import Array
    from onnx_embeddings.folder import ModelFolder

SITES = [f"layer{number}.{what}" for number in (0, 1) for what in ("in", "mixed", "attended")]
SECONDS = 30


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def files_of(folder: Path) -> ModelFolder:
    return read(folder, ModelRequest(model=str(folder)))


def content_of(place: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in place.iterdir()}


# The texts.


def test_sample_texts_are_many_and_none_is_empty_or_there_twice() -> None:
    texts = calibration.texts()
    assert len(texts) >= 150
    assert len(set(texts)) == len(texts)
    assert all(text.strip() for text in texts)
    assert not any("%%" in text.splitlines() for text in texts)
    # What heads the file is for its readers.
    assert not texts[0].startswith("#")
    assert not any("Calibration texts." in text for text in texts)


def test_sample_texts_are_of_many_kinds() -> None:
    texts = calibration.texts()
    scripts: dict[str, int] = {}
    for text in texts:
        letters = {unicodedata.name(c, "?").split()[0] for c in text if c.isalpha()}
        for script in letters:
            scripts[script] = scripts.get(script, 0) + 1
    for script in ("LATIN", "CYRILLIC", "GREEK", "ARABIC", "HEBREW", "DEVANAGARI", "CJK"):
        assert scripts.get(script, 0) >= 2, script
    for word in ("def ", "SELECT ", "{", "http"):
        assert any(word in text for text in texts), word
    sizes = [len(text) for text in texts]
    assert min(sizes) <= 5
    assert max(sizes) >= 1000
    assert any("\n" in text for text in texts)
    # Text that a tokenizer of English words does not know.
    assert any(not text.isascii() and len(text) < 200 for text in texts)


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_a_checkout_with_other_line_ends_has_the_same_texts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    expected = calibration.texts()
    package = resources.files("onnx_embeddings")
    content = package.joinpath("calibration.txt").read_bytes().replace(b"\r\n", b"\n")
    (tmp_path / "calibration.txt").write_bytes(content.replace(b"\n", ending.encode()))
    monkeypatch.setattr(resources, "files", lambda _: tmp_path)
    assert calibration.texts.__wrapped__() == expected


# The measuring.


def test_measured_ranges_are_those_of_the_reference(tiny_folder: Path, store: Store) -> None:
    """The sites are what linear layers take, found here by a BERT of another hand."""
    files = files_of(tiny_folder)
    seen: list[Graph] = []

    def measure(graph: Graph) -> Mapping[str, Array]:
        seen.append(graph)
        return calibration.measure(graph, files, threads=1)

    compiler.prepare(files, "int8", store, measure)
    (graph,) = seen
    assert graph.precision == "fp32"
    found = compiler.Checkpoint(files, store).measured(
        store.home / "again", partial(calibration.measure, folder=files, threads=1)
    )
    assert {site for site in found if not site.endswith(".active")} == set(SITES)
    with onnx_embeddings.load(tiny_folder) as engine:
        tokens = engine._opened().encoder.encode(calibration.texts()).ids
    reference = Watched(**vars(ReferenceBert.read(tiny_folder)))
    for ids in tokens[::5]:
        reference.token_vectors(ids)
    names = {"in": "attention.self.query", "mixed": "attention.output.dense"}
    names |= {"attended": "intermediate.dense"}
    for site in SITES:
        number, what = site.removeprefix("layer").split(".")
        values = np.concatenate(reference.taken[f"encoder.layer.{number}.{names[what]}"])
        # Of a part of the texts: so within the range, and near it.
        steps = np.abs(values).max(axis=0) / np.maximum(-found[site].least, found[site].largest)
        assert steps.max() < 1 + 1e-5
        assert np.median(steps) > 0.6


@dataclass(frozen=True, kw_only=True)
class Watched(ReferenceBert):
    """Keeps what each linear layer takes."""

    taken: dict[str, list[Any]] = field(default_factory=dict)

    def _linear(self, x: Any, name: str) -> Any:
        self.taken.setdefault(name, []).append(x)
        return super()._linear(x, name)


def test_ranges_hold_what_was_measured() -> None:
    random = np.random.default_rng(0)
    least = -np.exp2(random.uniform(-6, 6, (7, 50))).astype(np.float32)
    largest = np.exp2(random.uniform(-6, 6, (7, 50))).astype(np.float32)
    found = ranges.from_outputs({"a.b.least": least, "a.b.largest": largest})["a.b"]
    np.testing.assert_array_equal(found.least, to_grid(least.min(axis=0)))
    np.testing.assert_array_equal(found.largest, to_grid(largest.max(axis=0)))
    assert (found.least <= least * (1 - 1e-4)).all()
    assert (found.largest >= largest * (1 - 1e-4)).all()


def test_ranges_hold_channels_of_one_sign() -> None:
    side = np.array([[1.1, 8.1, 0.3, 2.0]], np.float32)
    found = ranges.from_outputs({"a.least": side, "a.largest": side * np.float32(1.02)})["a"]
    assert (found.least <= side[0] * (1 + 1e-4)).all()
    assert (found.largest >= side[0] * 1.02 * (1 - 1e-4)).all()
    found = ranges.from_outputs({"a.least": -side * np.float32(1.02), "a.largest": -side})["a"]
    assert (found.least <= -side[0] * 1.02 * (1 - 1e-4)).all()
    assert (found.largest >= -side[0] * (1 + 1e-4)).all()


def test_values_beside_token_vectors_come_by_their_name(tiny_folder: Path, store: Store) -> None:
    from onnx_embeddings import batches
    from onnx_embeddings.tokens import Encoder

    files = files_of(tiny_folder)
    tokens = Encoder(files.tokenizer, max_tokens=32).encode(["the cat", "a red moon sits"])
    batch = batches.pack(tokens, np.array([0, 1]))

    def measure(graph: Graph) -> Mapping[str, Array]:
        session = Session(graph)
        values = session.values(batch)
        assert graph.output not in values
        assert {name.rpartition(".")[2] for name in values} == {"least", "largest"}
        assert all(value.shape in {(32,), (64,)} for value in values.values())
        vectors = session.run(batch)
        np.testing.assert_array_equal(vectors, np.concatenate(run(plain, tokens.ids)))
        # The input of the first layer is not the output of the last: all sites are looked at.
        assert len({value.tobytes() for value in values.values()}) == len(values)
        for name in values:
            assert (values[name.replace("largest", "least")] <= values[name]).all()
        return {name: value[None] for name, value in values.items()}

    plain = Session(prepared(tiny_folder, store))
    compiler.prepare(files, "int8", store, measure)


def test_each_batch_is_measured(tiny_folder: Path, store: Store) -> None:
    files = files_of(tiny_folder)

    def measure(graph: Graph) -> Mapping[str, Array]:
        values = calibration.measure(graph, files, threads=1)
        wide = calibration.measure(graph, files, threads=2)
        assert {len(value) for value in values.values()} == {len(next(iter(values.values())))}
        assert len(next(iter(values.values()))) > 5
        for name, value in values.items():
            np.testing.assert_allclose(wide[name], value, atol=1e-5)
        return values

    compiler.prepare(files, "int8", store, measure)


# What is kept.


def test_a_model_is_measured_once_and_nothing_else_is_left(tmp_path: Path) -> None:
    folder = write_tiny_model(tmp_path / "model")
    store = Store(tmp_path / "store")
    files = files_of(folder)
    samples: list[Path] = []

    def measure(graph: Graph) -> Mapping[str, Array]:
        samples.append(graph.path)
        assert graph.path.is_file()
        return calibration.measure(graph, files, threads=1)

    first = compiler.prepare(files, "int8", store, measure)
    again = compiler.prepare(files, "int8", Store(store.home), measure)
    assert first == again
    assert len(samples) == 1
    assert not samples[0].exists()
    assert first.path.parent.name.startswith("model-int8-")
    assert set(content_of(first.path.parent)) == {"graph.onnx", "weights.bin", "graph.json"}
    assert [place.name for place in store.compiled.iterdir()] == [first.path.parent.name]
    assert (first.precision, first.scheme) == ("int8", "int8/1")
    # The other precision is another folder, and needs no ranges.
    plain = compiler.prepare(files, "fp32", store, measure)
    assert plain.path.parent != first.path.parent
    assert plain.weights == first.weights
    assert len(samples) == 1


@pytest.mark.parametrize(
    "raised", [InferenceError((1, 3), "no"), ModelFormatError("x", "no"), KeyboardInterrupt()]
)
def test_a_measuring_that_fails_leaves_nothing_and_may_be_repeated(
    tiny_folder: Path, store: Store, raised: BaseException
) -> None:
    files = files_of(tiny_folder)
    asked: list[Path] = []

    def fails(graph: Graph) -> Mapping[str, Array]:
        asked.append(graph.path)
        raise raised

    for number in (1, 2):
        with pytest.raises(type(raised)):
            compiler.prepare(files, "int8", store, fails)
        assert len(asked) == number
        assert not asked[-1].exists()
        assert list(store.compiled.iterdir()) == []
    assert prepared(tiny_folder, store, "int8").path.is_file()


def test_a_sample_graph_that_is_refused_is_not_named_as_a_file_to_delete(
    tiny_folder: Path, store: Store
) -> None:
    files = files_of(tiny_folder)

    def refused(graph: Graph) -> Mapping[str, Array]:
        graph.path.write_bytes(b"damaged meanwhile")
        return calibration.measure(graph, files, threads=1)

    with pytest.raises(ModelFormatError, match="measured for int8: the runtime refuses") as caught:
        compiler.prepare(files, "int8", store, refused)
    assert caught.value.path == str(tiny_folder / "model.safetensors")
    assert caught.value.hint == "use precision='fp32'"


def test_measuring_counts_as_work_and_keeps_to_the_lanes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measure = calibration.measure
    seen = []

    def watched(graph: Graph, folder: ModelFolder, *, threads: int) -> dict[str, Array]:
        seen.append((threads, process_scheduler()._running))
        return measure(graph, folder, threads=threads)

    monkeypatch.setattr(calibration, "measure", watched)
    folder = write_tiny_model(tmp_path / "model", seed=12)
    for lanes in (1, 3):
        config = EngineConfig(home=tmp_path / str(lanes), lanes=lanes)
        onnx_embeddings.load(folder, precision="int8", config=config).close()
    assert seen == [(1, 1), (3, 1)]


def test_nobody_waits_for_a_precision_that_he_did_not_ask_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measure = calibration.measure
    measuring, go_on = threading.Event(), threading.Event()

    def slow(graph: Graph, folder: ModelFolder, *, threads: int) -> dict[str, Array]:
        measuring.set()
        assert go_on.wait(SECONDS)
        return measure(graph, folder, threads=threads)

    monkeypatch.setattr(calibration, "measure", slow)
    folder = write_tiny_model(tmp_path / "model", seed=13)
    with ThreadPoolExecutor(2) as pool:
        int8 = pool.submit(onnx_embeddings.load, folder, precision="int8")
        assert measuring.wait(SECONDS)
        pool.submit(onnx_embeddings.load, folder).result(SECONDS).close()
        assert not int8.done()
        go_on.set()
        int8.result(SECONDS).close()


def test_two_compilations_give_the_same_bytes(tiny_folder: Path, tmp_path: Path) -> None:
    one, other = (
        content_of(prepared(tiny_folder, Store(tmp_path / name), "int8").path.parent)
        for name in ("one", "other")
    )
    assert one == other


def test_ranges_off_by_a_rounding_give_the_same_bytes(tiny_folder: Path, tmp_path: Path) -> None:
    """As another processor, which sums in another order, would measure them."""
    files = files_of(tiny_folder)
    random = np.random.default_rng(0)

    def other(graph: Graph) -> Mapping[str, Array]:
        values = calibration.measure(graph, files, threads=1)
        return {
            name: (value * (1 + 1e-7 * random.normal(0, 1, value.shape))).astype(np.float32)
            for name, value in values.items()
        }

    one = prepared(tiny_folder, Store(tmp_path / "one"), "int8")
    near = compiler.prepare(files, "int8", Store(tmp_path / "near"), other)
    assert content_of(one.path.parent) == content_of(near.path.parent)


def some_ranges(width: int = 32) -> dict[str, Range]:
    side = np.linspace(3, 9, width).astype(np.float32)
    return {site: Range(least=to_grid(-side), largest=to_grid(side)) for site in SITES}


def never(graph: Graph) -> Mapping[str, Array]:
    pytest.fail(f"{graph} is measured though its ranges are shipped")


def test_shipped_ranges_are_taken_and_nothing_is_measured(
    tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = files_of(tiny_folder)
    store = Store(tmp_path / "store")
    own = prepared(tiny_folder, store, "int8")
    asked = []
    content = ranges.save(some_ranges(), tmp_path, own.weights).read_bytes()

    def shipped(weights: str) -> bytes:
        asked.append(weights)
        return content

    monkeypatch.setattr(ranges, "shipped", shipped)
    graph = compiler.prepare(files, "int8", store, never)
    assert set(asked) == {own.weights}
    # Their content is in the name of the folder: new ones are not hidden by what is kept.
    assert graph.path.parent != own.path.parent
    assert content_of(graph.path.parent) != content_of(own.path.parent)
    assert compiler.prepare(files, "int8", store, never) == graph
    content = ranges.save(
        {
            site: Range(least=-reach.largest * 2, largest=reach.largest * 2)
            for site, reach in some_ranges().items()
        },
        tmp_path,
        own.weights,
    ).read_bytes()
    assert compiler.prepare(files, "int8", store, never).path.parent != graph.path.parent
    # fp32 has no use for them.
    asked.clear()
    compiler.prepare(files, None, store, never)
    assert asked == []


@pytest.mark.parametrize("damage", ["cut", "text", "empty", "a site less", "narrow", "infinite"])
def test_damaged_shipped_ranges_are_an_error_and_leave_nothing(
    tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    whole = ranges.save(some_ranges(), tmp_path, "0" * 64).read_bytes()
    endless = {
        site: Range(least=reach.least, largest=reach.largest * np.float32(np.inf))
        for site, reach in some_ranges().items()
    }
    less = {site: reach for site, reach in some_ranges().items() if site != SITES[-1]}
    content = {
        "cut": whole[: len(whole) // 2],
        "text": b"not a file of arrays",
        "empty": b"",
        "a site less": ranges.save(less, tmp_path, "1" * 64).read_bytes(),
        "narrow": ranges.save(some_ranges(31), tmp_path, "2" * 64).read_bytes(),
        "infinite": ranges.save(endless, tmp_path, "3" * 64).read_bytes(),
    }[damage]
    monkeypatch.setattr(ranges, "shipped", lambda _: content)
    store = Store(tmp_path / "store")
    with pytest.raises(ModelFormatError, match="shipped_ranges: a file is damaged") as caught:
        compiler.prepare(files_of(tiny_folder), "int8", store, never)
    assert caught.value.hint == "install onnx-embeddings again"
    assert list(store.compiled.iterdir()) == []


def test_saved_ranges_are_read_again(tmp_path: Path) -> None:
    given = some_ranges()
    file = ranges.save(given, tmp_path, "0123456789abcdef" * 4)
    assert file == tmp_path / "0123456789abcdef.npz"
    found = ranges.read(file.read_bytes(), SITES, 32)
    assert set(found) == set(given)
    for site, reach in given.items():
        np.testing.assert_array_equal(found[site].least, reach.least)
        np.testing.assert_array_equal(found[site].largest, reach.largest)
    assert ranges.save(given, tmp_path, "f" * 64).read_bytes() == file.read_bytes()


def test_ranges_are_shipped_for_no_other_weights(tiny_folder: Path, store: Store) -> None:
    checkpoint = compiler.Checkpoint(files_of(tiny_folder), store)
    assert ranges.shipped(checkpoint.weights) is None


def test_the_package_ships_only_ranges_that_can_be_read() -> None:
    package = resources.files("onnx_embeddings.compiler").joinpath("shipped_ranges")
    files = [file for file in package.iterdir() if file.name.endswith(".npz")]
    assert files
    for file in files:
        # By the digest of their weights, of which a part is the name.
        assert ranges.shipped(file.name.removesuffix(".npz").ljust(64, "0")) == file.read_bytes()
        with np.load(io.BytesIO(file.read_bytes())) as values:
            sites = {name.rpartition(".")[0] for name in values.files}
            channels = values["layer0.in.least"].shape[0]
        layers = {site.partition(".")[0] for site in sites}
        assert sites == {f"{layer}.{what}" for layer in layers for what in packed.SITES}
        for reach in ranges.read(file.read_bytes(), sites, channels).values():
            assert reach.least.dtype == reach.largest.dtype == np.float32
            np.testing.assert_array_equal(to_grid(reach.least), reach.least)
            np.testing.assert_array_equal(to_grid(reach.largest), reach.largest)
            assert (reach.least <= reach.largest).all()


def test_who_asks_first_does_not_decide_what_others_get(tmp_path: Path) -> None:
    folder = write_tiny_model(tmp_path / "model", seed=11)
    texts = ["the cat sits on the red moon", "a b c d e f", "two " * 40]

    def vectors(home: str, max_tokens: int | None = None) -> Array:
        config = EngineConfig(home=tmp_path / home)
        request = ModelRequest(model=str(folder), precision=Precision.INT8, max_tokens=max_tokens)
        with onnx_embeddings.load(request, config=config) as engine:
            return engine.embed_documents(texts)

    expected = vectors("one")
    vectors("other", max_tokens=3)
    np.testing.assert_array_equal(vectors("other"), expected)
