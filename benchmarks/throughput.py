"""The comparison: speed, memory, lone queries and start, ours and others', in one run.

    python -m benchmarks.throughput --model FOLDER             the whole of it
    python -m benchmarks.throughput --model FOLDER --quick     a first impression

README.md in this folder tells what is compared, how, and how to read it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections import deque
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
from benchmarks import machine
from benchmarks.contestants import (
    CONTESTANTS,
    FASTEMBED,
    OURS,
    SENTENCE_TRANSFORMERS,
    Places,
    start_code,
)
from benchmarks.corpus import CUT, digest

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy.typing as npt

ROOT = Path(__file__).resolve().parents[1]
DUEL = (OURS, FASTEMBED)
BLOCK = 20
SPIN_S = (
    1.0  # the runtime's threads spin up to a third of a second for more work, disturbing others
)
LEAST_COSINE = 0.999
BUSY = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How much is run."""

    texts: int
    rounds: int
    queries: int
    starts: int


FULL = Plan(texts=1000, rounds=5, queries=300, starts=15)
QUICK = Plan(texts=200, rounds=2, queries=100, starts=5)


@dataclass(frozen=True, slots=True)
class Bar:
    """Something promised, and what came out."""

    promise: str
    value: float
    at_least: float | None = None
    at_most: float | None = None

    @property
    def passed(self) -> bool:
        """Whether the promise is kept."""
        return (self.at_least is None or self.value >= self.at_least) and (
            self.at_most is None or self.value <= self.at_most
        )


