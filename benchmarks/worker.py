"""The processes of the comparison: one contestant, or the machine itself, in a process of its own.

Each answers with lines of JSON on stdout. Started by throughput.py.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks import machine
from benchmarks.contestants import CONTESTANTS, Places, export_for_fastembed

if TYPE_CHECKING:
    from benchmarks.contestants import Contestant

WARM_UP = 32


def bulk(contestant: Contestant, texts: list[str], out: Path) -> dict[str, Any]:
    """Embed all texts once, after a short warm-up; vectors and counts go to a file."""
    import numpy as np

    contestant.embed(texts[:WARM_UP])
    wall, busy = time.perf_counter(), time.process_time()
    vectors = contestant.embed(texts)
    wall, busy = time.perf_counter() - wall, time.process_time() - busy
    peak = machine.peak_memory_mb()
    np.savez(out, vectors=vectors, counts=contestant.count_tokens(texts))
    return {
        "seconds": wall,
        "cores_busy": busy / wall,
        "peak_mb": peak,
        "threads": contestant.threads() | {"of_the_process": _threads_of_this_process()},
    }


def serve_queries(contestant: Contestant) -> None:
    """A line with a list of queries in, a line with the milliseconds of each out."""
    for line in sys.stdin:
        milliseconds = []
        for query in json.loads(line):
            start = time.perf_counter()
            contestant.embed_query(query)
            milliseconds.append((time.perf_counter() - start) * 1e3)
        _answer({"milliseconds": milliseconds})


def matrix_rate() -> dict[str, Any]:
    """The best rate, in GFLOP/s, at which numpy multiplies fp32 matrices on all cores."""
    import numpy as np

    generator = np.random.default_rng(1)
    rates = {}
    for rows, inner, columns in ((512, 384, 1536), (1024, 1024, 1024), (2048, 2048, 2048)):
        left = generator.random((rows, inner), dtype=np.float32)
        right = generator.random((inner, columns), dtype=np.float32)
        seconds = _best_of(lambda left=left, right=right: left @ right, for_seconds=0.7)
        rates[f"{rows}x{inner}x{columns}"] = 2e-9 * rows * inner * columns / seconds
    blas = next(
        info
        for info in import_module("threadpoolctl").threadpool_info()
        if info["user_api"] == "blas"
    )
    return {
        "gflops": max(rates.values()),
        "by_shape": rates,
        "library": f"{blas['internal_api']} {blas['version']}",
        "kernel": blas["architecture"],
        "threads": blas["num_threads"],
    }


def main() -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("task", choices=["bulk", "queries", "matrix-rate", "export"])
    parser.add_argument("--contestant", choices=CONTESTANTS)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--work", type=Path)
    parser.add_argument("--texts", type=Path, help="a JSON list of texts")
    parser.add_argument("--out", type=Path, help="the .npz file to write")
    arguments = parser.parse_args()
    if arguments.task == "matrix-rate":
        _answer(matrix_rate())
        return
    places = Places(model=arguments.model, work=arguments.work)
    if arguments.task == "export":
        export_for_fastembed(places)
        _answer({})
        return
    start = time.perf_counter()
    contestant = CONTESTANTS[arguments.contestant](places)
    loaded = {"load_seconds": time.perf_counter() - start}
    if arguments.task == "queries":
        _answer(loaded)
        serve_queries(contestant)
    else:
        texts = json.loads(arguments.texts.read_text(encoding="utf-8"))
        _answer(loaded | bulk(contestant, texts, arguments.out))


def _answer(result: dict[str, Any]) -> None:
    print(json.dumps(result), flush=True)


def _best_of(work: Any, for_seconds: float) -> float:
    best = float("inf")
    end = time.perf_counter() + for_seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return best


def _threads_of_this_process() -> int | None:
    tasks = Path("/proc/self/task")
    return len(list(tasks.iterdir())) if tasks.exists() else None


if __name__ == "__main__":
    main()
