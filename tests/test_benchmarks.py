from __future__ import annotations

import json
import math
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from benchmarks import machine, report, roofline
from benchmarks.bars import BARS, best, judge
from benchmarks.contestants import CONTESTANTS, FASTEMBED, FP32, INT8, LIBEMBEDDING, TORCH
from benchmarks.corpus import parse, shuffled
from benchmarks.distinct import evenly, read
from benchmarks.lab import QUICK, Lab, Places, beginning_with_another, rounded
from benchmarks.quality import spearman
from benchmarks.throughput import agreement, cosines_of, without_slower_batches
from benchmarks.worker import counts_of, vectors_of

if TYPE_CHECKING:
    from pathlib import Path

    import numpy.typing as npt


def row(texts_per_second: float, rounds: int = 5) -> dict[str, Any]:
    return {
        "texts_per_second": texts_per_second,
        "tokens_per_second": texts_per_second * 80,
        "peak_mb": 300.0,
        "cores_busy": 2.0,
        "seconds_of_each_round": [1.0] * rounds,
    }


def result() -> dict[str, Any]:
    """What a run found that measured nothing but throughput and streams."""
    mixed = {
        FP32: row(90.0) | {"mean_cosine": 1.0, "least_cosine": 1.0},
        INT8: row(240.0) | {"mean_cosine": 0.999, "least_cosine": 0.9951},
        FASTEMBED: row(20.0),
        f"{FASTEMBED}, batch 32": row(27.0, rounds=1),
        f"{FASTEMBED}, batch 8": row(39.0),
        TORCH: row(50.0),
    }
    runs = [(1000, 250.0, 190.0), (10_000, 252.0, 200.0), (100_000, 240.0, 206.0)]
    return {
        "machine": {"processor": "one", "cores": 2, "memory_gib": 8},
        "corpus": {"mixed": {"texts": 1000, "mean_tokens": 83.0}},
        "bulk": {"mixed": mixed},
        "growth": {
            "texts": [
                row(rate) | {"precision": "int8", "texts": count, "peak_mb": peak}
                for count, rate, peak in runs
            ]
        },
    }


def test_every_block_of_the_stream_has_the_same_mix_of_lengths() -> None:
    lengths = np.random.default_rng(0).integers(3, 257, size=1000)
    order = evenly(list(map(int, lengths)), block=100)
    assert sorted(order) == list(range(1000))
    means = [lengths[order[first : first + 100]].mean() for first in range(0, 1000, 100)]
    assert max(means) - min(means) < 3
    chance = [lengths[first : first + 100].mean() for first in range(0, 1000, 100)]
    assert max(chance) - min(chance) > 10


def test_fewer_texts_than_a_block_are_all_there() -> None:
    assert sorted(evenly([5, 3, 4], block=100)) == [0, 1, 2]


def test_texts_are_read_one_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "texts.jsonl"
    path.write_text('"one\\ntext"\n"two"\nnot JSON\n', encoding="utf-8")
    texts = read(path)
    assert [next(texts), next(texts)] == ["one\ntext", "two"]
    assert list(read(path, 2)) == ["one\ntext", "two"]
    with pytest.raises(json.JSONDecodeError):
        next(texts)


def test_a_description_is_read_from_apts_list() -> None:
    stanza = (
        "Package: tool\nDescription-md5: 00\nDescription-pt_BR: uma ferramenta\n"
        " A primeira\n linha.\n .\n O segundo.\n"
    )
    entry = parse(stanza, "pt_BR")
    assert entry is not None
    assert (entry.package, entry.language) == ("tool", "pt_BR")
    assert (entry.title, entry.text) == ("uma ferramenta", "A primeira linha.\nO segundo.")
    assert parse(stanza, "en") is None
    assert parse("Package: bare\nDescription-en: nothing more\n", "en") is None


def test_a_texts_place_depends_on_no_other_text() -> None:
    texts = [f"text {number}" for number in range(50)]
    order = shuffled(texts, 1)
    assert order != texts
    assert [text for text in order if text != "text 7"] == shuffled(
        [text for text in texts if text != "text 7"], 1
    )


