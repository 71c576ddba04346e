"""`iter_documents`: the vectors of `embed_documents`, one by one, from texts of any number."""

from __future__ import annotations

import gc
import json
import threading
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import count, islice
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from test_engine import TEXTS, WORDS, spoil_word

import onnx_embeddings
from onnx_embeddings import EngineConfig
from onnx_embeddings.errors import ClosedError, InferenceError, InputError
from onnx_embeddings.scheduler import process_scheduler
from onnx_embeddings.shared import loaded_models
from onnx_embeddings.testing import write_tiny_model
from onnx_embeddings.windows import Window

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from onnx_embeddings import Engine
    from onnx_embeddings.arrays import Vector

SECONDS = 30
LOOK_AHEAD = 2 * 1024  # texts, once the small first windows are through


def some_texts(number: int) -> list[str]:
    """Texts that are all different, of many lengths."""
    return [f"{i} " + " ".join(WORDS[: i % 9]) * (1 + i % 2) for i in range(number)]


class Counted:
    """An iterator that knows how many texts were taken from it."""

    def __init__(self, texts: Iterable[Any]) -> None:
        self._texts = iter(texts)
        self.taken = 0

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        text = next(self._texts)
        self.taken += 1
        return text


def endless() -> Iterator[str]:
    text = "the cat sits on a red moon and looks at the dogs that run to the sea"
    return (f"{i} {text}" for i in count())


def before_error(stream: Iterator[Any], into: list[Any]) -> None:
    """Take all, and keep those before an error."""
    for vector in stream:
        into.append(vector)  # noqa: PERF402  a list made at once would be lost with the error


def wait_until_idle() -> None:
    """Wait for what the lanes still run."""
    scheduler = process_scheduler()
    with scheduler._changed:
        assert scheduler._changed.wait_for(lambda: not scheduler._running, SECONDS)


def live_windows() -> int:
    return sum(isinstance(thing, Window) for thing in gc.get_objects())


@pytest.mark.parametrize("number", [0, 1, 2, 63, 64, 65, 320, 321, 5000])
def test_a_stream_has_the_order_and_the_bits_of_one_call(tiny: Engine, number: int) -> None:
    texts = some_texts(number)
    expected = tiny.embed_documents(texts)
    found = list(tiny.iter_documents(iter(texts)))
    assert len(found) == number
    for vector in found[:2]:
        assert vector.shape == (32,)
        assert vector.dtype == np.float32
        assert vector.flags.owndata
        assert vector.flags.writeable
    np.testing.assert_array_equal(np.array(found).reshape(-1, 32), expected)


@pytest.mark.parametrize("budget", [1, 64, 100_000])
@pytest.mark.parametrize("lanes", [1, 3])
def test_budget_and_lanes_do_not_change_a_bit(tiny_folder: Path, budget: int, lanes: int) -> None:
    texts = [f"{text} {i}" for i in range(20) for text in TEXTS] + TEXTS
    with onnx_embeddings.load(tiny_folder) as engine:
        expected = [engine.embed_documents([text])[0] for text in texts]
    config = EngineConfig(batch_tokens=budget, lanes=lanes)
    with onnx_embeddings.load(tiny_folder, config=config) as engine:
        np.testing.assert_array_equal(list(engine.iter_documents(texts)), expected)
        np.testing.assert_array_equal(engine.embed_documents(texts), expected)


def test_a_stream_uses_the_prompt_of_documents(tmp_path: Path) -> None:
    prompts = {"query": "query: ", "passage": "document: "}
    folder = write_tiny_model(tmp_path / "prompted", prompts=prompts)
    with onnx_embeddings.load(folder) as engine:
        (vector,) = engine.iter_documents(["the cat"])
        np.testing.assert_array_equal(vector, engine.embed_documents(["the cat"])[0])


