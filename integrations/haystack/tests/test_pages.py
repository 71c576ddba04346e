"""What the pages say is true: their code runs, their errors are the real ones, the example too."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from haystack import Document, Pipeline

from haystack_integrations.components.embedders.onnx_embeddings import (
    OnnxDocumentEmbedder,
    OnnxTextEmbedder,
)

if TYPE_CHECKING:
    from collections.abc import Callable

README = Path(__file__).parents[1] / "README.md"
REPOSITORY = Path(__file__).parents[3]
PAGE = REPOSITORY / "docs" / "haystack.md"
EXAMPLE = REPOSITORY / "examples" / "haystack_pipeline.py"


def blocks(page: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.weights
@pytest.mark.usefixtures("minilm")
@pytest.mark.parametrize(
    "code",
    ["\n".join(blocks(README)), *blocks(PAGE)],
    ids=["README", *(f"block{number}" for number in range(len(blocks(PAGE))))],
)
def test_the_code_of_the_pages_prints_what_it_says(
    code: str, capsys: pytest.CaptureFixture[str]
) -> None:
    exec(compile(code, "page", "exec"), {})  # noqa: S102  our own pages

    promised = re.findall(r"print\(.*\)  # (.*)", code)
    assert promised
    assert capsys.readouterr() == ("\n".join(promised) + "\n", "")


@pytest.mark.weights
@pytest.mark.usefixtures("minilm")
def test_the_example_finds_the_right_notes() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLE)],
        env=os.environ | {"ONNX_EMBEDDINGS_OFFLINE": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    head, *answers = done.stdout.split("\n\n")
    assert head.startswith("8 notes, as vectors of 384 numbers by ")
    best = [answer.splitlines()[1] for answer in answers]
    assert len(best) == 3
    for note, word in zip(best, ["boiler", "router", "main tap"], strict=True):
        assert word in note


def in_two_pipelines() -> None:
    embedder = OnnxTextEmbedder()
    for pipeline in (Pipeline(), Pipeline()):
        pipeline.add_component("embedder", embedder)


def not_installed() -> None:
    path = "haystack_integrations.components.embedders.not_installed.OnnxTextEmbedder"
    Pipeline.from_dict(
        {"components": {"embedder": {"type": path, "init_parameters": {}}}, "connections": []}
    )


@pytest.mark.parametrize(
    "provoke",
    [
        lambda tiny: OnnxTextEmbedder(tiny).run(["a cat"]),  # type: ignore[arg-type]
        lambda tiny: OnnxDocumentEmbedder(tiny).run("a cat"),  # type: ignore[arg-type]
        lambda tiny: OnnxDocumentEmbedder(tiny).run(["a cat"]),  # type: ignore[list-item]
        lambda tiny: OnnxTextEmbedder(tiny, query_prompt="query: ", prefix="query: ").warm_up(),
        lambda _: OnnxDocumentEmbedder(batch_size=32),  # type: ignore[call-arg]
        lambda _: OnnxTextEmbedder(engine_options={"lane": 2}),
        lambda tiny: OnnxDocumentEmbedder(tiny, progress_bar=False).run(
            [Document(id="1", content="a"), Document(id="2", content="\ud800")]
        ),
        lambda _: setattr(OnnxTextEmbedder(), "dim", 8),
        lambda _: OnnxTextEmbedder("./nothing").warm_up(),
        lambda _: OnnxTextEmbedder("org/name").warm_up(),
        lambda _: in_two_pipelines(),
        lambda _: not_installed(),
    ],
)
def test_the_errors_on_the_page_are_the_real_ones(
    provoke: Callable[[Any], object], tiny: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")  # nobody listens there
    for name in ("HF_HUB_OFFLINE", "ONNX_EMBEDDINGS_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    said = re.findall(r"^\| `(.*?)`", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(said) == 12

    with pytest.raises(Exception) as raised:  # noqa: PT011  any kind; its text is the point
        provoke(tiny)

    text = str(raised.value)
    parts = [[re.escape(part) for part in one.split("…")] for one in said]
    assert any(re.search(".*".join(part), text) for part in parts), text