def test_each_turn_begins_with_another() -> None:
    names = ["a", "b", "c"]
    turns = [beginning_with_another(names, turn) for turn in range(4)]
    assert turns == [["a", "b", "c"], ["b", "c", "a"], ["c", "a", "b"], ["a", "b", "c"]]
    assert beginning_with_another([], 3) == []


def test_only_the_faster_batch_size_goes_on_each_workload_by_itself() -> None:
    small, large = f"{FASTEMBED}, batch 8", f"{FASTEMBED}, batch 32"
    entered = {FP32: ["mixed", "short"], small: ["mixed", "short"], large: ["mixed", "short"]}
    seconds = {"mixed": {FP32: 1, small: 2, large: 3}, "short": {FP32: 1, small: 3, large: 2}}
    runs = {
        workload: {name: [{"seconds": taken}] for name, taken in rows.items()}
        for workload, rows in seconds.items()
    }
    assert without_slower_batches(entered, runs) == {
        FP32: ["mixed", "short"],
        small: ["mixed"],
        large: ["short"],
    }


def test_the_best_of_a_library_is_among_those_that_ran_to_the_end() -> None:
    rows = result()["bulk"]["mixed"]
    rows[f"{FASTEMBED}, batch 32"]["texts_per_second"] = 99.0
    assert best(rows, FASTEMBED) == f"{FASTEMBED}, batch 8"
    with pytest.raises(KeyError):
        best(rows, LIBEMBEDDING)


def test_bars_are_kept_missed_or_not_measured() -> None:
    judged = {bar["promise"]: bar for bar in judge(result())}
    kept = {promise: bar["passed"] for promise, bar in judged.items()}
    assert kept["fp32, times FastEmbed as it comes"] is True
    assert judged["fp32, times FastEmbed at its best"]["value"] == pytest.approx(90 / 39)
    assert judged["int8, times FastEmbed at its best"]["value"] == pytest.approx(240 / 39)
    assert kept["int8, cosine to fp32, mean"] is True
    assert kept["int8, cosine to fp32, least"] is False
    assert kept["int8, times libembedding-ng at its best"] is None
    assert kept["int8, peak MB over 100,000 texts"] is True
    assert judged["int8, peak of 100,000 texts by that of 10,000"]["value"] == pytest.approx(1.03)
    assert judged["int8, texts/s of 100,000 by those of 1,000"]["value"] == pytest.approx(0.96)
    assert kept["fp32, share of the sgemm roofline"] is None
    assert all((bar.at_least is None) != (bar.at_most is None) for bar in BARS)


def test_the_report_shows_what_is_there() -> None:
    text = report.text(result())
    assert "FastEmbed, batch 8" in text
    assert "MISS  int8, cosine to fp32, least" in text
    assert "not measured" in text
    assert "int8, texts: 100,000" in text


def test_operations_are_counted_as_in_the_formula(tmp_path: Path) -> None:
    config = {"num_hidden_layers": 2, "hidden_size": 4, "intermediate_size": 8}
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    # Two layers; for each token four 4x4 matrices and two 4x8, for each pair two products of 4.
    by_hand = 2 * 2 * ((3 + 5) * (4 * 16 + 2 * 32) + (9 + 25) * 2 * 4)
    assert roofline.operations(tmp_path, np.array([3, 5])) == by_hand


def test_our_share_is_taken_against_the_rates_beside_each_round() -> None:
    def rate(gflops: float) -> dict[str, Any]:
        return {"gflops": gflops, "library": "openblas", "kernel": "SkylakeX"}

    rates = [(rate(100), rate(100)), (rate(100), rate(60)), (rate(200), rate(200))]
    found = roofline.share(800.0, [10.0, 10.0, 10.0], rates)
    assert found["share_of_each_round"] == pytest.approx([0.8, 1.0, 0.4])
    assert found["share"] == pytest.approx(0.8)
    assert found["share_of_best"] == pytest.approx(0.4)


