"""Which kind of processor this is, as far as the names of quantised files tell them apart."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Literal

Kind = Literal["arm64", "vnni", "other"]
"""``vnni``: x86 with instructions for products of 8-bit integers; ``other``: neither."""

_VNNI = frozenset({"avx512_vnni", "avx_vnni"})


@cache
def kind() -> Kind:
    """Of this processor. Where the system does not tell (Windows, macOS) x86 is ``other``."""
    import platform  # only here: it takes 2 ms of each start

    if platform.machine().lower() in {"arm64", "aarch64"}:
        return "arm64"
    return "vnni" if _VNNI & _flags() else "other"


def _flags() -> frozenset[str]:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8", errors="replace").splitlines()
    except OSError:
        return frozenset()
    return frozenset(next((line.split() for line in lines if line.startswith("flags")), ()))
