"""The limit: the rate at which numpy multiplies fp32 matrices here, and our share of it.

All cores are busy while it is measured, one process on each, since bulk keeps all busy too; right
before and right after our own round, since a shared machine's speed drifts.

    python -m benchmarks.roofline
"""

from __future__ import annotations

import json
import os
import sys
import time
from importlib import import_module
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
from benchmarks import machine
from benchmarks.lab import Lab, alone

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import numpy.typing as npt

# Rows, inner, columns: a layer of the model on a full batch, and two sizes that suit libraries.
SHAPES = ((512, 384, 1536), (1024, 1024, 1024), (2048, 2048, 2048))
SECONDS = 0.6
CHOSEN_BY_USER = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")


def rate(lab: Lab) -> dict[str, Any]:
    """All cores at the same time, each in a process of its own.

    Returns:
        GFLOP/s of all cores together on the best of a few shapes, on each shape, and the library.
    """
    processes = [
        lab.converse("matrix-rate", without=CHOSEN_BY_USER, cores=core)
        for core in machine.core_numbers()
    ]
    library = [process.hear() for process in processes][-1]
    by_shape = {}
    for shape in SHAPES:
        for process in processes:
            process.tell(shape)
        name = "x".join(map(str, shape))
        by_shape[name] = sum(process.hear()["gflops"] for process in processes)
    for process in processes:
        process.end()
    return {"gflops": max(by_shape.values()), "by_shape": by_shape} | library


def serve() -> None:
    """In the process of one core: a line with a shape in, a line with its rate out."""
    threadpoolctl: Any = import_module("threadpoolctl")
    with threadpoolctl.threadpool_limits(limits=1, user_api="blas"):
        blas = next(b for b in threadpoolctl.threadpool_info() if b["user_api"] == "blas")
        library = f"{blas['internal_api']} {blas['version']}"
        print(json.dumps({"library": library, "kernel": blas["architecture"]}), flush=True)
        generator = np.random.default_rng(os.getpid())
        for line in sys.stdin:
            rows, inner, columns = json.loads(line)
            left = generator.random((rows, inner), dtype=np.float32)
            right = generator.random((inner, columns), dtype=np.float32)
            out = np.empty((rows, columns), dtype=np.float32)
            runs_per_second = _sustained(lambda: np.matmul(left, right, out=out))  # noqa: B023
            gflops = 2e-9 * rows * inner * columns * runs_per_second
            print(json.dumps({"gflops": gflops}), flush=True)


def operations(model: Path, counts: npt.NDArray[np.int64]) -> float:
    """What the texts cost at least: two for each multiply-add of real tokens, no padding.

    The linear layers (query, key, value, output, feed-forward) and both products of attention;
    normalisation, softmax, GELU and pooling come on top and are not counted.

    Args:
        model: a folder with the config.json of a BERT model.
        counts: (N,) tokens of each text after the cut.
    """
    config = json.loads((model / "config.json").read_text(encoding="utf-8"))
    layers, hidden = config["num_hidden_layers"], config["hidden_size"]
    weights = 4 * hidden * hidden + 2 * hidden * config["intermediate_size"]
    tokens, pairs = float(counts.sum()), float((counts.astype(np.float64) ** 2).sum())
    found: float = 2.0 * layers * (tokens * weights + 2.0 * pairs * hidden)
    return found


def share(
    gflop: float, seconds: list[float], rates: list[tuple[dict[str, Any], dict[str, Any]]]
) -> dict[str, Any]:
    """Our share of the limit.

    Args:
        gflop: what one of our rounds costs at least, in 10^9 operations.
        seconds: how long each round took.
        rates: `rate` before and after each round.

    Returns:
        The median over the rounds, each against the mean of the rates beside it; and the median
        round against the best rate of all.
    """
    beside = [(before["gflops"] + after["gflops"]) / 2 for before, after in rates]
    shares = [gflop / took / limit for took, limit in zip(seconds, beside, strict=True)]
    best = max(measured["gflops"] for pair in rates for measured in pair)
    last = rates[-1][-1]
    return {
        "corpus_gflop": gflop,
        "library": last["library"],
        "kernel": last["kernel"],
        "gflops": median(beside),
        "best_gflops": best,
        "gflops_beside_each_round": beside,
        "share": median(shares),
        "share_of_each_round": shares,
        "share_of_best": gflop / median(seconds) / best,
    }


def _sustained(work: Callable[[], object]) -> float:
    """Runs a second, after one to warm up."""
    work()
    runs, start = 0, time.perf_counter()
    while (took := time.perf_counter() - start) < SECONDS:
        work()
        runs += 1
    return runs / took


if __name__ == "__main__":
    alone(__doc__, rate)
