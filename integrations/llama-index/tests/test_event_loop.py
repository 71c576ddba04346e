"""The event loop goes on while the real model is loaded and while it embeds."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from llama_index.embeddings.onnx import OnnxEmbedding

if TYPE_CHECKING:
    from collections.abc import Awaitable

pytestmark = pytest.mark.weights

# What a busy machine is allowed to add; a call that blocks the loop is one gap of its whole length.
ATTEMPTS = 4
LARGEST_GAP_S = 0.05


async def largest_gap(work: Awaitable[object]) -> tuple[float, float]:
    """Seconds: the longest time between two ticks of a 10 ms clock, and the time of the work."""
    gaps = [0.0]
    done = asyncio.Event()

    async def tick() -> None:
        last = time.perf_counter()
        while not done.is_set():
            await asyncio.sleep(0.01)
            now = time.perf_counter()
            gaps.append(now - last)
            last = now

    clock = asyncio.create_task(tick())
    await asyncio.sleep(0.03)
    start = time.perf_counter()
    await work
    elapsed = time.perf_counter() - start
    done.set()
    await clock
    return max(gaps), elapsed


async def test_embedding_does_not_block_the_event_loop(minilm: str) -> None:
    # Without a cache, so that there is something to wait for each time.
    embed_model = OnnxEmbedding(model=minilm, engine_options={"cache": None})
    texts = [f"text {number} " + "of some length " * 20 for number in range(100)]
    await embed_model.aget_query_embedding("load it first")

    gap = elapsed = 0.0
    for _ in range(ATTEMPTS):
        floor, _ = await largest_gap(asyncio.sleep(0.5))
        gap, elapsed = await largest_gap(embed_model.aget_text_embedding_batch(texts))
        if gap < max(LARGEST_GAP_S, 2 * floor, elapsed / 10):
            return
    pytest.fail(f"a gap of {gap:.3f} s in {elapsed:.3f} s")


def test_loading_does_not_block_the_event_loop(minilm: str) -> None:
    code = """
import asyncio, sys
sys.path.insert(0, sys.argv[2])
from test_event_loop import largest_gap
from llama_index.embeddings.onnx import OnnxEmbedding

embed_model = OnnxEmbedding(model=sys.argv[1], engine_options={"cache": None})
print(*asyncio.run(largest_gap(embed_model.aget_query_embedding("a"))))
"""
    gap = elapsed = 0.0
    for _ in range(ATTEMPTS):
        command = [sys.executable, "-c", code, minilm, str(Path(__file__).parent)]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
        gap, elapsed = map(float, done.stdout.split())
        # To link the runtime's library holds the interpreter for some tens of milliseconds.
        if gap < max(LARGEST_GAP_S, elapsed / 4):
            return
    pytest.fail(f"a gap of {gap:.3f} s in {elapsed:.3f} s")
