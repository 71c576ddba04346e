"""What goes wrong with a database, and whether to wait, to begin anew, or to do without."""

from __future__ import annotations

import random
import sqlite3
import time
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    Result = TypeVar("Result")

_PATIENCE_S = 5.0  # for others who write; a window of texts is written in a few hundredths
_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR}
_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}


class BusyError(Exception):
    """Somebody else writes just now."""


class NotOursError(Exception):
    """The file is a database, but no cache of this package."""


def patiently(work: Callable[[], Result]) -> Result:
    """Try again while somebody else writes."""
    deadline = time.monotonic() + _PATIENCE_S
    pause = 0.001
    while True:
        try:
            return work()
        except (BusyError, sqlite3.OperationalError) as error:
            if not is_busy(error) or time.monotonic() > deadline:
                raise
        time.sleep(pause * random.uniform(0.5, 1))  # noqa: S311  no secret
        pause = min(2 * pause, 0.05)


def is_busy(error: Exception) -> bool:
    """Whether an error says that somebody else writes just now."""
    return isinstance(error, BusyError) or _code(error) in _BUSY


def is_damage(error: Exception) -> bool:
    """Whether an error says that the database is not one of ours, or not any more."""
    if isinstance(error, sqlite3.Error):
        return _code(error) in _DAMAGED
    # Settings and rows of another shape break diskcache in these ways.
    odd = NotOursError | AssertionError | AttributeError | KeyError | TypeError | ValueError
    return isinstance(error, odd)


def reason(error: Exception) -> str:
    """What an error says, for people."""
    return "somebody else writes to it" if is_busy(error) else str(error)


def _code(error: Exception) -> int:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF
