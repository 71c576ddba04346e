"""The code of the README, of the page in docs and of the example runs and prints what they say."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from llama_index.core import (
    Document,
    Settings,
    StorageContext,
    VectorStoreIndex,
    load_index_from_storage,
)
from llama_index.core.embeddings.loading import load_embed_model
from llama_index.core.schema import TextNode
from llama_index.core.storage.kvstore import SimpleKVStore

from llama_index.embeddings.onnx import OnnxEmbedding

if TYPE_CHECKING:
    from collections.abc import Callable

REPOSITORY = Path(__file__).parents[3]
README = Path(__file__).parents[1] / "README.md"
PAGE = REPOSITORY / "docs" / "llama-index.md"
EXAMPLE = REPOSITORY / "examples" / "llama_index_retriever.py"


def blocks(page: Path) -> list[str]:
    text = page.read_text(encoding="utf-8")
    return re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def promised(code: str) -> list[str]:
    return re.findall(r"^ *print\(.*\)  # (.*)$", code, re.MULTILINE)


def printed(done: subprocess.CompletedProcess[str]) -> list[str]:
    # llama-index-core 0.13 tells on the standard output what it loads.
    lines = done.stdout.splitlines()
    return [line for line in lines if not line.startswith("Loading llama_index.core.storage.")]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.weights
@pytest.mark.usefixtures("minilm")
def test_the_code_of_the_readme_runs_from_top_to_bottom() -> None:
    code = "\n".join(blocks(README))

    done = run("-c", code)

    assert len(promised(code)) == 4
    assert (done.returncode, done.stderr) == (0, "")
    assert printed(done) == promised(code)


@pytest.mark.weights
@pytest.mark.usefixtures("minilm")
@pytest.mark.parametrize("number", range(4))
def test_each_block_of_the_page_runs_by_itself(number: int) -> None:
    assert len(blocks(PAGE)) == 4
    code = blocks(PAGE)[number]

    done = run("-c", code)

    assert promised(code)
    assert (done.returncode, done.stderr) == (0, "")
    assert printed(done) == promised(code)


@pytest.mark.weights
@pytest.mark.usefixtures("minilm")
def test_the_example_finds_the_right_notes() -> None:
    done = run(str(EXAMPLE))

    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    best = {line: lines[at + 1].split()[1] for at, line in enumerate(lines) if line.endswith("?")}
    assert best == {
        "Who repairs the heating?": "boiler",
        "Where can a friend sleep?": "guests",
        "Why is there no electricity in the kitchen?": "fuses",
    }


@pytest.mark.weights
@pytest.mark.usefixtures("minilm")
def test_the_example_answers_other_questions() -> None:
    done = run(str(EXAMPLE), "When is the paper collected?")

    assert (done.returncode, done.stderr) == (0, "")
    assert "bins" in done.stdout.splitlines()[2]


def without_an_embed_model(_: str, __: Path) -> None:
    VectorStoreIndex.from_documents([Document(text="a cat")])


def with_another_size(tiny: str, tmp_path: Path) -> None:
    documents = [Document(text="a cat")]
    index = VectorStoreIndex.from_documents(documents, embed_model=OnnxEmbedding(model=tiny))
    index.storage_context.persist(str(tmp_path))
    context = StorageContext.from_defaults(persist_dir=str(tmp_path))
    other: Any = load_index_from_storage(context, embed_model=OnnxEmbedding(model=tiny, dim=8))
    other.as_retriever().retrieve("a cat")


def with_another_spec(tiny: str, tmp_path: Path) -> None:
    for dim in (None, 8):
        OnnxEmbedding(model=tiny, dim=dim).engine.spec.check_file(tmp_path / "spec.json")


def batches(tiny: str, texts: Any) -> None:
    OnnxEmbedding(model=tiny).get_text_embedding_batch(texts)


# What the page says of each of these errors has a heading with a part of the message.
EXPLAINED: list[Callable[[str, Path], Any]] = [
    without_an_embed_model,
    lambda _, __: OnnxEmbedding(max_length=5),  # type: ignore[call-arg]
    lambda _, __: setattr(OnnxEmbedding(), "dim", 8),
    lambda _, __: OnnxEmbedding(embeddings_cache=SimpleKVStore()),
    lambda _, __: OnnxEmbedding(embed_batch_size=4096),
    lambda tiny, _: batches(tiny, "a cat"),
    lambda tiny, _: batches(tiny, [TextNode(text="a cat")]),
    lambda tiny, _: batches(tiny, [*["a cat"] * 1024, None]),
    lambda _, path: OnnxEmbedding(model=str(path / "nowhere")).get_query_embedding("a"),
    lambda _, __: OnnxEmbedding(model="org/name").get_query_embedding("a"),
    with_another_size,
    with_another_spec,
    lambda _, __: load_embed_model(OnnxEmbedding().to_dict()),
]


def test_every_error_that_the_page_explains_is_raised_so(
    tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Settings, "_embed_model", None)
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")  # nobody listens there
    for name in ("IS_TESTING", "HF_HUB_OFFLINE", "ONNX_EMBEDDINGS_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    headings = re.findall(r"^### `+ ?(.*?) ?`+$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)

    assert len(headings) == len(EXPLAINED)
    for heading, raise_it in zip(headings, EXPLAINED, strict=True):
        with pytest.raises(Exception) as raised:  # noqa: PT011  a type each
            raise_it(tiny, tmp_path)
        said = [str(raised.value), *getattr(raised.value, "__notes__", [])]
        assert heading in "\n".join(said)