def test_the_first_vector_comes_early_and_little_is_read_ahead(tiny: Engine) -> None:
    texts = Counted(endless())
    stream = tiny.iter_documents(texts)
    assert texts.taken == 0
    next(stream)
    assert texts.taken == 64 + 256
    for place, _ in enumerate(islice(stream, 9000), 1):
        assert place <= texts.taken <= place + 1 + LOOK_AHEAD
    assert texts.taken > 9000
    taken = texts.taken
    del stream
    assert texts.taken == taken


def test_memory_stays_flat(tiny_folder: Path) -> None:
    peaks, most = [], 0
    gc.collect()
    tracemalloc.start()
    try:
        # Closed before the tracing stops: where a lane still allocates then, Python may crash
        # (3.11; mended in 3.12.9 and 3.13.2).
        with onnx_embeddings.load(tiny_folder) as engine:
            stream = engine.iter_documents(endless())
            for _ in range(3):
                for place, _ in enumerate(islice(stream, 4096)):
                    if place % 512 == 0:
                        most = max(most, live_windows())
                peaks.append(tracemalloc.get_traced_memory()[1])
                tracemalloc.reset_peak()
    finally:
        tracemalloc.stop()
    assert 1 <= most <= 2
    # 4096 more texts would take as many token ids of 8 bytes, 20 in a text, and vectors of 128.
    assert peaks[2] - peaks[1] < 4096 * (20 * 8 + 128) / 4


def test_a_vector_that_is_kept_does_not_keep_its_window(tiny: Engine) -> None:
    kept = [vector for vector in tiny.iter_documents(some_texts(100)) if vector[0] > 0]
    assert kept
    assert all(vector.base is None for vector in kept)


def test_one_call_keeps_the_tokens_of_few_windows_only(tiny: Engine) -> None:
    texts = [text for text, _ in zip(endless(), range(9000), strict=False)]
    done, counts = threading.Event(), []
    gc.collect()

    def sample() -> None:
        while not done.is_set():
            counts.append(live_windows())

    with ThreadPoolExecutor(1) as pool:
        sampling = pool.submit(sample)
        vectors = tiny.embed_documents(texts)
        done.set()
        sampling.result(SECONDS)
    assert vectors.shape == (9000, 32)
    assert 1 <= max(counts) <= 3  # one is being made


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        ("a text", "one text where a list"),
        (b"bytes", "bytes where a list"),
        (None, "NoneType where a list"),
        (np.zeros((2, 2)), "ndarray where a list"),
        ({"cat": "a text"}, "dict where a list"),
    ],
)
def test_what_is_no_list_of_texts_is_an_error_at_the_call(
    tiny: Engine, texts: Any, words: str
) -> None:
    with pytest.raises(InputError, match=words):
        tiny.iter_documents(texts)


def test_the_call_opens_the_engine(tmp_path: Path, tiny_folder: Path) -> None:
    missing = onnx_embeddings.Engine(onnx_embeddings.ModelRequest(model=str(tmp_path / "none")))
    with pytest.raises(FileNotFoundError):
        missing.iter_documents(["a"])
    engine = onnx_embeddings.load(tiny_folder)
    engine.close()
    with pytest.raises(ClosedError):
        engine.iter_documents(["a"])


@pytest.mark.parametrize("place", [0, 1, 63, 64, 65, 700, 1400])
def test_a_bad_text_comes_after_the_vectors_of_those_before_it(tiny: Engine, place: int) -> None:
    texts: list[Any] = some_texts(1500)
    expected = tiny.embed_documents(texts[:place])
    texts[place] = None
    read = Counted(texts)
    found: list[Vector] = []
    with pytest.raises(InputError, match=f"index {place}: None") as caught:
        before_error(tiny.iter_documents(read), found)
    assert caught.value.index == place
    assert read.taken == place + 1
    np.testing.assert_array_equal(np.array(found).reshape(-1, 32), expected)