def test_a_contestant_that_did_other_work_stops_the_run(tmp_path: Path) -> None:
    lab = Lab(Places(model=tmp_path, work=tmp_path), QUICK)
    (tmp_path / "vectors").mkdir()
    ours = np.random.default_rng(0).normal(size=(5, 8)).astype(np.float32)
    ours /= np.linalg.norm(ours, axis=1, keepdims=True)
    turned = ours.copy()
    turned[2, 0] += 0.06  # a cosine just below the limit
    assert 0.99 < cosines_of(ours, turned).min() < 0.999

    def finds(name: str, vectors: npt.NDArray[np.float32], counts: list[int]) -> None:
        np.save(vectors_of(tmp_path, name, "mixed"), vectors)
        np.save(counts_of(tmp_path, name, "mixed"), np.array(counts))

    finds(FP32, ours, [3, 4, 5, 6, 7])
    finds(FASTEMBED, ours, [3, 4, 5, 6, 7])
    finds(INT8, turned, [3, 4, 5, 6, 7])  # int8 may differ; the result says by how much
    found = agreement(lab, "mixed", [FP32, FASTEMBED, INT8])
    assert found[FASTEMBED]["least_cosine"] == pytest.approx(1.0)
    assert found[INT8]["least_cosine"] == pytest.approx(cosines_of(ours, turned).min())
    finds(FASTEMBED, turned, [3, 4, 5, 6, 7])
    with pytest.raises(SystemExit, match="FastEmbed: 1 mixed texts"):
        agreement(lab, "mixed", [FP32, FASTEMBED])
    many = np.tile(ours, (200, 1))
    few_others = many.copy()
    few_others[2] = turned[2]
    finds(FP32, many, [3] * 1000)
    finds(FASTEMBED, few_others, [3] * 1000)
    found = agreement(lab, "mixed", [FP32, FASTEMBED])
    assert [row["texts_with_other_vectors"] for row in found.values()] == [0, 1]
    finds(FP32, ours, [3, 4, 5, 6, 7])
    finds(FASTEMBED, ours, [3, 4, 5, 6, 8])
    with pytest.raises(SystemExit, match="FastEmbed does not see the tokens"):
        agreement(lab, "mixed", [FP32, FASTEMBED])


@pytest.mark.skipif(sys.platform != "linux", reason="only there a process inherits a peak")
def test_the_peak_of_a_process_is_not_that_of_the_one_that_started_it() -> None:
    ours = np.ones(40_000_000)  # 320 MB
    code = "from benchmarks import machine; print(machine.peak_memory_mb())"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
    assert 1 < float(done.stdout) < ours.nbytes / 1e6 < machine.peak_memory_mb()


def test_cosines_are_of_rows_of_any_length() -> None:
    left, right = np.array([[3.0, 0.0], [1.0, 1.0]]), np.array([[9.0, 0.0], [0.0, 2.0]])
    assert cosines_of(left, right) == pytest.approx([1.0, math.sqrt(0.5)])


def test_spearman_gives_equal_values_the_mean_of_their_ranks() -> None:
    assert spearman([1, 2, 3, 4], [10, 20, 30, 40]) == pytest.approx(1.0)
    assert spearman([1, 2, 3, 4], [4, 3, 2, 1]) == pytest.approx(-1.0)
    assert spearman([1, 2, 2, 4], [1, 3, 2, 4]) == pytest.approx(0.9486832980505138)


def test_figures_are_rounded_but_cosines_are_not() -> None:
    value = {"seconds": [1.23456789], "least_cosine": 0.99912345678, "texts": 123456789}
    assert rounded(value) == {
        "seconds": [1.2346],
        "least_cosine": 0.99912345678,
        "texts": 123456789,
    }


def test_rows_that_are_compared_are_named_alike() -> None:
    for name, contestant in CONTESTANTS.items():
        library = contestant.tried_batch_of
        assert library is None or (library in CONTESTANTS and name.startswith(f"{library}, batch"))
