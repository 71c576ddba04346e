"""The cache of vectors: what it finds, keeps and lets go, and what it does when it is broken."""

from __future__ import annotations

import logging
import os
import pickle
import shutil
import sqlite3
import stat
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import diskcache
import numpy as np
import pytest

import onnx_embeddings
from onnx_embeddings import EngineConfig
from onnx_embeddings import cache as cache_module
from onnx_embeddings.cache import VectorCache, access, database, failures, open_cache
from onnx_embeddings.errors import CacheError, InferenceError, InputError
from onnx_embeddings.testing import write_tiny_model

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from onnx_embeddings import Engine
    from onnx_embeddings.arrays import Vectors

DIM = 6
TEXTS = ["the cat", "a dog runs", "", "the sun", "the cat", "two birds"]


def key(number: int) -> bytes:
    return number.to_bytes(32, "little")


def some(count: int, seed: int = 0) -> Vectors:
    return np.random.default_rng(seed).normal(size=(count, DIM)).astype(np.float32)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def cache(folder: Path) -> VectorCache:
    made = VectorCache(folder, 2**24)
    made.open()
    return made


@pytest.fixture
def engine(tiny_folder: Path, folder: Path) -> Iterator[Engine]:
    with onnx_embeddings.load(tiny_folder, config=EngineConfig(cache=folder)) as made:
        yield made


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failures, "_PATIENCE_S", 0.2)
    monkeypatch.setattr(access, "_REST_S", 0.3)


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def sql(cache: VectorCache, statement: str, *values: object) -> list[Any]:
    with sqlite3.connect(cache.folder / "cache.db") as connection:
        rows = connection.execute(statement, values).fetchall()
    connection.close()
    return rows


# What it finds.


def test_what_was_put_is_found_in_the_order_asked_for(cache: VectorCache) -> None:
    vectors = some(1500)
    cache.put_many([key(n) for n in range(1500)], vectors)
    asked = [1499, 5000, 3, 7, 5001, 0, 700]
    places, found = cache.get_many([key(n) for n in asked], DIM)
    assert places == [0, 2, 3, 5, 6]
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, vectors[[1499, 3, 7, 0, 700]])
    assert cache.get_many([], DIM)[0] == []
    everything = cache.get_many([key(n) for n in range(1500)], DIM)
    np.testing.assert_array_equal(everything[1], vectors)


def test_every_bit_comes_back(cache: VectorCache) -> None:
    odd = np.array([[0.0, -0.0, 1e-45, 3.4e38, -1.0, 1 / 3]], np.float32)
    cache.put_many([key(1)], odd)
    assert cache.get_many([key(1)], DIM)[1].tobytes() == odd.tobytes()


def test_a_vector_of_another_length_is_not_believed(cache: VectorCache) -> None:
    cache.put_many([key(1)], some(1))
    assert cache.get_many([key(1)], DIM + 1)[0] == []
    assert cache.stats().damaged == 1


def test_another_process_would_find_it_too(cache: VectorCache, folder: Path) -> None:
    cache.put_many([key(1)], some(1))
    other = VectorCache(folder, 2**24)
    assert other.get_many([key(1)], DIM)[0] == [0]


# In an engine.


def test_an_engine_computes_nothing_twice(tiny: Engine, engine: Engine) -> None:
    expected = tiny.embed_documents(TEXTS)
    first = engine.embed_documents(TEXTS)
    before = engine.stats()
    second = engine.embed_documents(TEXTS)
    after = engine.stats()
    np.testing.assert_array_equal(first, expected)
    np.testing.assert_array_equal(second, expected)
    assert after.batches == before.batches
    assert after.tokens == before.tokens
    assert (before.texts, before.cached_texts, before.repeated_texts) == (6, 0, 1)
    assert (after.texts, after.cached_texts, after.repeated_texts) == (12, 5, 2)


def test_some_known_texts_among_new_ones_keep_the_order(tiny: Engine, engine: Engine) -> None:
    engine.embed_documents(TEXTS[1:4])
    many = [f"text {n % 1700} of many" for n in range(2600)]
    mixed = [TEXTS[n % 6] if n % 5 == 0 else text for n, text in enumerate(many)]
    np.testing.assert_array_equal(engine.embed_documents(mixed), tiny.embed_documents(mixed))
    assert engine.stats().cached_texts == 3
    np.testing.assert_array_equal(engine.embed_documents(mixed), tiny.embed_documents(mixed))


