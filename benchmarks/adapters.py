"""What each adapter costs over the engine, in one process, in turns.

    python -m benchmarks.adapters --model FOLDER --out benchmarks/results/adapters.json

1,000 real texts, each adapter by the call that its framework makes, without a cache. Turning
vectors into Python floats, which three frameworks want, is timed apart too.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from benchmarks import corpus, machine

import onnx_embeddings
from onnx_embeddings import EngineConfig

if TYPE_CHECKING:
    from collections.abc import Callable


def contestants(model: str) -> dict[str, Callable[[list[str]], Any]]:
    """Name -> what embeds documents; all share one session."""
    from haystack import Document
    from llama_index.core.schema import TextNode

    from chroma_onnx_embeddings import OnnxEmbeddingFunction
    from haystack_integrations.components.embedders.onnx_embeddings import OnnxDocumentEmbedder
    from langchain_onnx_embeddings import OnnxEmbeddings
    from llama_index.embeddings.onnx import OnnxEmbedding
    from qdrant_onnx_embeddings import OnnxEmbedder

    settings: dict[str, Any] = {"model": model, "engine_options": {"cache": None}}
    chroma = OnnxEmbeddingFunction(**settings)
    haystack = OnnxDocumentEmbedder(**settings, progress_bar=False)
    langchain = OnnxEmbeddings(**settings)
    llama = OnnxEmbedding(**settings)
    qdrant = OnnxEmbedder(**settings)
    engine = onnx_embeddings.load(model, config=EngineConfig(cache=None))
    return {
        "engine": engine.embed_documents,
        "LangChain": langchain.embed_documents,
        "LlamaIndex": llama.get_text_embedding_batch,
        "LlamaIndex, nodes": lambda texts: llama([TextNode(text=text) for text in texts]),
        "Chroma": chroma,
        "Haystack": lambda texts: haystack.run([Document(content=text) for text in texts]),
        "Qdrant": lambda texts: list(qdrant.points(texts)),
    }


def compare(model: str, texts: list[str], rounds: int) -> dict[str, Any]:
    """Seconds and ratios to the engine of the same round."""
    ways = contestants(model)
    took: dict[str, list[float]] = {name: [] for name in ways}
    floats = []
    for way in ways.values():
        way(texts[:64])
    names = list(ways)
    for number in range(rounds):
        # Another one begins in each round: the speed of a shared machine drifts.
        first = number % len(names)
        for name in names[first:] + names[:first]:
            started = time.perf_counter()
            found = ways[name](texts)
            took[name].append(time.perf_counter() - started)
            if name == "engine":
                started = time.perf_counter()
                [row.tolist() for row in found]
                floats.append(time.perf_counter() - started)
        print(f"round {number + 1} of {rounds}", flush=True)
    base = median(took["engine"])
    return {
        "texts": len(texts),
        "sha256": corpus.digest(texts),
        "seconds": took,
        "over_engine": {name: median(values) / base for name, values in took.items()},
        "over_engine_best": {name: min(v) / min(took["engine"]) for name, v in took.items()},
        "python_floats_share": median(floats) / base,
    }


def main() -> None:
    """Measure, write the result as JSON and print it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", type=Path, required=True, help="all-MiniLM-L6-v2, a folder")
    parser.add_argument("--work", type=Path, required=True, help="a folder for the corpus")
    parser.add_argument("--out", type=Path, help="where to write the result as JSON")
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    path = corpus.prepare(arguments.work, arguments.model, 1000)
    texts = json.loads(path.read_text(encoding="utf-8"))["mixed"]
    found = {
        "machine": machine.describe(),
        "versions": machine.versions(),
        "documents": compare(str(arguments.model.absolute()), texts, arguments.rounds),
    }
    if arguments.out is not None:
        arguments.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(found["documents"], indent=1))


if __name__ == "__main__":
    main()
