"""How the benchmark starts its processes, what it runs, and where it keeps things."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks import machine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

ROOT = Path(__file__).resolve().parents[1]
WORKLOADS = ("mixed", "short", "long")  # in this order, so that peak memory is that of the mixed


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How much is run.

    Attributes:
        mixed: texts of the corpus as it comes.
        short: titles.
        long: texts of at least 200 tokens.
        rounds: of everybody, on all workloads.
        queries: lone ones.
        starts: whole processes.
        stream: how many texts `iter_documents` gets, by precision.
        sweep: texts of the runs on fewer cores and with other budgets.
        sweep_rounds: rounds of those.
        languages: of STS-B.
        retrieval: whether Cranfield is run.
    """

    mixed: int
    short: int
    long: int
    rounds: int
    queries: int
    starts: int
    stream: dict[str, tuple[int, ...]]
    sweep: int
    sweep_rounds: int
    languages: tuple[str, ...]
    retrieval: bool


FULL = Plan(
    mixed=1000,
    short=2000,
    long=100,
    rounds=5,
    queries=300,
    starts=15,
    stream={"int8": (1000, 10_000, 100_000), "fp32": (1000, 10_000)},
    sweep=1000,
    sweep_rounds=3,
    languages=("en", "de", "zh"),
    retrieval=True,
)
QUICK = Plan(
    mixed=200,
    short=400,
    long=40,
    rounds=2,
    queries=100,
    starts=5,
    stream={"int8": (1000, 4000), "fp32": (1000,)},
    sweep=200,
    sweep_rounds=1,
    languages=("en",),
    retrieval=False,
)


@dataclass(frozen=True, slots=True)
class Places:
    """The folders of a comparison.

    Attributes:
        model: all-MiniLM-L6-v2 as its authors lay it out.
        work: ours to write in.
    """

    model: Path
    work: Path

    @property
    def home(self) -> Path:
        """Where onnx-embeddings keeps its models."""
        return self.work / "home"


@dataclass(slots=True)
class Lab:
    """Starts the processes; each one is fresh, offline, and holds one contestant.

    Attributes:
        places: the folders.
        plan: how much is run.
        skipped: contestants that can't take part, and why.
    """

    places: Places
    plan: Plan
    skipped: dict[str, str] = field(default_factory=dict)

    def worker(self, task: str, **options: object) -> list[str]:
        """The command line of a worker."""
        given = {"model": self.places.model, "work": self.places.work} | options
        words = [word for name, value in given.items() for word in (f"--{name}", str(value))]
        return [sys.executable, "-m", "benchmarks.worker", task, *words]

    def ask(self, task: str, **options: object) -> dict[str, Any]:
        """Run a worker to its end; its last line is the answer."""
        output = self.run(self.worker(task, **options))
        answer: dict[str, Any] = json.loads(output.splitlines()[-1])
        return answer

    def run(self, command: Sequence[str]) -> str:
        """Run a process to its end and return what it printed.

        Raises:
            SystemExit: it failed; its own words are in the message.
        """
        done = subprocess.run(  # noqa: S603 - our own command line
            command, cwd=ROOT, env=environment(), capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise SystemExit(f"{' '.join(command[:6])} failed:\n{done.stderr[-3000:]}")
        return done.stdout

    def write(self, path: Path, content: Any) -> None:
        """A JSON file for the workers."""
        path.write_text(json.dumps(content), encoding="utf-8")

    def converse(self, task: str, without: Iterable[str] = (), **options: object) -> Conversation:
        """A worker that waits for lines."""
        return Conversation(self.worker(task, **options), environment(without))


class Conversation:
    """A process that answers a line of JSON with a line of JSON."""

    def __init__(self, command: Sequence[str], environ: dict[str, str]) -> None:
        self._process = subprocess.Popen(  # noqa: S603 - our own command line
            command,
            cwd=ROOT,
            env=environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def tell(self, words: Any) -> None:
        """Send a line."""
        if self._process.stdin is None:
            raise RuntimeError("the process has no stdin")
        self._process.stdin.write(json.dumps(words) + "\n")
        self._process.stdin.flush()

    def hear(self) -> dict[str, Any]:
        """Wait for a line.

        Raises:
            SystemExit: the process has ended.
        """
        line = self._process.stdout.readline() if self._process.stdout is not None else ""
        if not line:
            raise SystemExit("a process of the benchmark ended before it answered")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def end(self) -> None:
        """Close its input and wait until it has ended."""
        self._process.communicate()


def environment(without: Iterable[str] = ()) -> dict[str, str]:
    """What the processes get: ours, but offline, and less what would change their settings."""
    unwanted = {*without, "ONNX_EMBEDDINGS_LANES", "ONNX_EMBEDDINGS_CACHE"}
    kept = {name: value for name, value in os.environ.items() if name not in unwanted}
    return kept | {"HF_HUB_OFFLINE": "1"}


def beginning_with_another(names: Sequence[str], turn: int) -> list[str]:
    """All names in their order, each turn beginning with the next one."""
    first = turn % len(names) if names else 0
    return [*names[first:], *names[:first]]


def arguments(doc: str | None) -> argparse.Namespace:
    """The command line that all parts share."""
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", type=Path, help="a folder; else the product fetches it")
    parser.add_argument("--work", type=Path, default=ROOT / ".benchmarks" / "work")
    parser.add_argument("--out", type=Path, help="a file for the result; a folder if all is run")
    parser.add_argument("--quick", action="store_true", help="few texts and rounds")
    return parser.parse_args()


def alone(doc: str | None, part: Callable[[Lab], Any]) -> None:
    """Run one part of the benchmark by itself: prepare, run, print and write what it found."""
    from benchmarks.prepare import prepare

    given = arguments(doc)
    lab = prepare(given.work, given.model, QUICK if given.quick else FULL)
    found = rounded({"skipped": lab.skipped, "machine": machine.describe(), "found": part(lab)})
    text = json.dumps(found, indent=1)
    if given.out is not None:
        given.out.write_text(text + "\n", encoding="utf-8")
    print(text)


def rounded(value: Any) -> Any:
    """Five figures are more than a noisy machine can give; cosines keep all of theirs."""
    if isinstance(value, dict):
        return {k: v if "cosine" in str(k) else rounded(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(item) for item in value]
    return float(f"{value:.5g}") if isinstance(value, float) else value


def say(words: str) -> None:
    """Tell whoever waits how far we are."""
    print(f"{time.strftime('%H:%M:%S')} {words}", file=sys.stderr, flush=True)