def test_a_repeated_text_is_computed_once_without_a_cache_too(tiny: Engine) -> None:
    found = tiny.embed_documents(["the cat"] * 100 + ["a dog"] + ["the cat"])
    assert tiny.stats().batches == 1
    assert tiny.stats().repeated_texts == 100
    assert (found[[*range(100), 101]] == found[0]).all()


def test_queries_and_documents_share_what_has_the_same_prompt(
    tiny_folder: Path, folder: Path
) -> None:
    config = EngineConfig(cache=folder)
    with onnx_embeddings.load(tiny_folder, query_prompt="query ", config=config) as engine:
        documents = engine.embed_documents(["cat"])
        queries = engine.embed_queries(["cat"])
        assert (documents != queries).any()
        np.testing.assert_array_equal(engine.embed_documents(["cat"]), documents)
        np.testing.assert_array_equal(engine.embed_queries(["cat"]), queries)
        assert engine.stats().cached_texts == 2
    with onnx_embeddings.load(tiny_folder, config=config) as engine:
        np.testing.assert_array_equal(engine.embed_queries(["cat"]), documents)
        assert engine.stats().cached_texts == 1


def test_models_of_one_size_do_not_answer_for_each_other(tmp_path: Path, folder: Path) -> None:
    model = tmp_path / "model"
    rows = []
    for seed in (1, 2):  # the second is written over the first: same folder, same names
        write_tiny_model(model, seed=seed)
        with onnx_embeddings.load(model, config=EngineConfig(cache=folder)) as engine:
            rows.append(engine.embed_documents(["the cat"]))
            assert engine.stats().cached_texts == 0
    assert (rows[0] != rows[1]).any()


def test_a_text_that_is_too_long_is_not_answered_from_a_cut_one(
    tiny_folder: Path, folder: Path
) -> None:
    long = "the cat runs " * 30
    config = EngineConfig(cache=folder)
    with onnx_embeddings.load(tiny_folder, config=config) as engine:
        engine.embed_documents([long])
    with (
        onnx_embeddings.load(tiny_folder, long_text="error", config=config) as engine,
        pytest.raises(InputError) as caught,
    ):
        engine.embed_documents(["the cat", "the cat", long])
    assert caught.value.index == 2


def test_a_vector_that_is_not_finite_is_named_and_never_kept(tmp_path: Path, folder: Path) -> None:
    from safetensors.numpy import load_file, save_file

    model = write_tiny_model(tmp_path / "model")
    file = model / "model.safetensors"
    weights = {name: array.copy() for name, array in load_file(file).items()}
    with onnx_embeddings.load(model) as healthy:
        expected = healthy.embed_documents(["alpha", "gamma"])
        (word,) = healthy._opened().encoder.encode(["bird"]).ids[0][1:-1]
    weights["embeddings.word_embeddings.weight"][word] = np.nan
    save_file(weights, file)
    with onnx_embeddings.load(model, config=EngineConfig(cache=folder, batch_tokens=1)) as engine:
        for _ in range(2):
            with pytest.raises(InferenceError, match="index 1 is not finite"):
                engine.embed_documents(["alpha", "bird", "gamma"])
        assert engine.cache is not None
        np.testing.assert_array_equal(engine.embed_documents(["alpha", "gamma"]), expected)
        assert engine.cache.stats().vectors == 2


def test_windows_that_are_done_are_kept_when_a_later_one_fails(
    tiny_folder: Path, folder: Path
) -> None:
    config = EngineConfig(cache=folder)
    texts = [f"text {n}" for n in range(6 * 1024)]
    with onnx_embeddings.load(tiny_folder, long_text="error", config=config) as engine:
        with pytest.raises(InputError):
            engine.embed_documents([*texts, "the cat runs " * 30])
        assert engine.cache is not None
        # Up to 16 batches, here two windows, may not have been waited for.
        assert engine.cache.stats().vectors >= 3 * 1024


def test_without_a_cache_there_is_none(tiny_folder: Path, tmp_path: Path) -> None:
    config = EngineConfig(cache=None, home=tmp_path / "home")
    with onnx_embeddings.load(tiny_folder, config=config) as engine:
        engine.embed_documents(TEXTS)
        assert engine.cache is None
    assert not (tmp_path / "home" / "vectors").exists()


def test_by_default_it_lies_in_the_home_and_not_in_the_temporary_folder(
    tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ONNX_EMBEDDINGS_CACHE")
    with onnx_embeddings.load(tiny_folder) as engine:
        engine.embed_documents(TEXTS)
        assert engine.cache is not None
        assert engine.cache.folder == tmp_path / "home" / "vectors" / "vectors-1"
        assert engine.cache.stats().vectors == 5
    if os.name == "posix":
        assert stat.S_IMODE((tmp_path / "home/vectors/vectors-1").stat().st_mode) == 0o700


def test_engines_with_one_folder_share_one_cache(tiny_folder: Path, folder: Path) -> None:
    config = EngineConfig(cache=folder)
    with (
        onnx_embeddings.load(tiny_folder, config=config) as one,
        onnx_embeddings.load(tiny_folder, dim=8, config=config) as other,
    ):
        assert one.cache is other.cache


# What it counts, keeps, and lets go.


def test_it_counts_and_clears(engine: Engine, folder: Path) -> None:
    engine.embed_documents(TEXTS)
    engine.embed_documents(["the cat", "something new"])
    assert engine.cache is not None
    stats = engine.cache.stats()
    assert (stats.hits, stats.misses, stats.damaged, stats.errors) == (1, 6, 0, 0)
    assert stats.vectors == 6
    assert stats.folder == folder / "vectors-1"
    assert stats.bytes_limit == 2**30
    files = sum(file.stat().st_size for file in stats.folder.iterdir())
    assert stats.bytes_on_disk == files > 0
    engine.cache.clear()
    assert engine.cache.stats().vectors == 0
    engine.embed_documents(["the cat"])
    assert engine.cache.stats().misses == 7


def test_clearing_gives_the_room_back(cache: VectorCache) -> None:
    empty = cache.stats().bytes_on_disk
    cache.put_many([key(n) for n in range(3000)], some(3000))
    assert cache.stats().bytes_on_disk > empty + 2 * 3000 * 4 * DIM
    cache.clear()
    assert cache.stats().bytes_on_disk < empty + 50_000


def test_the_least_recently_used_go_first(folder: Path) -> None:
    dim = 384
    vectors = np.random.default_rng(0).normal(size=(3000, dim)).astype(np.float32)
    limit = 3_000_000  # room for about 1,300 of them
    cache = VectorCache(folder, limit)
    favourites = [key(n) for n in range(100)]
    for first in range(0, 3000, 100):
        cache.put_many([key(n) for n in range(first, first + 100)], vectors[first : first + 100])
        # Stored first of all, and used all the time.
        assert cache.get_many(favourites, dim)[0] == list(range(100))
    kept = [n for n in range(3000) if cache.get_many([key(n)], dim)[0]]
    assert len(kept) > 800
    assert kept == [*range(100), *range(kept[100], 3000)]  # and of the others the latest
    (pages,), (size,) = sql(cache, "PRAGMA page_count")[0], sql(cache, "PRAGMA page_size")[0]
    assert pages * size <= 1.01 * limit  # noting a use may take a page more


def test_a_cache_without_any_room_does_no_harm(
    tiny: Engine, tiny_folder: Path, folder: Path
) -> None:
    config = EngineConfig(cache=folder, cache_bytes=1)
    with onnx_embeddings.load(tiny_folder, config=config) as engine:
        for _ in range(2):
            found = engine.embed_documents(TEXTS)
            np.testing.assert_array_equal(found, tiny.embed_documents(TEXTS))
        assert engine.cache is not None
        assert engine.cache.stats().vectors == 0


# What lies there is not believed.


class Trap:
    """Makes a file when it is unpickled."""

    def __init__(self, file: Path) -> None:
        self.file = str(file)

    def __reduce__(self) -> tuple[Any, ...]:
        return open, (self.file, "w")


def plant(
    cache: VectorCache, number: int, value: object, mode: int = 1, filename: str | None = None
) -> None:
    cache.put_many([key(number)], some(1))
    statement = "UPDATE Cache SET value = ?, mode = ?, filename = ? WHERE key = ?"
    sql(cache, statement, value, mode, filename, key(number))


def right_value(cache: VectorCache, number: int) -> bytes:
    cache.put_many([key(number)], some(1, seed=number))
    ((value,),) = sql(cache, "SELECT value FROM Cache WHERE key = ?", key(number))
    return bytes(value)


def test_a_planted_pickle_is_never_opened(
    cache: VectorCache, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sprung = tmp_path / "sprung"
    trap = pickle.dumps(Trap(sprung))
    (cache.folder / "trap").write_bytes(trap)
    plant(cache, 1, trap, mode=4)
    plant(cache, 2, None, mode=4, filename="trap")
    plant(cache, 3, trap, mode=1)
    # A key of another kind, too, which diskcache would unpickle when it lists its keys.
    sql(cache, "INSERT INTO Cache (key, raw, mode, value) VALUES (?, 0, 4, ?)", trap, trap)
    assert cache.get_many([key(1), key(2), key(3), trap], DIM)[0] == []
    assert not sprung.exists()
    assert cache.stats().damaged == 3
    assert any("computed anew" in message for message in warnings(caplog))
    cache.put_many([key(1), key(2), key(3)], some(3))
    assert cache.get_many([key(1), key(2), key(3)], DIM)[0] == [0, 1, 2]
    cache.clear()
    assert not sprung.exists()
    assert (cache.folder / "trap").exists()  # the name of a file in a row is not followed


def test_only_bytes_go_in_and_out(cache: VectorCache, tmp_path: Path) -> None:
    cache.open()
    held = cache._access._opened()
    for other in ("text", 5, 1.0, None, [1], np.zeros(3), Trap(tmp_path / "sprung")):
        with pytest.raises(TypeError):
            held.set(b"key", other)
        with pytest.raises(TypeError):
            held.set(other, b"value")
    for mode, value in ((4, pickle.dumps(1)), (3, "text"), (2, None), (1, "text"), (1, 5)):
        with pytest.raises(TypeError):
            held.disk.fetch(mode, None, value, read=False)
    with pytest.raises(TypeError):
        held.disk.fetch(1, "a/file", b"value", read=False)
    with pytest.raises(TypeError):
        held.disk.get(pickle.dumps(1), raw=False)


def test_a_row_that_names_a_file_deletes_none(cache: VectorCache, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("keep me", encoding="utf-8")
    plant(cache, 1, b"", filename="../../precious")
    cache.put_many([key(1)], some(1))
    plant(cache, 1, b"", filename=str(precious))
    cache.clear()
    assert precious.exists()


@pytest.mark.parametrize(
    "what", ["short", "long", "empty", "flipped", "magic", "other", "text", "none", "number"]
)
def test_a_damaged_value_is_a_miss_that_is_mended(what: str, cache: VectorCache) -> None:
    right = right_value(cache, 1)
    wrong: dict[str, object] = {
        "short": right[:-1],
        "long": right + b"\0",
        "empty": b"",
        "flipped": right[:-3] + bytes([right[-3] ^ 1]) + right[-2:],
        "magic": b"oev2" + right[4:],
        "other": right_value(cache, 2),
        "text": "a text",
        "none": None,
        "number": 5,
    }
    plant(cache, 1, wrong[what])
    assert cache.get_many([key(1), key(3)], DIM)[0] == []
    assert cache.stats().damaged == 1
    cache.put_many([key(1)], some(1, seed=9))
    places, found = cache.get_many([key(1)], DIM)
    assert places == [0]
    np.testing.assert_array_equal(found, some(1, seed=9))


def test_a_value_with_a_right_checksum_and_no_number_is_a_miss(cache: VectorCache) -> None:
    vectors = some(3)
    vectors[1, 2] = np.nan
    cache.put_many([key(1), key(2), key(3)], vectors)
    places, found = cache.get_many([key(1), key(2), key(3)], DIM)
    assert places == [0, 2]
    np.testing.assert_array_equal(found, vectors[[0, 2]])


def test_an_engine_gets_right_vectors_out_of_a_damaged_cache(tiny: Engine, engine: Engine) -> None:
    expected = engine.embed_documents(TEXTS)
    assert engine.cache is not None
    sql(engine.cache, "UPDATE Cache SET value = substr(value, 1, 40)")
    for _ in range(2):
        np.testing.assert_array_equal(engine.embed_documents(TEXTS), expected)
    assert engine.cache.stats().damaged == 5
    np.testing.assert_array_equal(tiny.embed_documents(TEXTS), expected)


# Broken files.


def opened_anew() -> None:
    """Wait until no lane holds a cache any more, so that the next engine opens one."""
    while cache_module._open:
        time.sleep(0.01)


def broken_page(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[100:4096] = os.urandom(3996)
    file.write_bytes(bytes(data))


def other_program(file: Path) -> None:
    file.unlink()
    connection = sqlite3.connect(file)
    connection.execute("CREATE TABLE Cache (something TEXT)")
    connection.execute("CREATE TABLE Settings (key TEXT NOT NULL UNIQUE, value)")
    connection.commit()
    connection.close()


def odd_setting(file: Path) -> None:
    connection = sqlite3.connect(file)
    connection.execute("INSERT INTO Settings VALUES ('directory', 'elsewhere')")
    connection.execute("INSERT INTO Settings VALUES ('disk_something', 5)")
    connection.commit()
    connection.close()


def folder_instead(file: Path) -> None:
    file.unlink()
    file.mkdir()


def no_database(file: Path) -> None:
    file.write_bytes(b"this is no database, whatever its name says" * 200)


def nothing_in_it(file: Path) -> None:
    file.write_bytes(b"")


DAMAGE = [broken_page, other_program, odd_setting, folder_instead, no_database, nothing_in_it]


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("times", [1, 2])
def test_a_damaged_database_is_moved_aside_and_begun_anew(  # noqa: PLR0913, PLR0917
    damage: Any,
    times: int,
    tiny: Engine,
    tiny_folder: Path,
    folder: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    config = EngineConfig(cache=folder)
    expected = tiny.embed_documents(TEXTS)
    database_file = folder / "vectors-1" / "cache.db"
    for _ in range(times):
        with onnx_embeddings.load(tiny_folder, config=config) as engine:
            engine.embed_documents(TEXTS)
        opened_anew()
        damage(database_file)
        with onnx_embeddings.load(tiny_folder, config=config) as engine:
            np.testing.assert_array_equal(engine.embed_documents(TEXTS), expected)
            np.testing.assert_array_equal(engine.embed_documents(TEXTS), expected)
            assert engine.stats().cached_texts == 5
    if damage is not nothing_in_it:
        assert any(str(database_file) in message for message in warnings(caplog))
        assert (database_file.parent / "damaged" / "cache.db").exists()


def test_damage_while_it_is_open_is_survived(
    tiny: Engine, engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    expected = tiny.embed_documents(TEXTS)
    engine.embed_documents(TEXTS)
    assert engine.cache is not None
    engine.cache.close_idle()  # or SQLite would go on with the pages it has in memory
    broken_page(engine.cache.folder / "cache.db")
    for _ in range(2):
        np.testing.assert_array_equal(engine.embed_documents(TEXTS), expected)
    assert engine.cache.stats().vectors == 5
    assert any("damaged" in message for message in warnings(caplog))


@pytest.mark.parametrize("then", ["nothing", "a folder", "another database"])
def test_a_folder_that_goes_while_it_is_open_is_made_anew(
    then: str, tiny: Engine, engine: Engine, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    expected = tiny.embed_documents(TEXTS)
    engine.embed_documents(TEXTS)
    shutil.rmtree(folder)
    if then == "a folder":
        (folder / "vectors-1").mkdir(parents=True)
    elif then == "another database":
        VectorCache(folder, 2**20).open()
    for _ in range(2):
        np.testing.assert_array_equal(engine.embed_documents(TEXTS), expected)
    assert engine.stats().cached_texts == 5  # found again: what was written did not get lost
    assert len(warnings(caplog)) == 1
    assert "removed or replaced" in warnings(caplog)[0]


# Where it can't be.


def test_a_named_folder_that_cannot_be_used_is_an_error(tiny_folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("no folder", encoding="utf-8")
    with pytest.raises(CacheError) as caught:
        onnx_embeddings.load(tiny_folder, config=EngineConfig(cache=file / "cache"))
    assert str(file) in caught.value.folder
    assert "Hint: name a folder that is writable" in str(caught.value)
    assert file.read_text(encoding="utf-8") == "no folder"


def test_a_default_folder_that_cannot_be_used_is_said_once_and_done_without(
    tiny: Engine,
    tiny_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.delenv("ONNX_EMBEDDINGS_CACHE")
    home = tmp_path / "here"
    home.mkdir()
    (home / "vectors").write_text("no folder", encoding="utf-8")
    engines = [onnx_embeddings.load(tiny_folder, config=EngineConfig(home=home)) for _ in range(3)]
    for engine in engines:
        found = engine.embed_documents(TEXTS)
        np.testing.assert_array_equal(found, tiny.embed_documents(TEXTS))
        assert engine.cache is not None
        assert engine.cache.stats().errors > 0
        assert engine.cache.stats().vectors == 0
        engine.close()
    said = [message for message in warnings(caplog) if "vectors" in message]
    assert len(said) == 1
    assert str(home / "vectors") in said[0]


@pytest.mark.usefixtures("impatient")
def test_a_lock_of_somebody_else_costs_a_bounded_time_and_no_vector(
    tiny: Engine,
    engine: Engine,
    caplog: pytest.LogCaptureFixture,
) -> None:
    expected = tiny.embed_documents(TEXTS)
    engine.embed_documents(TEXTS[:2])
    assert engine.cache is not None
    other = sqlite3.connect(engine.cache.folder / "cache.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    started = time.monotonic()
    for _ in range(5):
        np.testing.assert_array_equal(engine.embed_documents(TEXTS), expected)
    assert time.monotonic() - started < 5
    assert engine.cache.stats().errors > 0
    assert engine.stats().cached_texts >= 10  # what was there is still read
    assert len([m for m in warnings(caplog) if "going on without" in m]) == 1
    other.execute("ROLLBACK")
    other.close()
    time.sleep(0.35)
    engine.embed_documents(TEXTS)
    before = engine.stats().batches
    engine.embed_documents(TEXTS)
    assert engine.stats().batches == before


def test_uses_that_could_not_be_noted_are_noted_later(cache: VectorCache) -> None:
    cache.put_many([key(1), key(2)], some(2))
    ((before,),) = sql(cache, "SELECT access_time FROM Cache WHERE key = ?", key(1))
    other = sqlite3.connect(cache.folder / "cache.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    assert cache.get_many([key(1)], DIM)[0] == [0]
    other.execute("ROLLBACK")
    other.close()
    assert cache.get_many([key(2)], DIM)[0] == [0]
    ((after,),) = sql(cache, "SELECT access_time FROM Cache WHERE key = ?", key(1))
    assert after > before


@pytest.mark.usefixtures("impatient")
def test_a_locked_database_does_not_hang_the_start(
    tiny_folder: Path, cache: VectorCache, folder: Path
) -> None:
    other = sqlite3.connect(cache.folder / "cache.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(CacheError, match=r"locked|writes"):
        onnx_embeddings.load(tiny_folder, config=EngineConfig(cache=folder, lanes=1))
    other.close()
    onnx_embeddings.load(tiny_folder, config=EngineConfig(cache=folder, lanes=1)).close()


def test_a_name_that_diskcache_would_rewrite_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET", "elsewhere")
    with pytest.raises(CacheError, match="variable"):
        open_cache(EngineConfig(cache=tmp_path / "a$SECRET").resolved())
    odd = tmp_path / "J\u00fcrgen \u6a21\u578b $x"
    made = open_cache(EngineConfig(cache=odd).resolved())
    assert made is not None
    assert (odd / "vectors-1" / "cache.db").is_file()


# What was found by review.


def test_a_full_disk_is_no_damage(cache: VectorCache, caplog: pytest.LogCaptureFixture) -> None:
    """In the middle of a large transaction SQLite rolls back by itself."""
    cache.put_many([key(1)], some(1))
    held = cache._access._opened()

    def full(_: object) -> None:
        with held.transact():
            held._sql("ROLLBACK")
            error = sqlite3.OperationalError("database or disk is full")
            error.sqlite_errorcode = sqlite3.SQLITE_FULL
            raise error

    cache._access.attempt("write", full, None)
    assert "disk is full" in caplog.text
    assert "damaged" not in caplog.text
    assert cache.get_many([key(1)], DIM)[0] == [0]


def test_what_cannot_be_noted_is_still_found(
    cache: VectorCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.put_many([key(1)], some(1))

    def full(*_: object) -> bool:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(database.Database, "touch", full)
    for _ in range(3):
        assert cache.get_many([key(1)], DIM)[0] == [0]


def can_write(cache: VectorCache) -> bool:
    connection = sqlite3.connect(cache.folder / "cache.db", timeout=0, isolation_level=None)
    try:
        connection.execute("BEGIN IMMEDIATE")
    except sqlite3.OperationalError:
        return False
    finally:
        connection.close()
    return True


def test_an_interrupt_leaves_no_lock(cache: VectorCache) -> None:
    held = cache._access._opened()
    with suppress(KeyboardInterrupt), held.borrowed(), held.transact():
        assert not can_write(cache)
        raise KeyboardInterrupt
    assert can_write(cache)
    with held.borrowed():
        begun = held.transact()
        begun.__enter__()  # and the interrupt comes before the with statement has it
        assert not can_write(cache)
    assert can_write(cache)
    cache.put_many([key(1)], some(1))
    assert cache.get_many([key(1)], DIM)[0] == [0]


def test_what_another_process_has_begun_anew_is_not_moved(cache: VectorCache) -> None:
    cache.put_many([key(1)], some(1))
    cache._access._set_aside(ValueError("it was damaged"), (0, 0, 0))
    assert cache.get_many([key(1)], DIM)[0] == [0]
    assert not (cache.folder / "damaged").exists()


def test_clearing_removes_what_was_moved_aside_too(folder: Path) -> None:
    (folder / "vectors-1").mkdir(parents=True)
    (folder / "vectors-1" / "cache.db").write_bytes(b"no database" * 100_000)
    cache = VectorCache(folder, 2**24)
    cache.open()
    assert cache.stats().bytes_on_disk > 1_000_000
    cache.clear()
    assert cache.stats().bytes_on_disk < 200_000
    assert not (folder / "vectors-1" / "damaged").exists()


@pytest.mark.usefixtures("impatient")
def test_clearing_works_also_after_a_failure_or_says_that_it_can_not(
    cache: VectorCache, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access, "_REST_S", 1000.0)
    cache.put_many([key(1)], some(1))

    def full(*_: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(database.Database, "write", full)
        cache.put_many([key(2)], some(1))
    cache.clear()
    assert cache.stats().vectors == 0
    cache.put_many([key(2)], some(1))
    assert cache.get_many([key(1), key(2)], DIM)[0] == [1]
    shutil.rmtree(folder)
    folder.write_text("no folder", encoding="utf-8")
    with pytest.raises(CacheError, match="can't be cleared"):
        cache.clear()


def test_clearing_needs_no_database_that_opens(
    cache: VectorCache, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that is full lets no database open; what is there goes all the same."""
    cache.put_many([key(1)], some(1))
    cache.close_idle()
    fresh = VectorCache(folder, 2**24)
    file = cache.folder / "cache.db"
    connect = database.connect

    def full(at: Path, limit: int) -> database.Database:
        if file.exists():
            raise sqlite3.OperationalError("database or disk is full")
        return connect(at, limit)

    monkeypatch.setattr(access, "connect", full)
    fresh.clear()
    assert fresh.stats().vectors == 0


def test_others_notice_that_it_was_cleared(cache: VectorCache, folder: Path) -> None:
    other = VectorCache(folder, 2**24)
    other.put_many([key(1)], some(1))
    cache.clear()
    assert other.get_many([key(1)], DIM)[0] == []
    other.put_many([key(2)], some(1))
    assert cache.get_many([key(2)], DIM)[0] == [0]


HOSTILE = {
    "a trigger": "CREATE TRIGGER t AFTER INSERT ON Cache BEGIN DELETE FROM Cache; END",
    "a view": "CREATE VIEW v AS SELECT * FROM Cache",
    "a table": "CREATE TABLE t (x)",
    "another folder": "INSERT INTO Settings VALUES ('_directory', '{elsewhere}')",
    "a pragma": "INSERT INTO Settings VALUES ('sqlite_query_only', 1)",
    "a key that is no text": "INSERT INTO Settings VALUES (x'00', 1)",
}


@pytest.mark.parametrize("statement", HOSTILE.values(), ids=list(HOSTILE))
def test_a_database_with_more_in_it_is_none_of_ours(
    statement: str, cache: VectorCache, folder: Path, tmp_path: Path
) -> None:
    cache.put_many([key(1)], some(1))
    elsewhere = tmp_path / "elsewhere"
    sql(cache, statement.format(elsewhere=elsewhere))
    other = VectorCache(folder, 2**24)
    other.open()
    assert not elsewhere.exists()
    assert (cache.folder / "damaged" / "cache.db").exists()
    other.put_many([key(2)], some(1))
    assert other.get_many([key(1), key(2)], DIM)[0] == [1]


def test_settings_of_the_database_are_not_followed(cache: VectorCache, folder: Path) -> None:
    for name, value in (
        ("sqlite_journal_mode", "off"),
        ("sqlite_mmap_size", 2**26),
        ("cull_limit", 9),
    ):
        sql(cache, "UPDATE Settings SET value = ? WHERE key = ?", value, name)
    other = VectorCache(folder, 2**24)
    held = other._access._opened()
    assert held.cull_limit == 0
    with held.borrowed():
        assert held._sql("PRAGMA journal_mode").fetchone() == ("wal",)
        assert held._sql("PRAGMA mmap_size").fetchone() == (0,)


def test_a_clock_that_was_set_back_harms_nobody(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = VectorCache(folder, 300_000)
    for first in range(0, 4000, 500):
        cache.put_many([key(n) for n in range(first, first + 500)], some(500))
    monkeypatch.setattr(time, "time", lambda: 1000.0)
    cache.put_many([key(n) for n in range(9000, 9100)], some(100))
    assert cache.get_many([key(n) for n in range(9000, 9100)], DIM)[0] == list(range(100))


def test_a_limit_that_was_lowered_takes_no_caller_for_long(folder: Path) -> None:
    large = VectorCache(folder, 2**26)
    for first in range(0, 20_000, 1000):
        large.put_many([key(n) for n in range(first, first + 1000)], some(1000))
    small = VectorCache(folder, 200_000)
    left = [small.stats().vectors]
    for number in range(20):
        small.put_many([key(30_000 + number)], some(1))
        left.append(small.stats().vectors)
    assert left[0] == 20_000
    assert left[1] > 15_000  # some at a time
    assert left[-1] < 2000


def test_a_thousand_short_threads_leave_a_few_connections(cache: VectorCache) -> None:
    cache.put_many([key(1)], some(1))
    for _ in range(20):
        with ThreadPoolExecutor(16) as pool:
            list(pool.map(lambda _: cache.get_many([key(1)], DIM), range(48)))
    assert len(cache._access._opened()._idle) <= 4
    cache.close_idle()
    assert cache._access._opened()._idle == []


def test_a_bar_moves_with_known_texts_too(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    import tqdm

    texts = [f"text {n}" for n in range(3000)]
    engine.embed_documents(texts)
    steps: list[float] = []

    class Bar(tqdm.tqdm):  # type: ignore[type-arg]  # it is no generic class at run time
        def update(self, n: float | None = 1) -> bool | None:
            steps.append(n or 0)
            return super().update(n)

    monkeypatch.setattr(tqdm, "tqdm", Bar)
    engine.embed_documents(texts, progress=True)
    assert sum(steps) == 3000
    assert len([step for step in steps if step]) >= 2  # before the end, too


# Many at a time.


def test_twenty_threads_lose_nothing(folder: Path) -> None:
    caches = [VectorCache(folder, 2**26) for _ in range(3)]
    vectors = some(2000)

    def work(number: int) -> None:
        cache = caches[number % 3]
        mine = range(number * 100, number * 100 + 100)
        for first in range(mine[0], mine[-1], 10):
            numbers = range(first, first + 10)
            cache.put_many([key(n) for n in numbers], vectors[first : first + 10])
            assert cache.get_many([key(n) for n in numbers], DIM)[0] == list(range(10))

    with ThreadPoolExecutor(20) as pool:
        list(pool.map(work, range(20)))
    places, found = VectorCache(folder, 2**26).get_many([key(n) for n in range(2000)], DIM)
    assert places == list(range(2000))
    np.testing.assert_array_equal(found, vectors)
    assert sum(cache.stats().errors for cache in caches) == 0


def test_threads_of_one_engine_share_it(tiny: Engine, engine: Engine) -> None:
    texts = [f"text {n}" for n in range(60)]
    expected = tiny.embed_documents(texts)

    def work(number: int) -> None:
        order = np.random.default_rng(number).permutation(60)
        found = engine.embed_documents([texts[n] for n in order])
        np.testing.assert_array_equal(found, expected[order])

    with ThreadPoolExecutor(12) as pool:
        list(pool.map(work, range(24)))
    assert engine.cache is not None
    assert engine.cache.stats().vectors == 60
    assert engine.cache.stats().errors == 0


def test_many_who_open_a_new_folder_at_once_all_can(folder: Path) -> None:
    barrier = threading.Barrier(16)

    def work(number: int) -> None:
        barrier.wait()
        cache = VectorCache(folder, 2**24)
        cache.open()
        cache.put_many([key(number)], some(1, seed=number))
        assert cache.stats().errors == 0

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(work, range(16)))
    assert VectorCache(folder, 2**24).get_many([key(n) for n in range(16)], DIM)[0] == [*range(16)]


def test_the_door_is_diskcache_with_its_own_culling_off(cache: VectorCache) -> None:
    held = cache._access._opened()
    assert isinstance(held, diskcache.Cache)
    assert held.eviction_policy == "least-recently-used"
    assert held.cull_limit == 0
