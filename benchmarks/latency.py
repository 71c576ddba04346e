"""Lone queries of 10 to 15 tokens: how long one takes.

    python -m benchmarks.latency [--quick]

Loaded processes wait. The same queries go to each, in blocks that alternate, one call each, with a
pause between blocks: the threads of a runtime spin for a while after their last call, and would
disturb the next one.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from benchmarks.contestants import LONE
from benchmarks.lab import Lab, alone, beginning_with_another, say
from benchmarks.prepare import texts_of

BLOCK = 20
SPIN_S = 1.0  # the runtime's threads spin for up to a third of a second


def measure(lab: Lab) -> dict[str, Any]:
    """Queries and their p50, p99 and mean in milliseconds, by contestant."""
    names = [name for name in LONE if name not in lab.skipped]
    say(f"lone queries: {'; '.join(names)}")
    queries = texts_of(lab)["titles"]
    warm_up = queries[: 2 * BLOCK]
    measured = queries[2 * BLOCK : 2 * BLOCK + lab.plan.queries]
    processes = {name: lab.converse("queries", contestant=name) for name in names}
    times: dict[str, list[float]] = {name: [] for name in names}
    for process in processes.values():
        process.hear()  # loaded
    for process in processes.values():
        process.tell(warm_up)
        process.hear()
        time.sleep(SPIN_S)
    blocks = [measured[start : start + BLOCK] for start in range(0, len(measured), BLOCK)]
    for turn, block in enumerate(blocks):
        for name in beginning_with_another(names, turn):
            processes[name].tell(block)
            times[name] += processes[name].hear()["milliseconds"]
            time.sleep(SPIN_S)
    for process in processes.values():
        process.end()
    return {
        name: {
            "queries": len(values),
            "p50_ms": float(np.percentile(values, 50)),
            "p99_ms": float(np.percentile(values, 99)),
            "mean_ms": float(np.mean(values)),
        }
        for name, values in times.items()
    }


if __name__ == "__main__":
    alone(__doc__, measure)
