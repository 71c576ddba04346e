"""How many processors this process may use: affinity and container quotas, not the host's count."""

from __future__ import annotations

import math
import os
from pathlib import Path

_CGROUPS = Path("/proc/self/cgroup")
_MOUNT = Path("/sys/fs/cgroup")


def available_processors(cgroups: Path = _CGROUPS, mount: Path = _MOUNT) -> int:
    """Processors that this process may keep busy, at least 1.

    The smaller of its affinity (taskset, cpusets) and its quota of processor time, rounded up
    (Linux control groups, versions 1 and 2). ONNX Runtime by itself looks at neither.

    Args:
        cgroups: the file that names the control groups of this process.
        mount: where control groups are mounted.
    """
    return max(1, math.ceil(min(_affinity(), _quota(cgroups, mount))))


def _affinity() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _quota(cgroups: Path, mount: Path) -> float:
    """Processors' worth of time that the tightest control group allows; infinity without one."""
    quotas = [math.inf]
    for line in _read(cgroups).splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if not controllers:
            root, quota = mount, _quota_v2
        elif "cpu" in controllers.split(","):
            root, quota = mount / "cpu", _quota_v1
        else:
            continue
        # A quota on any group above binds too. In a container the path may be the host's, which
        # is not mounted here: what counts then is the root.
        inner = root / path.strip().lstrip("/")
        quotas += [
            quota(folder) for folder in (inner, *inner.parents) if folder.is_relative_to(root)
        ]
    return min(quotas)


def _quota_v2(folder: Path) -> float:
    quota, _, period = _read(folder / "cpu.max").strip().partition(" ")
    return _ratio(quota, period)


def _quota_v1(folder: Path) -> float:
    return _ratio(_read(folder / "cpu.cfs_quota_us"), _read(folder / "cpu.cfs_period_us"))


def _ratio(quota: str, period: str) -> float:
    """``max`` and ``-1`` mean no quota, as do files that are missing or odd."""
    try:
        allowed, out_of = int(quota), int(period)
    except ValueError:
        return math.inf
    return allowed / out_of if allowed > 0 and out_of > 0 else math.inf


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""
