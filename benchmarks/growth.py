"""What grows, ours only: texts a second and peak memory over more texts, cores, larger budgets.

    python -m benchmarks.growth [--quick]

Texts come from a file, one at a time, through `iter_documents`, and no vector is kept; every run
is a process of its own.
"""

from __future__ import annotations

import time
from statistics import median
from typing import TYPE_CHECKING, Any

from benchmarks import distinct, machine
from benchmarks.contestants import PRECISIONS, ours
from benchmarks.lab import Lab, Places, alone, beginning_with_another, say
from benchmarks.prepare import distinct_texts

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

WARM_UP = 32
BUDGETS = (256, 512, 1024, 2048)


def measure(lab: Lab) -> dict[str, Any]:
    """Over texts, cores and budgets; a list of runs each."""
    return {"texts": over_texts(lab), "cores": over_cores(lab), "budgets": over_budgets(lab)}


def over_texts(lab: Lab) -> list[dict[str, Any]]:
    """More and more distinct texts, every thousand of the same mix of lengths."""
    say("growth: texts")
    found = []
    for precision in _precisions(lab):
        counts = lab.plan.stream.get(precision, ())
        answers: dict[int, list[dict[str, Any]]] = {count: [] for count in counts}
        # Up and down again, so that a machine that slows down does not look like growth.
        for count in (*counts, *counts[-2::-1]):
            answers[count].append(_ask(lab, precision, {}, count))
        found += [_summary(precision, count, answers[count]) for count in counts]
    return found


def over_cores(lab: Lab) -> list[dict[str, Any]]:
    """One core, two, four and so on, and all."""
    say("growth: cores")
    numbers = machine.core_numbers()
    counts = [count for count in (1, 2, 4, 8, 16, 32, 64) if count < len(numbers)]
    ways: list[dict[str, Any]] = [
        {"cores": ",".join(map(str, numbers[:count]))} for count in [*counts, len(numbers)]
    ]
    return [run | {"cores": len(str(run["cores"]).split(","))} for run in _sweep(lab, ways)]


def over_budgets(lab: Lab) -> list[dict[str, Any]]:
    """The budget of a batch, in padded tokens."""
    say("growth: budgets")
    return _sweep(lab, [{"budget": budget} for budget in BUDGETS])


def stream(places: Places, options: argparse.Namespace) -> dict[str, Any]:
    """In a process of its own: embed the first texts of the file as they are read."""
    import onnx_embeddings

    settings: dict[str, Any] = {} if options.budget is None else {"batch_tokens": options.budget}
    config = onnx_embeddings.EngineConfig(cache=None, home=places.home, **settings)
    engine = onnx_embeddings.load(places.model, precision=options.precision, config=config)
    _exhaust(engine.iter_documents(distinct.read(options.texts, WARM_UP)))
    tokens = engine.stats().tokens
    wall, busy = time.perf_counter(), time.process_time()
    count = _exhaust(engine.iter_documents(distinct.read(options.texts, options.count)))
    wall, busy = time.perf_counter() - wall, time.process_time() - busy
    if count != options.count:
        raise SystemExit(f"{count} vectors for {options.count} texts")
    return {
        "seconds": wall,
        "cores_busy": busy / wall,
        "peak_mb": machine.peak_memory_mb(),
        "tokens": engine.stats().tokens - tokens,
    }


def _exhaust(vectors: Iterable[Any]) -> int:
    return sum(1 for _ in vectors)


def _precisions(lab: Lab) -> list[str]:
    return [precision for precision in PRECISIONS if ours(precision) not in lab.skipped]


def _sweep(lab: Lab, ways: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each way in each precision, in turns."""
    entries = [(precision, tuple(way.items())) for precision in _precisions(lab) for way in ways]
    answers: dict[Any, list[dict[str, Any]]] = {entry: [] for entry in entries}
    for turn in range(lab.plan.sweep_rounds):
        for place in beginning_with_another([str(n) for n in range(len(entries))], turn):
            entry = entries[int(place)]
            answers[entry].append(_ask(lab, entry[0], dict(entry[1]), lab.plan.sweep))
    return [
        _summary(precision, lab.plan.sweep, answers[precision, way]) | dict(way)
        for precision, way in entries
    ]


def _ask(lab: Lab, precision: str, way: dict[str, Any], count: int) -> dict[str, Any]:
    path = distinct_texts(lab)
    answer = lab.ask("stream", precision=precision, texts=path, count=count, **way)
    say(
        f"{precision}, {count} texts{''.join(f', {k} {v}' for k, v in way.items())}: "
        f"{count / answer['seconds']:.1f} texts/s, {answer['peak_mb']:.0f} MB"
    )
    return answer


def _summary(precision: str, count: int, answers: list[dict[str, Any]]) -> dict[str, Any]:
    seconds = median(answer["seconds"] for answer in answers)
    return {
        "precision": precision,
        "texts": count,
        "texts_per_second": count / seconds,
        "tokens_per_second": answers[0]["tokens"] / seconds,
        "peak_mb": max(answer["peak_mb"] for answer in answers),
        "cores_busy": median(answer["cores_busy"] for answer in answers),
        "seconds_of_each_run": [answer["seconds"] for answer in answers],
    }


if __name__ == "__main__":
    alone(__doc__, measure)
