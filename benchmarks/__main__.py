"""The whole benchmark, in one run on one machine: `make bench`, an hour at most on two cores.

    python -m benchmarks             everything
    python -m benchmarks --quick     ten minutes: a first impression, its figures say little

README.md in this folder tells what is compared, how, and how to read it. The exit code is 0 even if
a promise is missed: the result says so.
"""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from benchmarks import (
    bars,
    growth,
    latency,
    machine,
    memory,
    plots,
    quality,
    report,
    second_start,
    throughput,
)
from benchmarks.lab import FULL, QUICK, ROOT, Lab, arguments, rounded, say
from benchmarks.prepare import prepare

if TYPE_CHECKING:
    from collections.abc import Callable

PARTS: dict[str, Callable[[Lab], dict[str, Any]]] = {
    "lone_query": latency.measure,
    "second_start": second_start.measure,
    "memory": memory.measure,
    "quality": quality.measure,
    "bulk": throughput.measure,
    "growth": growth.measure,
}
BUSY = 0.5


def main() -> None:
    """Run all parts, write result and plots, print the tables."""
    given = arguments(__doc__)
    plan = QUICK if given.quick else FULL
    folder = given.out or ROOT / ".benchmarks" / "results"
    folder.mkdir(parents=True, exist_ok=True)
    busy = machine.load_average()
    if busy is not None and busy > BUSY:
        say(f"WARNING: load average {busy:.1f} before the start: others use this machine")
    seconds: dict[str, float] = {}
    started = time.perf_counter()
    lab = prepare(given.work, given.model, plan)
    seconds["prepare"] = time.perf_counter() - started
    result: dict[str, Any] = {
        "date": datetime.now(tz=UTC).date().isoformat(),
        "quick": given.quick,
        "load_average_before": busy,
        "machine": machine.describe(),
        "versions": machine.versions(),
        "skipped": lab.skipped,
    }
    for name, measure in PARTS.items():
        started = time.perf_counter()
        found = measure(lab)
        seconds[name] = time.perf_counter() - started
        # What throughput finds has names of its own.
        result |= found if name == "bulk" else {name: found}
        result["seconds_of_each_part"] = seconds
        result["bars"] = bars.judge(result)
        # After each part, so that a run that is broken off leaves what it found.
        text = json.dumps(rounded(result), indent=1)
        (folder / "bench.json").write_text(text + "\n", encoding="utf-8")
    plots.draw(result, folder)
    print(report.text(result))
    say(f"{sum(seconds.values()) / 60:.1f} minutes; bench.json and plots are in {folder}")


if __name__ == "__main__":
    main()
