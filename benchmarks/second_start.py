"""From nothing to a first vector: a whole process, model on disk, files warm.

python -m benchmarks.second_start [--quick]
"""

from __future__ import annotations

import sys
import time
from statistics import median
from typing import Any

from benchmarks.contestants import START, start_code
from benchmarks.lab import Lab, alone, beginning_with_another, say


def measure(lab: Lab) -> dict[str, Any]:
    """Seconds by contestant; the first start of each warms the page cache and is not counted."""
    names = [name for name in START if name not in lab.skipped]
    say(f"starts: {'; '.join(names)}")
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(lab.plan.starts + 1):
        for name in beginning_with_another(names, turn):
            start = time.perf_counter()
            lab.run([sys.executable, "-c", start_code(name, lab.places)])
            if turn:
                seconds[name].append(time.perf_counter() - start)
    return {
        name: {"median_seconds": median(values), "seconds_of_each_start": values}
        for name, values in seconds.items()
    }


if __name__ == "__main__":
    alone(__doc__, measure)
