"""The code of the README and of the docs page runs, and prints what its comments say."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from onnx_embeddings.errors import DownloadError

PACKAGE = Path(__file__).parents[1]
README = PACKAGE / "README.md"
DOCS = PACKAGE.parents[1] / "docs" / "chroma.md"


@pytest.mark.weights
@pytest.mark.usefixtures("minilm")
@pytest.mark.parametrize(("page", "prints"), [(README, 3), (DOCS, 8)], ids=["README", "docs"])
def test_the_code_of_a_page_runs(page: Path, prints: int, tmp_path: Path) -> None:
    code = "\n".join(re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), re.DOTALL))
    promised = re.findall(r"print\(.*\)  # (.*)", code)
    assert len(promised) == prints

    # In a process of its own: in one, Chroma takes two databases named "./chroma" for one.
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == promised


def test_the_page_knows_what_a_download_says_that_failed() -> None:
    said = str(DownloadError("hub …", "…"))

    assert f"**`{said}`** (`DownloadError`)" in DOCS.read_text("utf-8")