@pytest.mark.parametrize("place", [0, 1, 63, 64, 65, 700, 1400])
@pytest.mark.parametrize("cached", [False, True])
def test_a_text_that_is_too_long_comes_after_those_before_it(
    tiny_folder: Path, tmp_path: Path, place: int, *, cached: bool
) -> None:
    # Some texts are repeated; some are cached, and then a later text is no text at all.
    texts: list[Any] = [text for text in some_texts(700) for _ in range(2)] + ["last"] * 5
    config = EngineConfig(cache=tmp_path / "cache" if cached else None)
    with onnx_embeddings.load(tiny_folder, long_text="error", config=config) as engine:
        expected = engine.embed_documents(texts[:place:3])
        before = texts[:place]
        texts[place] = "cat " * 31
        if cached:
            texts[place + 2] = 5
        found: list[Vector] = []
        with pytest.raises(InputError, match=f"index {place}: 33 tokens") as caught:
            before_error(engine.iter_documents(texts), found)
        assert caught.value.index == place
        np.testing.assert_array_equal(np.array(found[::3]).reshape(-1, 32), expected)
        np.testing.assert_array_equal(
            np.array(found).reshape(-1, 32), engine.embed_documents(before)
        )


@pytest.mark.parametrize("place", [0, 3, 64, 400])
def test_what_the_iterable_raises_comes_after_the_vectors(tiny: Engine, place: int) -> None:
    def failing() -> Iterator[str]:
        yield from some_texts(place)
        raise OSError("the disk is gone")

    stream = tiny.iter_documents(failing())
    found: list[Vector] = []
    with pytest.raises(OSError, match="the disk is gone"):
        before_error(stream, found)
    assert len(found) == place
    assert next(stream, None) is None


def test_an_interrupt_while_texts_are_read_is_not_held_back(tiny: Engine) -> None:
    def interrupted() -> Iterator[str]:
        yield from islice(endless(), 400)
        raise KeyboardInterrupt

    found: list[Vector] = []
    with pytest.raises(KeyboardInterrupt):
        before_error(tiny.iter_documents(interrupted()), found)
    assert len(found) == 64  # the next windows were being read
    assert tiny.embed_documents(["a"]).shape == (1, 32)


def test_a_vector_that_is_not_finite_is_named_by_its_place_in_the_stream(tmp_path: Path) -> None:
    folder = write_tiny_model(tmp_path / "model")
    spoil_word(folder, "moon")
    with onnx_embeddings.load(folder) as engine:
        for place in (0, 63, 64, 1343, 1344, 2900):
            texts = [f"cat {i}" for i in range(3000)]
            texts[place] = "the moon"
            with pytest.raises(InferenceError, match=f"index {place} is not finite"):
                list(engine.iter_documents(texts))
        assert len(list(engine.iter_documents(["a", "cat"]))) == 2


def test_a_stream_that_is_closed_starts_nothing_more(tiny: Engine) -> None:
    texts = Counted(endless())
    with closing(tiny.iter_documents(texts)) as stream:
        next(stream)
    assert next(stream, None) is None
    wait_until_idle()
    taken, batches = texts.taken, tiny.stats().batches
    tiny.embed_documents(["a"])  # the lanes look for work
    wait_until_idle()
    assert (texts.taken, tiny.stats().batches) == (taken, batches + 1)
    gc.collect()
    assert live_windows() == 0


def test_a_stream_that_is_thrown_away_is_forgotten(tiny: Engine) -> None:
    for number in (0, 1, 64, 65):
        for _ in islice(tiny.iter_documents(endless()), number):
            pass
    wait_until_idle()
    tiny.embed_documents(["a"])
    gc.collect()
    assert live_windows() == 0
    assert not process_scheduler()._calls
    assert len(tiny._streams) == 0


def test_an_error_in_the_consumer_ends_the_stream(tiny: Engine) -> None:
    def consume() -> None:
        for place, _ in enumerate(tiny.iter_documents(endless())):
            if place == 70:
                raise KeyboardInterrupt

    for _ in range(3):
        with pytest.raises(KeyboardInterrupt):
            consume()
    gc.collect()
    wait_until_idle()
    np.testing.assert_array_equal(
        tiny.embed_documents(TEXTS), list(tiny.iter_documents(TEXTS))
    )  # and the lanes live on


