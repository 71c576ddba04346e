"""The code of the pages runs, and prints what its comments say; so does the example."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from onnx_embeddings.errors import DownloadError

PACKAGE = Path(__file__).parents[1]
README = PACKAGE / "README.md"
PAGE = PACKAGE.parents[1] / "docs" / "qdrant.md"
EXAMPLE = PACKAGE.parents[1] / "examples" / "qdrant_collection.py"


def blocks(page: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)


def run(code: str, page: Path) -> None:
    exec(compile(code, str(page), "exec"), {"__name__": "__main__"})  # noqa: S102  our own page


def promised(code: str) -> list[Any]:
    return re.findall(r"^ *print\(.*\)  # (.*)", code, re.MULTILINE)


@pytest.mark.weights
@pytest.mark.usefixtures("minilm", "no_sockets")
def test_the_code_of_the_readme_runs(capsys: pytest.CaptureFixture[str]) -> None:
    code = "\n".join(blocks(README))

    run(code, README)

    assert len(promised(code)) == 4
    assert capsys.readouterr().out.splitlines() == promised(code)


@pytest.mark.weights
@pytest.mark.usefixtures("minilm", "no_sockets")
@pytest.mark.parametrize("block", blocks(PAGE), ids=range(len(blocks(PAGE))))
def test_the_code_of_the_page_runs(block: str, capsys: pytest.CaptureFixture[str]) -> None:
    run(block, PAGE)

    assert promised(block)
    assert capsys.readouterr().out.splitlines() == promised(block)


@pytest.mark.weights
def test_the_example_finds_its_notes(tmp_path: Path, minilm: str) -> None:
    command = [
        *(sys.executable, "-W", "error", str(EXAMPLE)),
        *("--model", minilm, "--path", str(tmp_path / "qdrant")),
    ]
    outputs = [
        subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
        for _ in range(2)
    ]

    for output in outputs:
        assert (output.returncode, output.stderr) == (0, "")
        assert re.search(r"heating\?\n.*boiler", output.stdout)
        assert re.search(r"bread\?.*\n.*dough", output.stdout)
        assert "refused: dim: stored 384, given 128" in output.stdout
    assert "9 notes written, 9 in" in outputs[0].stdout
    assert "0 notes written, 9 in" in outputs[1].stdout


def test_the_page_knows_what_a_download_says_that_failed() -> None:
    said = str(DownloadError("hub …", "…"))

    assert f"| `{said}` (`DownloadError`) |" in PAGE.read_text(encoding="utf-8")
