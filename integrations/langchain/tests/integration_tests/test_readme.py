"""The README's code runs, and prints what its comments say."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

README = Path(__file__).parents[2] / "README.md"


def blocks() -> Iterator[str]:
    for block in re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL):
        if "langchain_classic" not in block or find_spec("langchain_classic"):
            yield block


@pytest.mark.weights
@pytest.mark.usefixtures("minilm")
def test_the_code_of_the_readme_runs(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    code = "\n".join(blocks())
    exec(compile(code, str(README), "exec"), names)  # noqa: S102  our own page

    promised = re.findall(r"print\(.*\)  # (.*)", code)
    assert len(promised) == 4
    assert capsys.readouterr().out.splitlines() == promised
    assert names["other"].max_tokens == 128
