from __future__ import annotations

import threading
from queue import Queue
from typing import TypeVar

import pytest

from onnx_embeddings.scheduler import Call, LaneLimit, Scheduler

SECONDS = 20
Item = TypeVar("Item")


def drain(call: Call[Item], at_most: int = 0) -> list[Item]:
    """All that finishes until at most so many items are left."""
    done: list[Item] = []
    while True:
        finished, left = call.progress(at_most=at_most)
        done += finished
        if left <= at_most:
            return done


class Gate:
    """Work that stays where it is until it is let go, and knows how much is inside."""

    def __init__(self) -> None:
        self.entered: Queue[object] = Queue()
        self.open = threading.Event()
        self.inside = 0
        self.most = 0
        self._lock = threading.Lock()

    def __call__(self, item: object) -> None:
        with self._lock:
            self.inside += 1
            self.most = max(self.most, self.inside)
        self.entered.put(item)
        assert self.open.wait(SECONDS)
        with self._lock:
            self.inside -= 1


def test_every_item_is_worked_on_once() -> None:
    done: list[int] = []
    call = Scheduler().call(done.append, LaneLimit(3))
    call.put(list(range(100)))
    call.put(list(range(100, 200)))
    assert sorted(drain(call)) == list(range(200))
    assert sorted(done) == list(range(200))
    assert drain(call) == []


def test_no_more_items_run_at_a_time_than_there_are_lanes() -> None:
    gate = Gate()
    scheduler = Scheduler()
    first, second = scheduler.call(gate, LaneLimit(2)), scheduler.call(gate, LaneLimit(2))
    first.put([1, 2, 3])
    second.put([4, 5, 6])
    gate.entered.get(timeout=SECONDS)
    gate.entered.get(timeout=SECONDS)
    gate.open.set()
    drain(first)
    drain(second)
    assert gate.most <= 2


def test_a_caller_with_fewer_lanes_leaves_the_others_free() -> None:
    gate = Gate()
    scheduler = Scheduler()
    narrow, wide = scheduler.call(gate, LaneLimit(1)), scheduler.call(gate, LaneLimit(3))
    narrow.put(["n1", "n2", "n3"])
    wide.put(["w1", "w2"])
    entered = {gate.entered.get(timeout=SECONDS) for _ in range(3)}
    assert entered == {"n1", "w1", "w2"}
    gate.open.set()
    drain(narrow)
    drain(wide)


def test_a_short_call_does_not_wait_for_a_long_one_to_end() -> None:
    order: list[str] = []
    gate = Gate()
    scheduler = Scheduler()

    def work(item: str) -> None:
        if item == "long 0":
            gate(item)
        order.append(item)

    long, short = scheduler.call(work, LaneLimit(1)), scheduler.call(work, LaneLimit(1))
    long.put([f"long {i}" for i in range(50)])
    gate.entered.get(timeout=SECONDS)
    short.put(["short"])
    gate.open.set()
    drain(short)
    drain(long)
    assert order.index("short") <= 2


def test_an_error_reaches_its_own_caller_and_no_other() -> None:
    scheduler = Scheduler()
    done: list[object] = []

    def work(item: object) -> None:
        if item == "bad":
            raise ValueError(item)
        done.append(item)

    good: Call[object] = scheduler.call(work, LaneLimit(2))
    bad: Call[object] = scheduler.call(work, LaneLimit(1))
    bad.put(["bad", *range(1000)])
    good.put(list("abcdef"))
    with pytest.raises(ValueError, match="bad"):
        drain(bad)
    assert set(drain(good)) == set("abcdef")
    assert not set(done) & set(range(1000))
    # What is put after the error is dropped, and the error stays.
    bad.put(["more"])
    with pytest.raises(ValueError, match="bad"):
        drain(bad)
    assert "more" not in done
    assert not bad.items


def test_even_a_system_exit_leaves_the_lanes_alive() -> None:
    scheduler = Scheduler()

    def work(item: str) -> None:
        if item == "exit":
            raise SystemExit

    call = scheduler.call(work, LaneLimit(1))
    call.put(["exit"])
    with pytest.raises(SystemExit):
        drain(call)
    other = scheduler.call(work, LaneLimit(1))
    other.put(["fine"])
    assert drain(other) == ["fine"]


def test_work_runs_on_the_callers_own_thread_only_if_nothing_else_does() -> None:
    scheduler = Scheduler()
    threads: list[threading.Thread] = []
    assert scheduler.run_alone(lambda: threads.append(threading.current_thread()))
    assert threads == [threading.current_thread()]
    gate = Gate()
    call = scheduler.call(gate, LaneLimit(1))
    call.put([1])
    gate.entered.get(timeout=SECONDS)
    assert not scheduler.run_alone(lambda: threads.append(threading.current_thread()))
    assert len(threads) == 1
    gate.open.set()
    drain(call)
    with pytest.raises(ZeroDivisionError):
        scheduler.run_alone(lambda: 1 / 0)  # type: ignore[arg-type]
    assert scheduler.run_alone(lambda: None)


def test_waiting_for_some_returns_before_all_are_done() -> None:
    gate = Gate()
    scheduler = Scheduler()

    def work(item: int) -> None:
        if item == 3:
            gate(item)

    call = scheduler.call(work, LaneLimit(1))
    call.put([0, 1, 2, 3])
    assert drain(call, at_most=1) == [0, 1, 2]
    gate.open.set()
    assert drain(call) == [3]