def test_a_closed_engine_ends_its_streams_and_what_they_would_still_run(tiny_folder: Path) -> None:
    one_by_one = EngineConfig(batch_tokens=1, lanes=1)
    engine = onnx_embeddings.load(tiny_folder, config=one_by_one)
    begun, waiting = engine.iter_documents(endless()), engine.iter_documents(endless())
    next(begun)
    engine.close()
    scheduler = process_scheduler()
    assert (scheduler._running, len(scheduler._calls)) == (0, 0)
    for stream in (begun, waiting):
        with pytest.raises(ClosedError, match="is closed"):
            next(stream)


@pytest.mark.parametrize("place", [0, 3, 64, 70, 321, 2000])
def test_the_texts_of_a_stream_may_close_its_engine(tiny_folder: Path, place: int) -> None:
    engine = onnx_embeddings.load(tiny_folder)

    def closing() -> Iterator[str]:
        yield from some_texts(place)
        engine.close()
        yield from some_texts(3)

    found: list[Vector] = []
    with pytest.raises(ClosedError):
        before_error(engine.iter_documents(closing()), found)
    # At least what came before the windows that were being read; and nothing was begun since.
    assert len(found) <= place
    assert process_scheduler()._running == 0
    assert engine.stats().texts <= place


def test_an_engine_may_be_closed_while_another_thread_waits_for_a_vector(
    tiny_folder: Path,
) -> None:
    engine = onnx_embeddings.load(tiny_folder)
    begun = threading.Event()

    def consume() -> None:
        for _ in engine.iter_documents(endless()):
            begun.set()

    with ThreadPoolExecutor(1) as pool:
        consuming = pool.submit(consume)
        assert begun.wait(SECONDS)
        engine.close()
        with pytest.raises(ClosedError):
            consuming.result(SECONDS)


def test_a_stream_keeps_its_engine(tiny_folder: Path) -> None:
    gc.collect()
    loaded = loaded_models()
    stream = onnx_embeddings.load(tiny_folder).iter_documents(some_texts(500))
    gc.collect()
    assert loaded_models() == loaded + 1
    assert len(list(stream)) == 500
    del stream
    gc.collect()
    assert loaded_models() == loaded


def test_a_consumer_that_never_comes_back_is_in_nobodys_way(tiny: Engine) -> None:
    streams = [tiny.iter_documents(endless()) for _ in range(5)]
    for stream in streams:
        next(stream)
    expected = tiny.embed_documents(TEXTS)
    np.testing.assert_array_equal(list(tiny.iter_documents(TEXTS)), expected)
    wait_until_idle()
    assert not process_scheduler()._calls  # a lone text has the machine for itself


def test_streams_may_take_turns_and_a_call_may_come_between(tiny: Engine) -> None:
    texts, others = some_texts(1500), [f"sea {text}" for text in some_texts(1500)]
    expected, of_others = tiny.embed_documents(texts), tiny.embed_documents(others)
    both = zip(tiny.iter_documents(texts), tiny.iter_documents(others), strict=True)
    for place, (one, other) in enumerate(both):
        np.testing.assert_array_equal(one, expected[place])
        np.testing.assert_array_equal(other, of_others[place])
        if place % 300 == 0:
            np.testing.assert_array_equal(tiny.embed_documents(others[:70]), of_others[:70])
            np.testing.assert_array_equal(tiny.embed_queries(others[:1]), of_others[:1])


def test_the_texts_of_a_stream_may_come_from_the_same_engine(tiny: Engine) -> None:
    def texts() -> Iterator[str]:
        for vector in tiny.iter_documents(some_texts(400)):
            yield f"{tiny.embed_queries(['the sea'])[0, 0]} {vector[0]}"

    assert len(list(tiny.iter_documents(texts()))) == 400


