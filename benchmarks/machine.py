"""What a figure was measured with and on: no names of hosts or people, no paths."""

from __future__ import annotations

import os
import platform
import re
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

# What decides which kernels a runtime picks.
_TELLING_FLAGS = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "avx_vnni", "amx_int8")

PACKAGES = (
    "onnx-embeddings",
    "onnxruntime",
    "tokenizers",
    "numpy",
    "fastembed",
    "libembedding-ng",
    "model2vec",
    "sentence-transformers",
    "torch",
    "transformers",
    "optimum-onnx",
    "diskcache",
    "langchain-core",
    "llama-index-core",
    "chromadb",
    "haystack-ai",
    "qdrant-client",
)


def describe() -> dict[str, Any]:
    """Processor, cores, memory and system."""
    facts = _cpuinfo()
    flags = facts.get("flags", "").split()
    return {
        "processor": facts.get("model name") or platform.processor() or "unknown",
        "instructions": [flag for flag in _TELLING_FLAGS if flag in flags],
        "cores": cores(),
        "memory_gib": _memory_gib(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "openblas_coretype_set": "OPENBLAS_CORETYPE" in os.environ,
    }


def versions() -> dict[str, str]:
    """The packages that matter here, those that are installed."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def cores() -> int:
    """Processors this process may use."""
    return len(core_numbers())


def core_numbers() -> list[int]:
    """The system's numbers of the processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def load_average() -> float | None:
    """Processes that wanted a core in the last minute, on average."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else None


def peak_memory_mb() -> float:
    """The most memory this process has held at a time, in MB (10^6 bytes).

    Linux: VmHWM. There ru_maxrss survives exec, so that a small process that a large one has
    started would report the large one's memory.
    """
    path = Path("/proc/self/status")
    if path.exists():
        line = re.search(r"^VmHWM:\s+(\d+) kB", path.read_text(encoding="utf-8"), re.MULTILINE)
        if line is not None:
            return int(line[1]) * 1024 / 1e6
    import resource
    import sys

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


def memory_mb() -> dict[str, float]:
    """What this process holds now, and what of it no other can share, in MB; Linux only."""
    path = Path("/proc/self/smaps_rollup")
    if not path.exists():
        return {}
    lines = (line.split() for line in path.read_text(encoding="utf-8").splitlines()[1:])
    kilobytes = {words[0].rstrip(":"): int(words[1]) for words in lines}
    private = kilobytes["Private_Clean"] + kilobytes["Private_Dirty"]
    return {"resident_mb": kilobytes["Rss"] * 1024 / 1e6, "private_mb": private * 1024 / 1e6}


def _cpuinfo() -> dict[str, str]:
    path = Path("/proc/cpuinfo")
    if not path.exists():
        return {}
    first = path.read_text(encoding="utf-8").split("\n\n")[0]
    pairs = (line.partition(":") for line in first.splitlines())
    return {key.strip(): value.strip() for key, _, value in pairs}


def _memory_gib() -> float | None:
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None
    return round(total / 2**30, 1)
