"""What the cache of vectors costs and saves; ours only, in one process.

    python -m benchmarks.cache --model FOLDER --out benchmarks/results/cache.json

Indexing real texts without it, cold and warm, in turns; lone queries; and the cache by itself.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
from benchmarks import corpus, machine

import onnx_embeddings
from onnx_embeddings import EngineConfig
from onnx_embeddings.cache import VectorCache

if TYPE_CHECKING:
    from collections.abc import Callable

DIM = 384
VECTORS = 10_000
WINDOW = 1024  # as many as the engine asks for at a time


def seconds(work: Callable[[], Any]) -> float:
    """How long it takes."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def by_itself(folder: Path, rounds: int) -> dict[str, float]:
    """Microseconds a vector of 384 numbers."""
    cache = VectorCache(folder, 2**30)
    cache.open()
    vectors = np.random.default_rng(0).normal(size=(VECTORS, DIM)).astype(np.float32)
    keys = [os.urandom(32) for _ in range(VECTORS)]
    parts = [slice(first, first + WINDOW) for first in range(0, VECTORS, WINDOW)]
    started = time.perf_counter()
    for part in parts:
        cache.put_many(keys[part], vectors[part])
    put = time.perf_counter() - started
    bulk = [
        seconds(lambda: [cache.get_many(keys[part], DIM) for part in parts]) for _ in range(rounds)
    ]
    alone = []
    for number in np.random.default_rng(1).permutation(VECTORS)[:2000]:
        key = [keys[number]]
        started = time.perf_counter()
        cache.get_many(key, DIM)
        alone.append(time.perf_counter() - started)
    return {
        "put_us": put / VECTORS * 1e6,
        "hit_in_bulk_us": median(bulk) / VECTORS * 1e6,
        "hit_alone_us_p50": float(np.percentile(alone, 50)) * 1e6,
        "hit_alone_us_p99": float(np.percentile(alone, 99)) * 1e6,
        "bytes_on_disk_a_vector": cache.stats().bytes_on_disk / VECTORS,
    }


def indexing(model: Path, texts: list[str], folder: Path, rounds: int) -> dict[str, Any]:
    """All texts in one call: without the cache, into an empty one, and again."""
    took: dict[str, list[float]] = {"without": [], "cold": [], "warm": []}
    with onnx_embeddings.load(model, config=EngineConfig(cache=None)) as plain:
        plain.embed_documents(texts[:64])
        for number in range(rounds):
            config = EngineConfig(cache=folder / str(number))
            with onnx_embeddings.load(model, config=config) as cached:
                engines = {"without": plain, "cold": cached}
                # Another one begins in each round: the speed of a shared machine drifts.
                for way in sorted(engines, reverse=bool(number % 2)):
                    engine = engines[way]
                    took[way].append(seconds(lambda engine=engine: engine.embed_documents(texts)))  # type: ignore[misc]
                for _ in range(3):
                    took["warm"].append(seconds(lambda: cached.embed_documents(texts)))
            pair = took["cold"][-1] / took["without"][-1]
            print(f"round {number + 1}: cold takes {pair:.3f} of without", flush=True)
    pairs = [cold / without for cold, without in zip(took["cold"], took["without"], strict=True)]
    return {
        "texts": len(texts),
        "sha256": corpus.digest(texts),
        "seconds": took,
        "cold_over_without": median(pairs),
        "cold_over_warm": median(took["cold"]) / median(took["warm"]),
        "warm_us_a_text": median(took["warm"]) / len(texts) * 1e6,
    }


def lone_queries(model: Path, texts: list[str], folder: Path) -> dict[str, float]:
    """Microseconds of a lone query that is new, and of one that is known."""
    with onnx_embeddings.load(model, config=EngineConfig(cache=folder)) as engine:
        rounds = []
        for _ in range(2):
            took = []
            for text in texts:
                started = time.perf_counter()
                engine.embed_queries([text])
                took.append(time.perf_counter() - started)
            rounds.append(took)
    new, known = rounds
    return {
        "new_us_p50": median(new) * 1e6,
        "known_us_p50": median(known) * 1e6,
        "known_us_p99": float(np.percentile(known, 99)) * 1e6,
    }


def main() -> None:
    """Measure, write the result as JSON and print it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", type=Path, required=True, help="all-MiniLM-L6-v2, a folder")
    parser.add_argument("--work", type=Path, required=True, help="a folder for the corpus")
    parser.add_argument("--out", type=Path, help="where to write the result as JSON")
    parser.add_argument("--texts", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    path = corpus.prepare(arguments.work, arguments.model, arguments.texts)
    texts = json.loads(path.read_text(encoding="utf-8"))
    model = arguments.model.absolute()
    with tempfile.TemporaryDirectory(dir=arguments.work) as name:
        folder = Path(name)
        found = {
            "machine": machine.describe(),
            "versions": machine.versions(),
            "by_itself": by_itself(folder / "by-itself", 5),
            "lone_queries": lone_queries(model, texts["titles"], folder / "queries"),
            "indexing": indexing(model, texts["mixed"], folder, arguments.rounds),
        }
    if arguments.out is not None:
        arguments.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
