"""What the pages say is true: their code runs and prints what it says, generated pages are new."""

from __future__ import annotations

import dataclasses
import doctest
import os
import re
import runpy
import subprocess
import sys
import tomllib
from importlib import import_module
from typing import TYPE_CHECKING

import pytest
from conftest import REPOSITORY

import onnx_embeddings
from onnx_embeddings import catalog

if TYPE_CHECKING:
    from pathlib import Path

# Their code runs in the tests of their adapters.
OF_FRAMEWORKS = {"langchain.md", "llama-index.md", "chroma.md", "haystack.md", "qdrant.md"}
PAGES = sorted([*REPOSITORY.glob("*.md"), *REPOSITORY.glob("docs/*.md")])


def blocks(page: Path) -> list[str]:
    text = page.read_text(encoding="utf-8")
    return re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


@pytest.mark.weights
@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if blocks(page) and page.name not in OF_FRAMEWORKS],
    ids=lambda p: p.name,
)
def test_the_code_of_a_page_prints_what_it_says(
    page: Path, models_home: Path, tmp_path: Path
) -> None:
    expected = re.findall(r"^ *print\(.*\)  # (.*)$", "\n".join(blocks(page)), re.MULTILINE)
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", "\n".join(blocks(page))],
        cwd=tmp_path,
        env=os.environ | {"ONNX_EMBEDDINGS_HOME": str(models_home)},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.splitlines() == expected


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_nothing_is_left_to_be_filled_in(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert not re.findall(r"^[A-Z]+(?:_[A-Z]+)+$|TODO|FIXME", text, re.MULTILINE)


def anchor(title: str) -> str:
    """What a heading is linked by."""
    return re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_of_a_page_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)]+)\)", page.read_text(encoding="utf-8")):
        file, _, heading = target.partition("#")
        if not target.startswith("http"):
            there = page.parent / file if file else page
            assert there.exists(), target
            if there.suffix != ".md":
                assert not heading
                continue
            titles = re.findall(r"^#+ (.*)$", there.read_text(encoding="utf-8"), re.MULTILINE)
            assert not heading or heading in {anchor(title) for title in titles}, target


@pytest.mark.parametrize("page", ["errors", "catalog"])
def test_a_page_that_is_generated_is_new(page: str) -> None:
    made = runpy.run_path(str(REPOSITORY / "docs" / f"{page}_page.py"))
    assert made["PAGE"].read_text(encoding="utf-8") == made["page"]()


def test_the_page_of_models_knows_the_catalog() -> None:
    text = (REPOSITORY / "docs" / "models.md").read_text(encoding="utf-8")
    for model in (model for model in catalog.models().values() if model.files):
        row = f"{model.dim} | {model.max_tokens} | "
        assert model.name in text
        assert row in text
        assert str(model.revision)[:8] in text
        assert f"| {len(model.mirrors)} |" in text


def test_the_page_of_settings_has_all_of_them() -> None:
    text = (REPOSITORY / "docs" / "settings.md").read_text(encoding="utf-8")
    for kind in (onnx_embeddings.ModelRequest, onnx_embeddings.EngineConfig):
        for field in dataclasses.fields(kind):
            assert f"`{field.name}`" in text


def test_examples_in_docstrings_are_right() -> None:
    module = import_module("onnx_embeddings.testing")
    assert doctest.testmod(module).failed == 0
    assert doctest.testmod(module).attempted > 0


@pytest.mark.weights
def test_the_example_of_the_package_is_right(
    models_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONNX_EMBEDDINGS_HOME", str(models_home))
    assert doctest.testmod(onnx_embeddings).failed == 0
    assert doctest.testmod(onnx_embeddings).attempted > 0


def test_one_version_everywhere() -> None:
    version = onnx_embeddings.__version__
    changes = (REPOSITORY / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(r"^## (\S+?),? ", changes, re.MULTILINE).group(1) == version  # type: ignore[union-attr]
    for project in REPOSITORY.glob("integrations/*/pyproject.toml"):
        with project.open("rb") as file:
            path = tomllib.load(file)["tool"]["hatch"]["version"]["path"]
        assert f'__version__ = "{version}"' in (project.parent / path).read_text(encoding="utf-8")
