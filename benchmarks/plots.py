"""Pictures of a result: throughput, latency, memory, growth. Made from the JSON alone.

    python -m benchmarks.plots results/bench.json

They stand on a transparent ground in colours that can be read on white and on black.
"""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.bars import best
from benchmarks.contestants import CONTESTANTS, FASTEMBED, LIBEMBEDDING, PRECISIONS

if TYPE_CHECKING:
    from collections.abc import Sequence

INK, OURS, OTHERS = "#7d858f", "#1f9e89", "#8d96a3"
COLOURS = ("#e08a2e", OURS, "#8a63d2", "#c2456b")  # of our precisions
WORKLOADS = {"mixed": "package descriptions", "short": "titles", "long": "long texts"}
BAR_INCHES = 0.3


def draw(result: dict[str, Any], folder: Path) -> list[Path]:
    """Write a PNG for every part that the result has.

    Returns:
        The files.
    """
    matplotlib: Any = import_module("matplotlib")
    matplotlib.use("Agg")
    ground: dict[str, Any] = dict.fromkeys(
        ("text.color", "axes.labelcolor", "xtick.color", "ytick.color"), INK
    )
    ground |= {"axes.edgecolor": INK, "font.size": 10, "axes.spines.top": False}
    ground |= {"axes.spines.right": False, "savefig.transparent": True}
    parts = {"bulk": _throughput, "lone_query": _latency, "growth": _growth}
    names = {"bulk": "throughput", "lone_query": "latency", "growth": "growth"}
    written = []
    with matplotlib.rc_context(ground):
        plot: Any = import_module("matplotlib.pyplot")
        for part, picture in parts.items():
            if part in result:
                written.append(_save(plot, picture(plot, result), folder / f"{names[part]}.png"))
        if "bulk" in result:
            written.append(_save(plot, _memory(plot, result), folder / "memory.png"))
    return written


def shown(result: dict[str, Any]) -> list[str]:
    """The rows that a picture shows: of a library's batch sizes its own and the best."""
    rows = result["bulk"]["mixed"]
    wanted = {best(rows, library) for library in (FASTEMBED, LIBEMBEDDING) if library in rows}
    return [
        name
        for name in rows
        if name in wanted or name not in CONTESTANTS or CONTESTANTS[name].tried_batch_of is None
    ]


def _throughput(plot: Any, result: dict[str, Any]) -> Any:
    names = shown(result)
    figure, all_axes = plot.subplots(
        1, len(WORKLOADS), sharey=True, figsize=(10, 0.9 + BAR_INCHES * len(names))
    )
    for axes, (workload, title) in zip(all_axes, WORKLOADS.items(), strict=True):
        rows, corpus = result["bulk"][workload], result["corpus"][workload]
        # Of a library that was tried at two batch sizes, each workload has a best of its own.
        _bars(axes, names, [_rate(rows, name) for name in names])
        axes.set_title(f"{title}, {corpus['mean_tokens']:.0f} tokens", fontsize=10)
        axes.set_xlabel("texts/s, longer is better")
    all_axes[0].set_yticks(range(len(names)), [_label(name) for name in names])
    return figure


def _label(name: str) -> str:
    library = CONTESTANTS[name].tried_batch_of if name in CONTESTANTS else None
    return f"{library}, best batch size" if library is not None else name


def _rate(rows: dict[str, Any], name: str) -> float:
    library = CONTESTANTS[name].tried_batch_of if name in CONTESTANTS else None
    if library is not None:
        tried = {n: row for n, row in rows.items() if n.startswith(f"{library}, batch")}
        return max((float(row["texts_per_second"]) for row in tried.values()), default=0.0)
    return float(rows[name]["texts_per_second"]) if name in rows else 0.0


def _memory(plot: Any, result: dict[str, Any]) -> Any:
    names = shown(result)
    figure, axes = plot.subplots(figsize=(7, 0.9 + BAR_INCHES * len(names)))
    _bars(axes, names, [result["bulk"]["mixed"][name]["peak_mb"] for name in names])
    axes.set_xlabel("peak memory of the whole process in MB, shorter is better")
    return figure


def _latency(plot: Any, result: dict[str, Any]) -> Any:
    names = list(result["lone_query"])
    starts = [name for name in names if name in result.get("second_start", {})]
    figure, (left, right) = plot.subplots(
        1, 2, figsize=(10, 1.1 + BAR_INCHES * len(names)), layout="constrained"
    )
    _bars(left, names, [result["lone_query"][name]["p50_ms"] for name in names], digits=2)
    left.set_xlabel("a lone query, p50 in ms, shorter is better")
    _bars(
        right,
        starts,
        [result["second_start"][name]["median_seconds"] for name in starts],
        digits=2,
    )
    right.set_xlabel("second start to first vector in s, shorter is better")
    return figure


def _growth(plot: Any, result: dict[str, Any]) -> Any:
    figure, all_axes = plot.subplots(2, 3, figsize=(10, 5), sharex="col", sharey="row")
    groups = {"texts": "texts", "cores": "cores", "budgets": "budget"}
    labels = {"texts": "texts streamed", "cores": "cores", "budgets": "budget of a batch, tokens"}
    for column, (group, key) in enumerate(groups.items()):
        runs = result["growth"][group]
        for precision, colour in zip(PRECISIONS, COLOURS, strict=False):
            mine = [run for run in runs if run["precision"] == precision]
            across = [run[key] for run in mine]
            for row, value in enumerate(("tokens_per_second", "peak_mb")):
                axes = all_axes[row][column]
                axes.plot(across, [run[value] for run in mine], "o-", color=colour, label=precision)
        ticks = sorted({run[key] for run in runs})
        bottom = all_axes[1][column]
        bottom.set_xscale("log", base=10 if group == "texts" else 2)
        bottom.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
        bottom.minorticks_off()
        bottom.set_xlabel(labels[group])
    for axes in all_axes.flat:
        axes.set_ylim(bottom=0)
    all_axes[0][0].set_ylabel("tokens/s")
    all_axes[1][0].set_ylabel("peak memory, MB")
    all_axes[0][0].legend(frameon=False, labelcolor=INK)
    return figure


def _bars(axes: Any, names: Sequence[str], values: Sequence[float], *, digits: int = 0) -> None:
    """A line for each name, the first on top, its value beside it.

    Another model's line may end outside: next to a table of static vectors nothing could be seen.
    """
    alike = [
        value
        for name, value in zip(names, values, strict=True)
        if name not in CONTESTANTS or CONTESTANTS[name].same_tokens
    ]
    end = 1.3 * max(alike, default=1.0)
    places = range(len(names))
    colours = [OURS if name.startswith("onnx-embeddings") else OTHERS for name in names]
    axes.barh(places, [min(value, end) for value in values], color=colours, height=0.65)
    axes.set_xlim(left=0, right=end)
    axes.set_yticks(places, names)
    if not axes.yaxis_inverted():
        axes.invert_yaxis()
    for place, value in zip(places, values, strict=True):
        words = f" {value:,.{digits}f} " if value else " -"
        if value > end:
            axes.text(end, place, f"{words}▸", va="center", ha="right", fontsize=9, color="white")
        else:
            axes.text(value, place, words, va="center", fontsize=9)


def _save(plot: Any, figure: Any, path: Path) -> Path:
    figure.savefig(path, dpi=100, bbox_inches="tight", metadata={"Software": None})
    plot.close(figure)
    return path


def main() -> None:
    """Draw beside a result that was written before."""
    source = Path(sys.argv[1])
    for path in draw(json.loads(source.read_text(encoding="utf-8")), source.parent):
        print(path)


if __name__ == "__main__":
    main()
