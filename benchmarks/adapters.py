"""What each adapter costs over the engine, in one process, in turns.

    python -m benchmarks.adapters --model FOLDER --work FOLDER --out adapters.json

1,000 real texts, each adapter by the call that its framework makes. Once with the model at work and
no cache; a shared machine's noise is larger than most adapters' cost, so once more with all
vectors in a warm cache, where nothing but the adapter differs.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from benchmarks import corpus, machine

import onnx_embeddings
from onnx_embeddings import EngineConfig

if TYPE_CHECKING:
    from collections.abc import Callable

    Way = Callable[[list[str]], Any]


def contestants(model: str, cache: str | None) -> dict[str, Way]:
    """Name -> what embeds documents; all share one session."""
    from haystack import Document
    from llama_index.core.schema import TextNode

    from chroma_onnx_embeddings import OnnxEmbeddingFunction
    from haystack_integrations.components.embedders.onnx_embeddings import OnnxDocumentEmbedder
    from langchain_onnx_embeddings import OnnxEmbeddings
    from llama_index.embeddings.onnx import OnnxEmbedding
    from qdrant_onnx_embeddings import OnnxEmbedder

    settings: dict[str, Any] = {"model": model, "engine_options": {"cache": cache}}
    chroma = OnnxEmbeddingFunction(**settings)
    haystack = OnnxDocumentEmbedder(**settings, progress_bar=False)
    langchain = OnnxEmbeddings(**settings)
    llama = OnnxEmbedding(**settings)
    qdrant = OnnxEmbedder(**settings)
    engine = onnx_embeddings.load(model, config=EngineConfig(cache=cache))
    return {
        "engine": engine.embed_documents,
        "LangChain": langchain.embed_documents,
        "LlamaIndex": llama.get_text_embedding_batch,
        "LlamaIndex, nodes": lambda texts: llama([TextNode(text=text) for text in texts]),
        "Chroma": chroma,
        "Haystack": lambda texts: haystack.run([Document(content=text) for text in texts]),
        "Qdrant": lambda texts: list(qdrant.points(texts)),
    }


def in_turns(ways: dict[str, Way], texts: list[str], rounds: int) -> dict[str, list[float]]:
    """Seconds of each round of each way; another one begins in each round."""
    took: dict[str, list[float]] = {name: [] for name in ways}
    names = list(ways)
    for number in range(rounds):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            started = time.perf_counter()
            ways[name](texts)
            took[name].append(time.perf_counter() - started)
    return took


def compare(model: str, texts: list[str], folder: str, rounds: int) -> dict[str, Any]:
    """With the model at work, and with a warm cache."""
    working = contestants(model, None)
    for way in working.values():
        way(texts[:64])
    took = in_turns(working, texts, rounds)
    cached = contestants(model, folder)
    for way in cached.values():
        way(texts)
    apart = in_turns(cached, texts, 31)
    vectors = cached["engine"](texts)
    floats = []
    for _ in range(31):
        started = time.perf_counter()
        [row.tolist() for row in vectors]
        floats.append(time.perf_counter() - started)
    base, found = median(took["engine"]), median(apart["engine"])
    return {
        "texts": len(texts),
        "sha256": corpus.digest(texts),
        "seconds": took,
        "over_engine": {name: median(values) / base for name, values in took.items()},
        "apart": {
            "ms": {name: (median(values) - found) * 1e3 for name, values in apart.items()},
            "share_of_the_engines_time": {
                name: (median(values) - found) / base for name, values in apart.items()
            },
            "python_floats_ms": median(floats) * 1e3,
            "python_floats_share": median(floats) / base,
        },
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
    with tempfile.TemporaryDirectory(dir=arguments.work) as folder:
        documents = compare(str(arguments.model.absolute()), texts, folder, arguments.rounds)
    found = {
        "machine": machine.describe(),
        "versions": machine.versions(),
        "documents": documents,
    }
    if arguments.out is not None:
        arguments.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(found["documents"], indent=1))


if __name__ == "__main__":
    main()
