"""Texts a second, everybody in turns, on texts as they come, on titles and on long texts.

    python -m benchmarks.throughput [--quick]

Every round of every contestant is a process of its own: it loads, then embeds each workload once
in one call, after a short warm-up. Each round begins with another contestant.
"""

from __future__ import annotations

from collections import defaultdict
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
from benchmarks import corpus, roofline
from benchmarks.contestants import CONTESTANTS, FP32
from benchmarks.lab import WORKLOADS, Lab, alone, beginning_with_another, say
from benchmarks.prepare import texts_of
from benchmarks.worker import counts_of, vectors_of

if TYPE_CHECKING:
    import numpy.typing as npt

    Runs = dict[str, dict[str, list[dict[str, Any]]]]  # workload -> contestant -> rounds

LEAST_COSINE = 0.999
MOST_OTHERS = 0.005  # of the texts


def measure(lab: Lab) -> dict[str, Any]:
    """All rounds, the check that everybody did the same work, and the roofline.

    Returns:
        "corpus" and "bulk" by workload, "not_on_a_workload", "roofline".

    Raises:
        SystemExit: a contestant saw other tokens or came to other vectors: then no figure means
            anything.
    """
    texts = texts_of(lab)
    path = lab.places.work / "workloads.json"
    from_file = {name: texts[name] for name in WORKLOADS}
    lab.write(path, from_file)
    vectors_of(lab.places.work, "", "").parent.mkdir(exist_ok=True)

    runs: Runs = {workload: defaultdict(list) for workload in WORKLOADS}
    rates = []
    entered = _entered(lab)
    cosines: dict[str, dict[str, dict[str, float]]] = {}
    for turn in range(lab.plan.rounds):
        for name in beginning_with_another([n for n in entered if entered[n]], turn):
            before = roofline.rate(lab) if name == FP32 else None
            answer = lab.ask(
                "bulk",
                contestant=name,
                texts=path,
                workloads=",".join(entered[name]),
                count=int(turn == 0),
            )
            if before is not None:
                rates.append((before, roofline.rate(lab)))
            for workload, found in answer["workloads"].items():
                runs[workload][name].append(found | {"threads": answer["threads"]})
            _tell(turn, name, answer["workloads"], texts)
        if turn == 0:
            cosines = {w: agreement(lab, w, list(runs[w])) for w in WORKLOADS}
            entered = without_slower_batches(entered, runs)
    counts = {w: np.load(counts_of(lab.places.work, FP32, w)) for w in WORKLOADS}
    gflop = roofline.operations(lab.places.model, counts["mixed"]) / 1e9
    seconds = [run["seconds"] for run in runs["mixed"][FP32]]
    return {
        "corpus": {
            workload: {
                "texts": len(texts[workload]),
                "mean_tokens": float(counts[workload].mean()),
                "cut_at": corpus.CUT,
                "sha256": corpus.digest(texts[workload]),
            }
            for workload in WORKLOADS
        },
        "bulk": {
            workload: {
                name: _row(runs[workload], name, counts[workload]) | cosines[workload][name]
                for name in CONTESTANTS
                if name in runs[workload]
            }
            for workload in WORKLOADS
        },
        "not_on_a_workload": {
            name: dict(contestant.not_on)
            for name, contestant in CONTESTANTS.items()
            if contestant.not_on and name not in lab.skipped
        },
        "roofline": roofline.share(gflop, seconds, rates),
    }


def _entered(lab: Lab) -> dict[str, list[str]]:
    """The workloads of each contestant, in the order that keeps the memory of the mixed apart."""
    return {
        name: [w for w in WORKLOADS if w not in dict(contestant.not_on)]
        for name, contestant in CONTESTANTS.items()
        if name not in lab.skipped
    }


def without_slower_batches(entered: dict[str, list[str]], runs: Runs) -> dict[str, list[str]]:
    """Of each library's tried batch sizes only the faster goes on, on each workload by itself.

    Args:
        entered: contestant -> the workloads it takes part in.
        runs: what the first round measured.
    """
    kept = {name: list(workloads) for name, workloads in entered.items()}
    for workload, rows in runs.items():
        tried: dict[str, list[str]] = defaultdict(list)
        for name in rows:
            library = CONTESTANTS[name].tried_batch_of
            if library is not None:
                tried[library].append(name)
        for names in tried.values():
            best = min(names, key=lambda name: rows[name][0]["seconds"])
            for name in names:
                if name != best:
                    kept[name].remove(workload)
    return kept


def agreement(lab: Lab, workload: str, names: list[str]) -> dict[str, dict[str, float]]:
    """That everybody saw the same tokens and came to the same vectors.

    A library with a tokenizer of its own may read a few texts otherwise: libembedding-ng does so
    with the registered sign and the en dash. More than that, or another average, ends the run.

    Returns:
        Mean and least cosine to our fp32 vectors, and how many texts are farther from them than
        they may be, by contestant; nothing for other models.

    Raises:
        SystemExit: a contestant disagrees.
    """
    work = lab.places.work
    ours = np.load(vectors_of(work, FP32, workload))
    counts = np.load(counts_of(work, FP32, workload))
    found: dict[str, dict[str, float]] = {}
    for name in names:
        found[name] = {}
        contestant = CONTESTANTS[name]
        if not contestant.same_tokens:
            continue
        counted = counts_of(work, name, workload)
        if counted.exists() and not np.array_equal(np.load(counted), counts):
            raise SystemExit(f"{name} does not see the tokens that we see")
        values = cosines_of(ours, np.load(vectors_of(work, name, workload)))
        found[name] = {"mean_cosine": float(values.mean()), "least_cosine": float(values.min())}
        if contestant.like_fp32:
            others = int(np.count_nonzero(values < LEAST_COSINE))
            if values.mean() < LEAST_COSINE or others > MOST_OTHERS * len(values):
                raise SystemExit(f"{name}: {others} {workload} texts have other vectors than ours")
            found[name]["texts_with_other_vectors"] = others
    return found


def cosines_of(left: npt.NDArray[Any], right: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """(N,) cosine of each pair of rows."""
    left, right = left.astype(np.float64), right.astype(np.float64)
    products = (left * right).sum(axis=1)
    lengths = np.linalg.norm(left, axis=1) * np.linalg.norm(right, axis=1)
    found: npt.NDArray[np.float64] = products / lengths
    return found


def _row(rows: dict[str, list[dict[str, Any]]], name: str, counts: Any) -> dict[str, Any]:
    rounds = rows[name]
    seconds = median(run["seconds"] for run in rounds)
    found: dict[str, Any] = {
        "texts_per_second": len(counts) / seconds,
        "fp32_is_faster_by": seconds / median(run["seconds"] for run in rows[FP32]),
        "peak_mb": max(run["peak_mb"] for run in rounds),
        "cores_busy": median(run["cores_busy"] for run in rounds),
        "threads": rounds[-1]["threads"],
        "seconds_of_each_round": [run["seconds"] for run in rounds],
    }
    if CONTESTANTS[name].same_tokens:
        found["tokens_per_second"] = float(counts.sum()) / seconds
    return found


def _tell(turn: int, name: str, found: dict[str, Any], texts: dict[str, list[str]]) -> None:
    rates = (f"{w} {len(texts[w]) / run['seconds']:.1f}" for w, run in found.items())
    say(f"round {turn + 1}: {name}: {', '.join(rates)} texts/s")


if __name__ == "__main__":
    alone(__doc__, measure)
