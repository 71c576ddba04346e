"""Many callers in, the lanes of the process out: how much work runs at a time, and whose.

A lane is a thread that runs one batch after the other. There are as many as the process has
processors (or as the largest `lanes` asked for), over all engines and all callers, so that twenty
callers do not mean twenty computations at a time. Lanes take from the callers in turn: a short call
never waits for a long one to end, only for the batches that are running.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Item = TypeVar("Item")

_LONGEST_END_SECONDS = 10


class LaneLimit:
    """How many batches of one engine may run at a time."""

    def __init__(self, lanes: int) -> None:
        """Nothing runs yet."""
        self.lanes = lanes
        self.running = 0


class Call(Generic[Item]):
    """The work of one caller, item by item.

    Items are added by `put`, also while others run. The first error drops what has not started,
    and `progress` raises it, in this caller and in no other.
    """

    def __init__(self, work: Callable[[Item], None], limit: LaneLimit, of: Scheduler) -> None:
        """Use `Scheduler.call`."""
        self.work = work
        self.limit = limit
        self.items: deque[Item] = deque()
        self.running = 0
        self.finished: list[Item] = []
        self.error: BaseException | None = None
        self.dropped = False
        self._scheduler = of

    @property
    def unfinished(self) -> int:
        """How many items run, or wait and are not dropped."""
        return self.running + (0 if self.dropped else len(self.items))

    def put(self, items: Sequence[Item]) -> None:
        """Add items; they start as lanes become free."""
        self._scheduler.put(self, items)

    def drop(self) -> None:
        """Start nothing more of it.

        Takes no lock and waits for nothing: the garbage collector may call this anywhere, even in
        a lane. What runs keeps alive what it needs.
        """
        self.dropped = True

    def fail(self, error: Exception) -> None:
        """Start nothing more of it, let its caller's `progress` raise this, wait for what runs."""
        self._scheduler.fail(self, error)

    def progress(self, *, at_most: int = 0) -> tuple[list[Item], int]:
        """Wait until something has finished, or at most so many items are unfinished.

        Returns:
            The items that have finished since the last time, and how many are unfinished.

        Raises:
            BaseException: whatever the work on an item raised.
        """
        return self._scheduler.progress(self, at_most)


