"""The example runs, finds what fits, and adds nothing the second time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[3] / "examples" / "chroma_collection.py"


@pytest.mark.weights
def test_the_example_fills_once_and_finds_what_fits(minilm: str, tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", str(EXAMPLE), "--folder", str(tmp_path / "db")]

    first, second = (
        subprocess.run(
            [*command, "--model", minilm], capture_output=True, text=True, timeout=120, check=False
        )
        for _ in range(2)
    )

    assert (first.returncode, first.stderr) == (second.returncode, second.stderr) == (0, "")
    assert "8 notes, 8 of them added now" in first.stdout
    assert "work   9 texts embedded" in first.stdout
    assert "8 notes, 0 of them added now" in second.stdout
    assert "work   1 texts embedded" in second.stdout
    for printed in (first.stdout, second.stdout):
        assert printed.split("radiators?\n")[1].split()[1] == "boiler"
        assert "document_prompt: stored '', given 'note: '" in printed
