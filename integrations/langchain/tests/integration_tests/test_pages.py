"""The code of the README and of the page in docs runs, and prints what its comments say."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

README = Path(__file__).parents[2] / "README.md"
PAGE = Path(__file__).parents[4] / "docs" / "langchain.md"


@pytest.mark.weights
@pytest.mark.usefixtures("minilm", "no_sockets")
@pytest.mark.parametrize(("page", "prints"), [(README, 4), (PAGE, 4)], ids=["README", "docs"])
def test_the_code_of_a_page_runs(
    page: Path, prints: int, capsys: pytest.CaptureFixture[str]
) -> None:
    code = "\n".join(re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), re.DOTALL))
    names: dict[str, Any] = {}
    exec(compile(code, str(page), "exec"), names)  # noqa: S102  our own page

    promised = re.findall(r"print\(.*\)  # (.*)", code)
    assert len(promised) == prints
    assert capsys.readouterr() == ("\n".join(promised) + "\n", "")