def test_many_threads_may_have_streams_of_one_engine(tiny: Engine) -> None:
    texts = some_texts(1000)
    expected = tiny.embed_documents(texts)
    barrier = threading.Barrier(6)

    def consume(number: int) -> None:
        barrier.wait(SECONDS)
        begin = 100 * number
        if number == 5:
            for _ in range(20):
                np.testing.assert_array_equal(tiny.embed_documents(texts[:40]), expected[:40])
        else:
            found = list(tiny.iter_documents(texts[begin:]))
            np.testing.assert_array_equal(found, expected[begin:])

    with ThreadPoolExecutor(6) as pool:
        for future in [pool.submit(consume, number) for number in range(6)]:
            future.result(SECONDS)


def test_a_stream_may_move_from_thread_to_thread(tiny: Engine) -> None:
    texts = some_texts(700)
    stream = tiny.iter_documents(texts)
    with ThreadPoolExecutor(1) as pool:
        found = [next(stream)]
        found += pool.submit(lambda: list(islice(stream, 400))).result(SECONDS)
        found += stream
    np.testing.assert_array_equal(found, tiny.embed_documents(texts))


@pytest.mark.parametrize("known", [0, 1, 50, 2000])
def test_a_stream_takes_from_the_cache_and_gives_to_it(
    tiny_folder: Path, tiny: Engine, tmp_path: Path, known: int
) -> None:
    texts = some_texts(2000)
    expected = tiny.embed_documents(texts)
    config = EngineConfig(cache=tmp_path / "cache")
    with onnx_embeddings.load(tiny_folder, config=config) as engine:
        engine.embed_documents(texts[::-1][:known])
        found = list(engine.iter_documents(texts))
        np.testing.assert_array_equal(found, expected)
        stats = engine.stats()
        assert (stats.texts, stats.cached_texts) == (2000 + known, known)
    with onnx_embeddings.load(tiny_folder, config=config) as engine:
        np.testing.assert_array_equal(list(engine.iter_documents(texts)), expected)
        np.testing.assert_array_equal(engine.embed_documents(texts), expected)
        stats = engine.stats()
        assert (stats.texts, stats.cached_texts, stats.batches) == (4000, 4000, 0)


def test_what_came_before_an_error_is_cached(tiny_folder: Path, tmp_path: Path) -> None:
    texts: list[Any] = [*some_texts(100), None]
    config = EngineConfig(cache=tmp_path / "cache")
    with onnx_embeddings.load(tiny_folder, config=config) as engine:
        with pytest.raises(InputError):
            list(engine.iter_documents(texts))
        engine.embed_documents(texts[:100])
        assert engine.stats().cached_texts == 100


@pytest.mark.parametrize("cached", [False, True])
def test_a_text_repeated_soon_is_computed_once(
    tiny_folder: Path, tmp_path: Path, *, cached: bool
) -> None:
    texts = [text for text in some_texts(500) for _ in range(4)]
    config = EngineConfig(cache=tmp_path / "cache" if cached else None)
    with (
        onnx_embeddings.load(tiny_folder, config=config) as engine,
        onnx_embeddings.load(tiny_folder, config=config) as other,
    ):
        found = list(engine.iter_documents(texts))
        if cached:
            engine.cache.clear()  # type: ignore[union-attr]
        np.testing.assert_array_equal(found, other.embed_documents(texts))
        ours, theirs = engine.stats(), other.stats()
        assert ours.texts == theirs.texts == 2000
        assert ours.repeated_texts == theirs.repeated_texts == 1500
        assert ours.tokens == theirs.tokens


def test_texts_that_come_again_and_again_are_read_in_bounded_windows(tiny: Engine) -> None:
    texts = Counted(WORDS[i % 13] for i in count())
    expected = tiny.embed_documents(WORDS)
    for place, vector in enumerate(islice(tiny.iter_documents(texts), 15_000)):
        assert texts.taken <= place + 1 + 4 * LOOK_AHEAD
        np.testing.assert_array_equal(vector, expected[place % 13])


