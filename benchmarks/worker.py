"""The processes of the benchmark: one contestant, or the machine itself, in a process of its own.

Each answers with lines of JSON on stdout. Started by lab.py.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks import machine
from benchmarks.lab import Places

if TYPE_CHECKING:
    from benchmarks.contestants import Embedder

WARM_UP = 32


def bulk(embedder: Embedder, options: argparse.Namespace) -> dict[str, Any]:
    """Embed the texts of each workload once, after a short warm-up; vectors go to files."""
    import numpy as np

    corpus = json.loads(options.texts.read_text(encoding="utf-8"))
    found: dict[str, Any] = {}
    for workload in options.workloads.split(","):
        texts = corpus[workload]
        embedder.embed(texts[:WARM_UP])
        wall, busy = time.perf_counter(), time.process_time()
        vectors = embedder.embed(texts)
        wall, busy = time.perf_counter() - wall, time.process_time() - busy
        found[workload] = {
            "seconds": wall,
            "cores_busy": busy / wall,
            "peak_mb": machine.peak_memory_mb(),
        }
        np.save(vectors_of(options.work, options.contestant, workload), vectors)
    if options.count:
        for workload in found:
            counts = embedder.count_tokens(corpus[workload])
            if counts is not None:
                np.save(counts_of(options.work, options.contestant, workload), counts)
    threads = embedder.threads() | {"of_the_process": _threads_of_this_process()}
    return {"workloads": found, "threads": threads}


def vectors_of(work: Path, contestant: str, workload: str) -> Path:
    """The file of a contestant's vectors."""
    return work / "vectors" / f"{contestant.replace(', ', '-').replace(' ', '-')}.{workload}.npy"


def counts_of(work: Path, contestant: str, workload: str) -> Path:
    """The file of a contestant's token counts."""
    return vectors_of(work, contestant, workload).with_suffix(".counts.npy")


def serve_queries(embedder: Embedder) -> None:
    """A line with a list of queries in, a line with the milliseconds of each out."""
    for line in sys.stdin:
        milliseconds = []
        for query in json.loads(line):
            start = time.perf_counter()
            embedder.embed_query(query)
            milliseconds.append((time.perf_counter() - start) * 1e3)
        answer({"milliseconds": milliseconds})


def main() -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "task", choices=["probe", "bulk", "queries", "quality", "stream", "memory", "matrix-rate"]
    )
    parser.add_argument("--contestant")
    parser.add_argument("--precision")
    parser.add_argument("--model", type=Path)
    parser.add_argument("--work", type=Path)
    parser.add_argument("--texts", type=Path, help="a file of texts")
    parser.add_argument("--workloads", default="", help="names with commas")
    parser.add_argument("--languages", default="", help="of STS-B, with commas")
    parser.add_argument("--retrieval", type=int, default=0)
    parser.add_argument("--count", type=int, default=0, help="texts; of bulk: whether tokens are")
    parser.add_argument("--cores", default="", help="the processors to stay on, with commas")
    parser.add_argument("--budget", type=int, help="padded tokens of a batch")
    options = parser.parse_args()
    if options.cores and hasattr(os, "sched_setaffinity"):  # before any library counts them
        os.sched_setaffinity(0, {int(core) for core in options.cores.split(",")})
    places = Places(model=options.model, work=options.work)
    if options.task == "matrix-rate":
        from benchmarks import roofline

        roofline.serve()
    elif options.task == "stream":
        from benchmarks import growth

        answer(growth.stream(places, options))
    elif options.task == "memory":
        from benchmarks import memory

        answer(memory.watch(places, options))
    else:
        _with_contestant(places, options)


def _with_contestant(places: Places, options: argparse.Namespace) -> None:
    from benchmarks.contestants import CONTESTANTS

    start = time.perf_counter()
    embedder = CONTESTANTS[options.contestant].make(places)
    loaded = {"load_seconds": time.perf_counter() - start}
    if options.task == "probe":
        embedder.embed(["does it start?"])
        answer(loaded)
    elif options.task == "queries":
        answer(loaded)
        serve_queries(embedder)
    elif options.task == "quality":
        from benchmarks import quality

        answer(quality.scores(embedder, options))
    else:
        answer(loaded | bulk(embedder, options))


def answer(result: dict[str, Any]) -> None:
    """A line for whoever started us."""
    print(json.dumps(result), flush=True)


def _threads_of_this_process() -> int | None:
    tasks = Path("/proc/self/task")
    return len(list(tasks.iterdir())) if tasks.exists() else None


if __name__ == "__main__":
    main()
