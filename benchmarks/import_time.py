"""Importing the package may cost hardly more than importing numpy.

python -m benchmarks.import_time
"""

from __future__ import annotations

import subprocess
import sys
import time
from statistics import median

RUNS = 21
AT_MOST = 1.3
MODULES = ("onnx_embeddings", "numpy")


def seconds_of_a_process(code: str) -> float:
    """The wall time of a fresh interpreter that runs ``code``."""
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)  # noqa: S603 - our own words
    return time.perf_counter() - start


def main() -> None:
    """Time both in alternation and print the medians."""
    codes = {name: f"import {name}" for name in MODULES} | {"nothing": "pass"}
    for code in codes.values():
        seconds_of_a_process(code)  # byte code and page cache
    seconds: dict[str, list[float]] = {name: [] for name in codes}
    for turn in range(RUNS):
        for name in list(codes)[:: 1 if turn % 2 == 0 else -1]:
            seconds[name].append(seconds_of_a_process(codes[name]))
    medians = {name: median(values) for name, values in seconds.items()}
    ratio = medians["onnx_embeddings"] / medians["numpy"]
    for name, value in medians.items():
        print(f"import {name:18}{value * 1e3:8.1f} ms, interpreter included")
    print(f"{'pass' if ratio <= AT_MOST else 'MISS'}  {ratio:.2f} times numpy's (<= {AT_MOST})")


if __name__ == "__main__":
    main()