class Scheduler:
    """The lanes of a process."""

    def __init__(self) -> None:
        """Start with no lanes; they come with the first work."""
        self._changed = threading.Condition()
        self._calls: deque[Call[Any]] = deque()
        self._threads = 0
        self._running = 0
        self._ending = False

    def call(self, work: Callable[[Item], None], limit: LaneLimit) -> Call[Item]:
        """A new caller.

        Args:
            work: what to do with an item; called on a lane.
            limit: the engine's limit, which it shares with all its callers.
        """
        return Call(work, limit, self)

    def busy(self) -> _Busy:
        """Count the caller's own thread as working, while it is in a library's native code."""
        return _Busy(self)

    def begin(self) -> None:
        """The caller's thread works from now on; see `busy`."""
        with self._changed:
            self._stay_if_ending()
            self._running += 1

    def done(self) -> None:
        """The caller's thread has worked; see `busy`."""
        with self._changed:
            self._running -= 1
            self._changed.notify_all()

    def run_alone(self, work: Callable[[], None]) -> bool:
        """Run this at once, on the caller's own thread, if nothing else runs or waits.

        Saves a lone query the way to a lane and back, and lets it use the whole machine.

        Returns:
            Whether it was run.
        """
        with self._changed:
            if self._running or self._calls:
                return False
        # Whatever starts in between only makes it less alone.
        with self.busy():
            work()
        return True

    def put(self, call: Call[Item], items: Sequence[Item]) -> None:
        """See `Call.put`."""
        with self._changed:
            self._stay_if_ending()
            if not self._ending:
                self._queue(call, items)
                return
        for item in items:  # an exit handler embeds: the lanes have stopped
            call.work(item)
            call.finished.append(item)

    def _queue(self, call: Call[Item], items: Sequence[Item]) -> None:
        self._start_lanes(call.limit.lanes)
        if items and call.error is None:
            if not call.items:
                self._calls.append(call)
            call.items.extend(items)
        self._changed.notify_all()

    def _start_lanes(self, number: int) -> None:
        while self._threads < number:
            # Daemons, since they hold no work of their own that could be lost at exit.
            name = f"onnx-embeddings-lane-{self._threads + 1}"
            lane = threading.Thread(target=self._lane, name=name, daemon=True)
            try:
                lane.start()
            except RuntimeError:
                # The system allows no more threads: go on with those that there are.
                if not self._threads:
                    raise
                return
            self._threads += 1

    def end(self) -> None:
        """Let what runs come to its end, and start nothing more; the interpreter is about to end.

        It would kill threads that come back from native code then, and the process with them.
        """
        with self._changed:
            self._ending = True
            deadline = time.monotonic() + _LONGEST_END_SECONDS
            while self._running and (left := deadline - time.monotonic()) > 0:
                # Another Ctrl-C must not end the wait: the process would be aborted.
                with suppress(KeyboardInterrupt):
                    self._changed.wait(left)

    def _stay_if_ending(self) -> None:
        """Keep a daemon thread here, out of native code, until the process is gone."""
        while self._ending and threading.current_thread().daemon:
            self._changed.wait()

    def progress(self, call: Call[Item], at_most: int) -> tuple[list[Item], int]:
        """See `Call.progress`."""
        with self._changed:
            try:
                self._changed.wait_for(
                    lambda: call.error is not None or call.finished or call.unfinished <= at_most
                )
            except BaseException:  # the caller was interrupted
                self._drop(call)
                raise
            if call.error is not None:
                # What still runs of this call writes into the caller's arrays.
                self._changed.wait_for(lambda: not call.running)
                raise call.error
            finished, call.finished = call.finished, []
            return finished, call.unfinished

    def fail(self, call: Call[Any], error: Exception) -> None:
        """See `Call.fail`."""
        with self._changed:
            if call.error is None:
                call.error = error
            self._drop(call)
            self._changed.notify_all()
            self._changed.wait_for(lambda: not call.running)

    def _drop(self, call: Call[Any]) -> None:
        call.items.clear()
        if call in self._calls:
            self._calls.remove(call)

    def _lane(self) -> None:
        while True:
            with self._changed:
                call = self._taken()
                item = call.items.popleft()
                if call.items:
                    self._calls.append(call)
                call.running += 1
                call.limit.running += 1
                self._running += 1
            error: BaseException | None = None
            try:
                call.work(item)
            except BaseException as caught:  # noqa: BLE001  the caller raises it, the lane lives on
                error = caught
            with self._changed:
                call.running -= 1
                call.limit.running -= 1
                call.finished.append(item)
                self._running -= 1
                if error is not None and call.error is None:
                    call.error = error
                    self._drop(call)
                self._changed.notify_all()
            # Keep nothing of the caller's alive while waiting for the next one.
            del call, item, error

    def _taken(self) -> Call[Any]:
        """Wait for a caller with something to start, and take it off the queue."""
        while self._ending or (call := self._next()) is None:
            self._changed.wait()
        return call

    def _next(self) -> Call[Any] | None:
        for _ in range(len(self._calls)):
            call = self._calls.popleft()
            if call.dropped:
                call.items.clear()
                continue
            if call.limit.running < call.limit.lanes:
                return call
            self._calls.append(call)
        return None


class _Busy:
    """What `with scheduler.busy()` enters; a class, since a lone query pays for a generator."""

    __slots__ = ("_scheduler",)

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    def __enter__(self) -> None:
        self._scheduler.begin()

    def __exit__(self, *exception: object) -> None:
        self._scheduler.done()


_process = Scheduler()


def process_scheduler() -> Scheduler:
    """The one scheduler of this process."""
    return _process


@atexit.register
def _end() -> None:
    _process.end()


def _after_fork() -> None:
    # The lanes did not come along into the child, and its lock may be held by one of them.
    global _process  # noqa: PLW0603
    _process = Scheduler()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
