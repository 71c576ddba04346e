"""The code of the README and of the page in docs runs, and prints what its comments say."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from langchain_onnx_embeddings import OnnxEmbeddings
from onnx_embeddings.errors import DownloadError

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


def test_the_readme_says_how_to_install_what_langchain_does_not_bring() -> None:
    before = README.read_text("utf-8").partition("from langchain_classic")[0]
    assert "pip install langchain-classic\n" in before


def test_the_page_explains_a_failed_download(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")  # nobody listens there
    for name in ("HF_HUB_OFFLINE", "ONNX_EMBEDDINGS_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    said = re.search(r"\*\*`DownloadError: (.*)…(.*)`\*\*", PAGE.read_text("utf-8"))
    assert said

    with pytest.raises(DownloadError) as raised:
        OnnxEmbeddings(model="org/name").embed_query("a text")

    assert str(raised.value).startswith(said[1])
    assert said[2] in str(raised.value)