class Lab:
    """Starts the processes; nothing but the network is taken from their environment."""

    def __init__(self, places: Places) -> None:
        self.places = places
        self.environment = os.environ | {"HF_HUB_OFFLINE": "1"}

    def worker(self, task: str, **options: str | Path) -> list[str]:
        """The command line of a worker."""
        given = {"model": self.places.model, "work": self.places.work} | options
        words = [word for name, value in given.items() for word in (f"--{name}", str(value))]
        return [sys.executable, "-m", "benchmarks.worker", task, *words]

    def ask(self, task: str, **options: str | Path) -> dict[str, Any]:
        """Run a worker to its end; its last line is the answer."""
        output = self.run(self.worker(task, **options))
        answer: dict[str, Any] = json.loads(output.splitlines()[-1])
        return answer

    def run(self, command: list[str], without: tuple[str, ...] = ()) -> str:
        """Run a process to its end and return what it printed.

        Raises:
            SystemExit: it failed; its own words are in the message.
        """
        environment = {k: v for k, v in self.environment.items() if k not in without}
        done = subprocess.run(  # noqa: S603 - our own command line
            command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise SystemExit(f"{' '.join(command[:6])} failed:\n{done.stderr[-3000:]}")
        return done.stdout

    def converse(self, contestant: str) -> subprocess.Popen[str]:
        """A contestant that waits for queries."""
        return subprocess.Popen(  # noqa: S603 - our own command line
            self.worker("queries", contestant=contestant),
            cwd=ROOT,
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )


def prepare(lab: Lab, count: int) -> dict[str, list[str]]:
    """Corpus, Optimum export and compiled model, each made once and kept in the work folder."""
    lab.places.work.mkdir(parents=True, exist_ok=True)
    folders = ["--work", str(lab.places.work), "--model", str(lab.places.model)]
    lab.run([sys.executable, "-m", "benchmarks.corpus", *folders, "--count", str(count)])
    lab.ask("export")
    lab.run([sys.executable, "-c", start_code(OURS, lab.places)])
    corpus = lab.places.work / f"corpus-{count}-1.json"
    texts: dict[str, list[str]] = json.loads(corpus.read_text(encoding="utf-8"))
    return texts


def run_bulk(lab: Lab, texts: list[str], rounds: int) -> dict[str, list[dict[str, Any]]]:
    """Everybody embeds all texts once a round; each round begins with another contestant."""
    where = lab.places.work / "texts.json"
    where.write_text(json.dumps(texts), encoding="utf-8")
    results: dict[str, list[dict[str, Any]]] = {name: [] for name in CONTESTANTS}
    for turn in range(1, rounds + 1):
        everybody = deque(CONTESTANTS)
        everybody.rotate(1 - turn)
        for name in everybody:
            out = _vectors_of(lab, name)
            result = lab.ask("bulk", contestant=name, texts=where, out=out)
            results[name].append(result)
            _say(f"round {turn}: {name}: {len(texts) / result['seconds']:.1f} texts/s")
    return results


def check_agreement(lab: Lab) -> dict[str, float]:
    """Everybody saw the same tokens and came to the same vectors.

    Returns:
        The least cosine between our vector and the peer's, over all texts, by peer.

    Raises:
        SystemExit: a peer disagrees: then no figure means anything.
    """
    with np.load(_vectors_of(lab, OURS)) as file:
        ours, counts = file["vectors"], file["counts"]
    least = {}
    for name in CONTESTANTS:
        with np.load(_vectors_of(lab, name)) as file:
            if not np.array_equal(file["counts"], counts):
                raise SystemExit(f"{name} does not see the tokens that we see")
            least[name] = float(_cosines(ours, file["vectors"]).min())
        if least[name] < LEAST_COSINE:
            raise SystemExit(f"{name}: cosine {least[name]:.6f} with ours")
    return least


def run_queries(lab: Lab, queries: list[str], count: int) -> dict[str, dict[str, float]]:
    """Lone queries, the same for both, in blocks that alternate between two waiting processes.

    Returns:
        p50, p99 and mean in milliseconds, by contestant.
    """
    warm_up, measured = queries[:BLOCK], queries[BLOCK : BLOCK + count]
    processes = {name: lab.converse(name) for name in DUEL}
    times: dict[str, list[float]] = {name: [] for name in DUEL}
    for process in processes.values():
        _listen(process)  # loaded
    for process in processes.values():
        _put(process, warm_up)
        _listen(process)
        time.sleep(SPIN_S)
    blocks = [measured[start : start + BLOCK] for start in range(0, len(measured), BLOCK)]
    for block, names in zip(blocks, _alternating(DUEL, len(blocks)), strict=True):
        for name in names:
            _put(processes[name], block)
            times[name] += _listen(processes[name])["milliseconds"]
            time.sleep(SPIN_S)
    for process in processes.values():
        process.communicate()
    return {
        name: {
            "queries": len(values),
            "p50_ms": float(np.percentile(values, 50)),
            "p99_ms": float(np.percentile(values, 99)),
            "mean_ms": float(np.mean(values)),
        }
        for name, values in times.items()
    }


def run_starts(lab: Lab, count: int) -> dict[str, list[float]]:
    """Seconds from nothing to a first vector: a whole process, model on disk, files warm."""
    seconds: dict[str, list[float]] = {name: [] for name in DUEL}
    for turn, names in enumerate(_alternating(DUEL, count + 1)):
        for name in names:
            start = time.perf_counter()
            lab.run([sys.executable, "-c", start_code(name, lab.places)])
            if turn:  # the first warms the page cache
                seconds[name].append(time.perf_counter() - start)
    return seconds


def measure_matrix_rate(lab: Lab, times: int = 3) -> dict[str, Any]:
    """The best of a few tries, with numpy's own choice of kernel."""
    command = lab.worker("matrix-rate")
    without = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")
    tries = [json.loads(lab.run(command, without)) for _ in range(times)]
    best: dict[str, Any] = max(tries, key=lambda answer: answer["gflops"])
    return best


def floating_point_operations(model: Path, counts: npt.NDArray[np.int64]) -> float:
    """What the corpus costs at least: two for each multiply-add of real tokens, no padding.

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
    operations: float = 2.0 * layers * (tokens * weights + 2.0 * pairs * hidden)
    return operations


def compare(lab: Lab, plan: Plan) -> dict[str, Any]:
    """Run all parts and gather what they found."""
    busy_before = machine.load_average()
    if busy_before is not None and busy_before > BUSY:
        _say(f"WARNING: load average {busy_before:.1f} before the start: others use this machine")
    _say("preparing corpus, export and compiled model")
    texts = prepare(lab, plan.texts)
    rate = measure_matrix_rate(lab)
    bulk = run_bulk(lab, texts["mixed"], plan.rounds)
    cosines = check_agreement(lab)
    _say("lone queries")
    queries = run_queries(lab, texts["titles"], plan.queries)
    _say("starts")
    starts = run_starts(lab, plan.starts)
    rate = max(rate, measure_matrix_rate(lab), key=lambda answer: answer["gflops"])

    seconds = {name: median(run["seconds"] for run in runs) for name, runs in bulk.items()}
    with np.load(_vectors_of(lab, OURS)) as file:
        counts = file["counts"]
    operations = floating_point_operations(lab.places.model, counts)
    share = operations / seconds[OURS] / 1e9 / rate["gflops"]
    return {
        "date": datetime.now(tz=UTC).date().isoformat(),
        "quick": plan == QUICK,
        "load_average_before": busy_before,
        "machine": machine.describe(),
        "versions": machine.versions(),
        "corpus": {
            "texts": len(texts["mixed"]),
            "mean_tokens": float(counts.mean()),
            "cut_at": CUT,
            "sha256": digest(texts["mixed"]),
        },
        "bulk": {
            name: {
                "texts_per_second": len(counts) / seconds[name],
                "tokens_per_second": float(counts.sum()) / seconds[name],
                "ours_is_faster_by": seconds[name] / seconds[OURS],
                "least_cosine_to_ours": cosines[name],
                "peak_mb": max(run["peak_mb"] for run in runs),
                "cores_busy": median(run["cores_busy"] for run in runs),
                "threads": runs[-1]["threads"],
                "seconds_of_each_round": [run["seconds"] for run in runs],
            }
            for name, runs in bulk.items()
        },
        "lone_query": queries,
        "second_start": {
            name: {"median_seconds": median(values), "seconds_of_each_start": values}
            for name, values in starts.items()
        },
        "matrix_rate": rate | {"corpus_gflop": operations / 1e9, "our_share": share},
    }


def lone_queries(lab: Lab, plan: Plan, out: Path | None) -> dict[str, Any]:
    """Lone queries alone, twice."""
    texts = prepare(lab, plan.texts)["titles"]
    result = _rounded(
        {
            "date": datetime.now(tz=UTC).date().isoformat(),
            "machine": machine.describe(),
            "versions": machine.versions(),
            "runs": [run_queries(lab, texts, plan.queries) for _ in range(2)],
        }
    )
    if out is not None:
        out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    found: dict[str, Any] = result
    return found


def bars(result: dict[str, Any]) -> list[Bar]:
    """What the project promises, against what came out."""
    bulk, query, start = result["bulk"], result["lone_query"], result["second_start"]
    return [
        Bar(
            "texts/s, times FastEmbed's default", bulk[FASTEMBED]["ours_is_faster_by"], at_least=3.5
        ),
        Bar(
            "texts/s, times sentence-transformers",
            bulk[SENTENCE_TRANSFORMERS]["ours_is_faster_by"],
            at_least=1.6,
        ),
        Bar("peak memory, MB", bulk[OURS]["peak_mb"], at_most=350.0),
        Bar(
            "lone query, p50, times FastEmbed's",
            query[OURS]["p50_ms"] / query[FASTEMBED]["p50_ms"],
            at_most=1.0,
        ),
        Bar(
            "second start, times FastEmbed's",
            start[OURS]["median_seconds"] / start[FASTEMBED]["median_seconds"],
            at_most=0.5,
        ),
    ]


def table(result: dict[str, Any]) -> str:
    """The result for a reader."""
    facts, corpus, rate = result["machine"], result["corpus"], result["matrix_rate"]
    lines = [
        f"{facts['processor']}, {facts['cores']} cores, {facts['memory_gib']} GiB",
        f"{corpus['texts']} texts of {corpus['mean_tokens']:.1f} tokens on average, cut at {CUT}",
        "",
        f"{'':32}{'texts/s':>9}{'ours is':>9}{'peak MB':>9}{'cores':>7}{'cosine':>11}",
    ]
    for name, row in result["bulk"].items():
        lines.append(
            f"{name:32}{row['texts_per_second']:9.1f}{row['ours_is_faster_by']:8.2f}x"
            f"{row['peak_mb']:9.0f}{row['cores_busy']:7.2f}{row['least_cosine_to_ours']:11.7f}"
        )
    lines += ["", f"{'':32}{'p50 ms':>9}{'p99 ms':>9}{'start s':>9}"]
    for name, row in result["lone_query"].items():
        start = result["second_start"][name]["median_seconds"]
        lines.append(f"{name:32}{row['p50_ms']:9.2f}{row['p99_ms']:9.2f}{start:9.3f}")
    lines += [
        "",
        f"numpy's own fp32 products, {rate['kernel']} kernel: {rate['gflops']:.0f} GFLOP/s",
        f"our share of that rate: {rate['our_share']:.0%}",
        "",
    ]
    for bar in bars(result):
        limit = f">= {bar.at_least}" if bar.at_least is not None else f"<= {bar.at_most}"
        verdict = "pass" if bar.passed else "MISS"
        lines.append(f"{verdict}  {bar.promise:40}{bar.value:9.3f}  ({limit})")
    return "\n".join(lines)


def main() -> None:
    """Compare, write the result as JSON and print it as a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", type=Path, required=True, help="all-MiniLM-L6-v2, a folder")
    parser.add_argument("--work", type=Path, help="a folder to keep things in between runs")
    parser.add_argument("--out", type=Path, help="where to write the result as JSON")
    parser.add_argument("--quick", action="store_true", help="few texts and rounds")
    parser.add_argument("--queries-only", action="store_true", help="lone queries, nothing else")
    arguments = parser.parse_args()
    if arguments.work is None:
        from platformdirs import user_cache_path

        arguments.work = user_cache_path("onnx-embeddings-benchmarks", appauthor=False)
    places = Places(model=arguments.model.resolve(), work=arguments.work.resolve())

    plan = QUICK if arguments.quick else FULL
    if arguments.queries_only:
        print(json.dumps(lone_queries(Lab(places), plan, arguments.out), indent=1))
        return
    result = compare(Lab(places), plan)
    result["bars"] = [
        {
            "promise": bar.promise,
            "value": bar.value,
            "at_least": bar.at_least,
            "at_most": bar.at_most,
            "passed": bar.passed,
        }
        for bar in bars(result)
    ]
    if arguments.out is not None:
        arguments.out.write_text(json.dumps(_rounded(result), indent=1) + "\n", encoding="utf-8")
    print(table(result))


def _alternating(names: Iterable[str], rounds: int) -> list[list[str]]:
    forward = list(names)
    return [forward if turn % 2 == 0 else forward[::-1] for turn in range(rounds)]


def _vectors_of(lab: Lab, name: str) -> Path:
    return lab.places.work / f"{name.replace(', ', '-').replace(' ', '-')}.npz"


def _cosines(left: npt.NDArray[Any], right: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    left, right = left.astype(np.float64), right.astype(np.float64)
    products = (left * right).sum(axis=1)
    lengths = np.linalg.norm(left, axis=1) * np.linalg.norm(right, axis=1)
    cosines: npt.NDArray[np.float64] = products / lengths
    return cosines


def _put(process: subprocess.Popen[str], queries: list[str]) -> None:
    if process.stdin is None:
        raise RuntimeError("the process has no stdin")
    process.stdin.write(json.dumps(queries) + "\n")
    process.stdin.flush()


def _listen(process: subprocess.Popen[str]) -> dict[str, Any]:
    line = process.stdout.readline() if process.stdout is not None else ""
    if not line:
        raise SystemExit("a contestant ended before it answered")
    answer: dict[str, Any] = json.loads(line)
    return answer


def _rounded(value: Any) -> Any:
    """Five figures are more than a noisy machine can give; cosines keep all of theirs."""
    if isinstance(value, dict):
        return {k: v if "cosine" in k else _rounded(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_rounded(item) for item in value]
    return float(f"{value:.5g}") if isinstance(value, float) else value


def _say(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