def test_twenty_callers_at_once_all_get_their_own() -> None:
    scheduler = Scheduler()
    results: dict[int, list[int]] = {}

    def caller(number: int) -> None:
        call: Call[int] = scheduler.call(lambda _: None, LaneLimit(2))
        call.put(range(number * 100, number * 100 + 50))
        results[number] = sorted(drain(call))

    threads = [threading.Thread(target=caller, args=(i,)) for i in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS)
    assert results == {i: list(range(i * 100, i * 100 + 50)) for i in range(20)}


def test_an_error_is_raised_also_if_it_came_before_the_last_items() -> None:
    scheduler = Scheduler()

    def work(item: str) -> None:
        raise ValueError(item)

    call: Call[str] = scheduler.call(work, LaneLimit(1))
    call.put(["first window"])
    other: Call[str] = scheduler.call(lambda _: None, LaneLimit(1))
    other.put(["after it"])
    drain(other)
    call.put(["second window"])
    with pytest.raises(ValueError, match="first window"):
        call.progress()


def test_the_callers_of_one_engine_share_its_lanes() -> None:
    gate = Gate()
    scheduler = Scheduler()
    wide: Call[object] = scheduler.call(lambda _: None, LaneLimit(4))
    wide.put([0])
    drain(wide)  # the process has four lanes now
    engine = LaneLimit(1)
    calls: list[Call[object]] = [scheduler.call(gate, engine) for _ in range(4)]
    for number, call in enumerate(calls):
        call.put([number, number])
    gate.entered.get(timeout=SECONDS)
    gate.open.set()
    for call in calls:
        drain(call)
    assert gate.most == 1


def test_with_fewer_threads_than_lanes_it_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    start, allowed = threading.Thread.start, 1

    def start_some(thread: threading.Thread) -> None:
        nonlocal allowed
        if not allowed:
            raise RuntimeError("can't start new thread")
        allowed -= 1
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_some)
    scheduler = Scheduler()
    call: Call[int] = scheduler.call(lambda _: None, LaneLimit(3))
    call.put([1, 2, 3])
    assert sorted(drain(call)) == [1, 2, 3]
    none: Call[int] = Scheduler().call(lambda _: None, LaneLimit(1))
    for _ in range(2):
        with pytest.raises(RuntimeError, match="can't start new thread"):
            none.put([1])


def test_no_items_are_no_work_and_harm_nobody() -> None:
    scheduler = Scheduler()
    none: Call[int] = scheduler.call(lambda _: None, LaneLimit(2))
    none.put([])
    assert none.progress() == ([], 0)
    call: Call[int] = scheduler.call(lambda _: None, LaneLimit(2))
    call.put([1])
    assert drain(call) == [1]


def test_another_interrupt_does_not_end_the_wait_at_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scheduler, gate = Scheduler(), Gate()
    scheduler.call(gate, LaneLimit(1)).put(["an item"])
    gate.entered.get(timeout=SECONDS)
    interrupts = [KeyboardInterrupt(), KeyboardInterrupt()]
    wait = scheduler._changed.wait

    def interrupted(timeout: float | None = None) -> bool:
        if threading.current_thread() is threading.main_thread() and interrupts:
            if len(interrupts) == 1:
                gate.open.set()
            raise interrupts.pop()
        return wait(timeout)

    monkeypatch.setattr(scheduler._changed, "wait", interrupted)
    scheduler.end()
    assert not interrupts
    assert scheduler._running == 0


def test_a_call_that_is_dropped_starts_nothing_more() -> None:
    gate = Gate()
    call = Scheduler().call(gate, LaneLimit(1))
    call.put(["first", "second", "third"])
    assert gate.entered.get(timeout=SECONDS) == "first"
    call.drop()
    gate.open.set()
    assert drain(call) == ["first"]
    assert gate.entered.empty()


def test_a_call_that_is_dropped_by_the_garbage_collector_takes_no_lock() -> None:
    gate, scheduler = Gate(), Scheduler()
    call = scheduler.call(gate, LaneLimit(1))
    call.put(["first", "second"])
    gate.entered.get(timeout=SECONDS)
    with scheduler._changed:  # as a thread that the collector interrupts may
        dropping = threading.Thread(target=call.drop)
        dropping.start()
        dropping.join(SECONDS)
        assert not dropping.is_alive()
    gate.open.set()
    assert drain(call) == ["first"]
    assert not scheduler._calls
    assert not call.items


def test_a_call_that_is_failed_waits_for_what_runs_and_wakes_its_caller() -> None:
    gate = Gate()
    call = Scheduler().call(gate, LaneLimit(1))
    call.put(["first", "second"])
    gate.entered.get(timeout=SECONDS)
    raised: Queue[BaseException] = Queue()

    def caller() -> None:
        try:
            call.progress()
        except ValueError as error:
            raised.put(error)

    waiting = threading.Thread(target=caller)
    failing = threading.Thread(target=call.fail, args=(ValueError("closed"),))
    waiting.start()
    failing.start()
    failing.join(0.1)
    assert failing.is_alive()
    gate.open.set()
    for thread in (failing, waiting):
        thread.join(SECONDS)
        assert not thread.is_alive()
    assert str(raised.get(timeout=SECONDS)) == "closed"
    assert gate.inside == 0
    assert gate.entered.empty()
