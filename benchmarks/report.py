"""A result for a reader: a table on the terminal.

python -m benchmarks.report results/bench.json
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.bars import judge

if TYPE_CHECKING:
    from collections.abc import Iterator

WIDTH = 34


def text(result: dict[str, Any]) -> str:
    """All tables; parts that are not in the result are left out."""
    facts = result["machine"]
    lines = [f"{facts['processor']}, {facts['cores']} cores, {facts['memory_gib']} GiB"]
    lines += [f"skipped: {name}: {why}" for name, why in result.get("skipped", {}).items()]
    for name, part in (
        ("bulk", _bulk),
        ("roofline", _roofline),
        ("lone_query", _lone),
        ("quality", _quality),
        ("memory", _memory),
        ("growth", _growth),
    ):
        if name in result:
            lines += ["", *part(result)]
    return "\n".join([*lines, "", *_bars(result)])


def _bulk(result: dict[str, Any]) -> Iterator[str]:
    workloads = list(result["bulk"])
    for workload in workloads:
        corpus = result["corpus"][workload]
        yield f"{workload}: {corpus['texts']} texts of {corpus['mean_tokens']:.1f} tokens"
    yield (
        f"{'texts/s':{WIDTH}}{''.join(f'{w:>9}' for w in workloads)}"
        f"{'peak MB':>9}{'cores':>7}{'cosine, mean':>14}{'least':>9}"
    )
    for name, row in result["bulk"]["mixed"].items():
        rates = "".join(
            f"{result['bulk'][w][name]['texts_per_second']:9.1f}"
            if name in result["bulk"][w]
            else f"{'-':>9}"
            for w in workloads
        )
        same = (
            f"{row['mean_cosine']:14.5f}{row['least_cosine']:9.5f}" if "mean_cosine" in row else ""
        )
        yield f"{name:{WIDTH}}{rates}{row['peak_mb']:9.0f}{row['cores_busy']:7.2f}{same}"

    for name, workloads_left_out in result.get("not_on_a_workload", {}).items():
        for workload, why in workloads_left_out.items():
            yield f"{name} is not on {workload}: {why}"


def _roofline(result: dict[str, Any]) -> Iterator[str]:
    found = result["roofline"]
    yield (
        f"numpy's own fp32 products ({found['library']}, kernel {found['kernel']}): "
        f"{found['gflops']:.0f} GFLOP/s beside our rounds, {found['best_gflops']:.0f} at best"
    )
    yield f"our fp32: {found['share']:.1%} of the first, {found['share_of_best']:.1%} of the second"


def _lone(result: dict[str, Any]) -> Iterator[str]:
    yield f"{'a lone query; a start':{WIDTH}}{'p50 ms':>9}{'p99 ms':>9}{'start s':>9}"
    starts = result.get("second_start", {})
    for name, row in result["lone_query"].items():
        start = f"{starts[name]['median_seconds']:9.3f}" if name in starts else ""
        yield f"{name:{WIDTH}}{row['p50_ms']:9.2f}{row['p99_ms']:9.2f}{start}"


def _quality(result: dict[str, Any]) -> Iterator[str]:
    found = dict(result["quality"])
    if "skipped" in found:
        yield f"quality: {found.pop('skipped')}"
    keys = sorted({k for row in found.values() for k in row if k.startswith(("stsb", "cran"))})
    yield f"{'quality':{WIDTH}}{''.join(f'{key[:12]:>14}' for key in keys)}{'other bits alone':>18}"
    for name, row in found.items():
        values = "".join(f"{row[key]:14.4f}" for key in keys)
        yield f"{name:{WIDTH}}{values}{row['alone']['other_bits_than_in_a_batch']:18}"


def _memory(result: dict[str, Any]) -> Iterator[str]:
    yield (
        f"{'memory, MB: resident (private)':{WIDTH}}{'imported':>13}{'loaded':>13}"
        f"{'one session':>13}{'and second':>13}"
    )
    for name, steps in result["memory"].items():
        values = (
            f"{steps[key]['resident_mb']:.0f} ({steps[key]['private_mb']:.0f})"
            for key in ("imported", "loaded", "one_session", "with_second_session")
            if steps[key]
        )
        yield f"{name:{WIDTH}}{''.join(f'{value:>13}' for value in values)}"


def _growth(result: dict[str, Any]) -> Iterator[str]:
    yield f"{'growth':{WIDTH}}{'texts/s':>9}{'tokens/s':>10}{'peak MB':>9}{'cores':>7}"
    names = {"texts": "texts", "cores": "cores", "budgets": "budget"}  # group -> what it varies
    for group, runs in result["growth"].items():
        for run in runs:
            label = f"{run['precision']}, {names[group]}: {run[names[group]]:,}"
            yield (
                f"{label:{WIDTH}}{run['texts_per_second']:9.1f}{run['tokens_per_second']:10.0f}"
                f"{run['peak_mb']:9.0f}{run['cores_busy']:7.2f}"
            )


def _bars(result: dict[str, Any]) -> Iterator[str]:
    for bar in result.get("bars") or judge(result):
        limit = f">= {bar['at_least']}" if bar["at_least"] is not None else f"<= {bar['at_most']}"
        if bar["value"] is None:
            yield f"----  {bar['promise']:50}{'not measured':>12}  ({limit})"
        else:
            verdict = "pass" if bar["passed"] else "MISS"
            yield f"{verdict}  {bar['promise']:50}{bar['value']:12.4f}  ({limit})"


def main() -> None:
    """Print a result that was written before."""
    print(text(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))))


if __name__ == "__main__":
    main()
