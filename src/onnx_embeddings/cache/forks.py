"""Forks and SQLite, apart: neither begins while the other is at work."""

from __future__ import annotations

import os
import threading
import weakref
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

_LONGEST_WAIT_S = 10.0


class Idle(Protocol):
    """What has connections that must not come along into a child."""

    def close_idle(self) -> None:
        """Close those that nobody uses."""


class _Forks:
    """Keeps forks and SQLite apart.

    A child that is made while another thread is in SQLite inherits the record of its locks, and
    finds the database locked for ever.
    """

    def __init__(self) -> None:
        """Nothing runs."""
        self._changed = threading.Condition()
        self._running = 0
        self._forking = 0

    @contextmanager
    def apart(self) -> Iterator[None]:
        """Do something in SQLite, not during a fork."""
        with self._changed:
            while self._forking:
                self._changed.wait()
            self._running += 1
        try:
            yield
        finally:
            with self._changed:
                self._running -= 1
                self._changed.notify_all()

    def before(self) -> None:
        """Let what runs come to its end, and start nothing more."""
        with self._changed:
            self._forking += 1
            # Bounded: the thread that forks may itself be in the middle of something.
            self._changed.wait_for(lambda: not self._running, timeout=_LONGEST_WAIT_S)

    def after(self) -> None:
        """Go on, in the parent."""
        with self._changed:
            self._forking -= 1
            self._changed.notify_all()


_forks = _Forks()
_all: weakref.WeakSet[Idle] = weakref.WeakSet()


def apart() -> AbstractContextManager[None]:
    """Do something in SQLite, not during a fork."""
    return _forks.apart()


def close_before(idle: Idle) -> None:
    """Close its connections before each fork, for as long as it is there."""
    _all.add(idle)


def _before_fork() -> None:
    _forks.before()
    # SQLite must not find, in the child, a connection that the parent opened.
    for idle in list(_all):
        idle.close_idle()


def _after_in_parent() -> None:
    _forks.after()


def _after_in_child() -> None:
    global _forks  # noqa: PLW0603  a thread of the parent may have its lock
    _forks = _Forks()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork, after_in_parent=_after_in_parent, after_in_child=_after_in_child
    )
