"""What a loaded model takes, and what the second session for lone queries adds.

    python -m benchmarks.memory [--quick]

Memory is what the process holds (resident), and of it what no other process can share (private):
weights that are mapped from a file are resident but shared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from benchmarks import machine
from benchmarks.contestants import PRECISIONS, Ours, ours
from benchmarks.lab import Lab, Places, alone, say
from benchmarks.prepare import texts_of

if TYPE_CHECKING:
    import argparse

BEFORE_TRIALS = 2  # lone queries that the engine answers before it tries a second session
QUERIES = 60


def measure(lab: Lab) -> dict[str, Any]:
    """Megabytes by precision, after each step, and what the second session added."""
    say("memory of sessions")
    path = lab.places.work / "queries.json"
    lab.write(path, texts_of(lab)["titles"][:QUERIES])
    found: dict[str, Any] = {}
    for precision in PRECISIONS:
        if ours(precision) not in lab.skipped:
            steps = lab.ask("memory", precision=precision, texts=path)
            found[ours(precision)] = steps | {
                "second_session": {
                    kind: steps["with_second_session"][kind] - steps["one_session"][kind]
                    for kind in steps["one_session"]
                }
            }
    return found


def watch(places: Places, options: argparse.Namespace) -> dict[str, dict[str, float]]:
    """In a process of its own: the memory after each step, with one core there is one session."""
    import json

    import onnxruntime  # noqa: F401  what ours imports when it loads
    import tokenizers  # noqa: F401

    import onnx_embeddings  # noqa: F401

    queries = json.loads(options.texts.read_text(encoding="utf-8"))
    steps = {"imported": machine.memory_mb()}
    embedder = Ours(places, options.precision)
    steps["loaded"] = machine.memory_mb()
    for query in queries[:BEFORE_TRIALS]:
        embedder.embed_query(query)
    steps["one_session"] = machine.memory_mb()
    for query in queries[BEFORE_TRIALS:]:
        embedder.embed_query(query)
    steps["with_second_session"] = machine.memory_mb()
    return steps


if __name__ == "__main__":
    alone(__doc__, measure)
