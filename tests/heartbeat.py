"""Whether an event loop goes on: a clock that ticks beside some work. For tests of adapters."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

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


async def assert_the_loop_goes_on(work: Callable[[], Awaitable[object]]) -> None:
    """The work, which takes some seconds, leaves the loop to others."""
    gap = elapsed = 0.0
    for _ in range(ATTEMPTS):
        floor, _ = await largest_gap(asyncio.sleep(0.5))
        gap, elapsed = await largest_gap(work())
        if gap < max(LARGEST_GAP_S, 2 * floor, elapsed / 10):
            return
    raise AssertionError(f"a gap of {gap:.3f} s in {elapsed:.3f} s")


def assert_the_loop_goes_on_in_a_fresh_process(prepare: str, work: str, *arguments: str) -> None:
    """So does the first call of a process, which loads the model.

    Args:
        prepare: code that is run before the clock starts.
        work: the expression that is awaited.
        arguments: `sys.argv[1:]` of both.
    """
    code = (
        f"import asyncio, sys\nsys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        f"from heartbeat import largest_gap\n{prepare}\n"
        f"print(*asyncio.run(largest_gap({work})))"
    )
    command = [sys.executable, "-c", code, *arguments]
    gap = elapsed = 0.0
    for _ in range(ATTEMPTS):
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
        gap, elapsed = map(float, done.stdout.split())
        # To link the runtime's library holds the interpreter for some tens of milliseconds.
        if gap < max(LARGEST_GAP_S, elapsed / 4):
            return
    raise AssertionError(f"a gap of {gap:.3f} s in {elapsed:.3f} s")