def test_a_few_short_texts_are_one_batch(tiny: Engine) -> None:
    texts = [f"{word} {other}" for word in WORDS[:10] for other in WORDS[:8]]
    assert (len(texts), tiny.count_tokens(texts).max()) == (80, 6)
    tiny.embed_documents(texts)
    assert tiny.stats().batches == 1
    list(tiny.iter_documents(texts))
    assert tiny.stats().batches == 2


def test_a_stream_counts_what_it_does(tiny_folder: Path) -> None:
    texts = [*some_texts(50), "cat " * 40, "", ""]
    counts = []
    for method in ("embed_documents", "iter_documents"):
        with onnx_embeddings.load(tiny_folder) as engine:
            assert len(list(getattr(engine, method)(texts))) == len(texts)
            counts.append(engine.stats())
    assert counts[0] == counts[1]
    assert (counts[0].texts, counts[0].repeated_texts, counts[0].cut_texts) == (53, 1, 1)


@pytest.mark.parametrize("number", [0, 1, 1500])
def test_a_bar_has_a_total_where_it_is_known(
    tiny: Engine, capsys: pytest.CaptureFixture[str], number: int
) -> None:
    texts = some_texts(number)
    assert len(list(tiny.iter_documents(texts))) == number
    assert capsys.readouterr() == ("", "")
    assert len(list(tiny.iter_documents(texts, progress=True))) == number
    of_all = f"{number}/{number}" if number else "0 texts"  # tqdm shows no total of 0
    assert of_all in capsys.readouterr().err
    assert len(list(tiny.iter_documents(iter(texts), progress=True))) == number
    printed = capsys.readouterr().err
    assert f"{number} texts" in printed
    assert f"/{number}" not in printed
    tiny.embed_documents([*texts, *texts, "a"], progress=True)
    assert f"{2 * number + 1}/{2 * number + 1}" in capsys.readouterr().err


def test_texts_without_a_single_token_get_zeros_and_are_counted_by_the_bar(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write_tiny_model(tmp_path / "model") / "tokenizer.json"
    tokenizer = json.loads(file.read_text(encoding="utf-8"))
    tokenizer["post_processor"] = None  # it adds no special tokens any more
    file.write_text(json.dumps(tokenizer), encoding="utf-8")
    with onnx_embeddings.load(file.parent) as engine:
        for texts in (["", " "], ["", "the cat", " ", "\t"]):
            found = list(engine.iter_documents(texts, progress=True))
            assert f"{len(texts)}/{len(texts)}" in capsys.readouterr().err
            np.testing.assert_array_equal(found, engine.embed_documents(texts))
            norms = np.linalg.norm(found, axis=1)
            np.testing.assert_allclose(norms, [text == "the cat" for text in texts], atol=1e-6)


@pytest.mark.parametrize("lanes", [1, 2])
def test_a_warm_engine_knows_how_lone_texts_are_fastest(tiny_folder: Path, lanes: int) -> None:
    config = EngineConfig(lanes=lanes)
    with onnx_embeddings.load(tiny_folder, config=config) as cold:
        expected = cold.embed_documents(TEXTS)
    engine = onnx_embeddings.Engine(cold.request, config)
    with engine:
        assert engine.warm_up() is engine
        assert engine.stats() == onnx_embeddings.Engine(cold.request).stats()
        alone = engine._opened().sessions._alone
        if lanes == 1:
            assert not alone
        else:
            assert len(alone[lanes]._faster) >= 4  # sizes
        np.testing.assert_array_equal(engine.embed_documents(TEXTS), expected)
        assert engine.warm_up().stats().texts == len(TEXTS)
    with pytest.raises(ClosedError):
        engine.warm_up()


def test_warming_up_leaves_the_cache_alone(tiny_folder: Path, tmp_path: Path) -> None:
    config = EngineConfig(cache=tmp_path / "cache")
    with onnx_embeddings.load(tiny_folder, config=config) as engine:
        stats = engine.warm_up().cache.stats()  # type: ignore[union-attr]
        assert (stats.hits, stats.misses, stats.vectors) == (0, 0, 0)
