"""The demo: what it reads, when it indexes anew, and that it finds the right passage."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.vectorstores import InMemoryVectorStore

from langchain_onnx_embeddings import OnnxEmbeddings

if TYPE_CHECKING:
    from onnx_embeddings import Engine

EXAMPLES = Path(__file__).parent.parent / "examples"

JSON = '''"""JavaScript Object Notation, a format for exchanging data."""

def dumps(obj):
    """Serialize an object to a text in the JSON format.

    A second paragraph.
    """

def _private(obj):
    """Nobody outside of this module should ever call this."""

def short(obj):
    """Too short."""

class JSONEncoder:
    """Extensible JSON encoder for Python data structures."""

    async def encode(self, o):
        """Return a JSON text of a Python data structure."""
        def inner():
            """A function in a function can't be called by anybody."""

    class Nested:
        """A class in a class does have a qualified name."""

class _Hidden:
    def method(self):
        """What is in a private class is private as well."""
'''


@pytest.fixture
def passages(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    return import_module("passages")


@pytest.fixture
def rag(passages: Any) -> Any:
    assert passages
    return import_module("offline_rag")


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    (folder / "house").mkdir(parents=True)
    (folder / "bread.md").write_text("# Bread\n\nKnead the dough for ten minutes.\n")
    (folder / "house" / "heating.txt").write_text("Mrs. Keller services the boiler in October.\n")
    (folder / "trip.html").write_text("<p>We took the <b>night train</b> from Vienna to Rome.</p>")
    return folder


def read(corpus: Any) -> dict[tuple[str, str], str]:
    return {
        (it.metadata["name"], it.metadata["source"]): it.page_content for it in corpus.passages()
    }


# Reading


def test_docstrings_have_their_qualified_name_file_and_line(passages: Any, tmp_path: Path) -> None:
    (tmp_path / "json").mkdir()
    (tmp_path / "json" / "__init__.py").write_text(JSON)
    (tmp_path / "json" / "tool.py").write_text(JSON.splitlines()[0])

    assert read(passages.standard_library(tmp_path)) == {
        ("json", "json/__init__.py:1"): (
            "json\nJavaScript Object Notation, a format for exchanging data."
        ),
        ("json.dumps", "json/__init__.py:4"): (
            "json.dumps\nSerialize an object to a text in the JSON format.\n\nA second paragraph."
        ),
        ("json.JSONEncoder", "json/__init__.py:16"): (
            "json.JSONEncoder\nExtensible JSON encoder for Python data structures."
        ),
        ("json.JSONEncoder.encode", "json/__init__.py:19"): (
            "json.JSONEncoder.encode\nReturn a JSON text of a Python data structure."
        ),
        ("json.JSONEncoder.Nested", "json/__init__.py:24"): (
            "json.JSONEncoder.Nested\nA class in a class does have a qualified name."
        ),
        ("json.tool", "json/tool.py:1"): (
            "json.tool\nJavaScript Object Notation, a format for exchanging data."
        ),
    }


def test_tests_installed_packages_and_broken_sources_are_no_documentation(
    passages: Any, tmp_path: Path
) -> None:
    for folder in ("test", "site-packages", "sqlite3/tests", "idlelib/idle_test", "__pycache__"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "module.py").write_text(JSON)
    (tmp_path / "broken.py").write_text('"""A text that would be long enough to be kept."""\n(')
    (tmp_path / "latin.py").write_bytes(
        b'# -*- coding: latin-1 -*-\n"""A caf\xe9 in another encoding, with a \\d escape."""\n'
    )

    assert read(passages.standard_library(tmp_path)) == {
        ("latin", "latin.py:2"): "latin\nA café in another encoding, with a \\d escape."
    }


def test_the_standard_library_of_this_python_has_thousands_of_passages(passages: Any) -> None:
    found = passages.standard_library().passages()

    assert len(found) > 3000
    assert "json.dumps" in {passage.metadata["name"] for passage in found}
    assert max(len(passage.page_content) for passage in found) < 1000


def test_a_folder_gives_text_markdown_and_visible_html(passages: Any, notes: Path) -> None:
    (notes / "trip.html").write_text(
        "<html><head><title>Trip</title><style>p {color: red}</style></head><body><p>We took the"
        "\n  <b>night</b> train&nbsp;&mdash; to Rome.<p>Second.<script>if (a < b) run()</script>"
    )
    (notes / "picture.png").write_bytes(b"\x89PNG")
    (notes / ".hidden").mkdir()
    (notes / ".hidden" / "secret.txt").write_text("secret")

    assert read(passages.folder(notes)) == {
        ("bread", "bread.md:1"): "bread\n# Bread\n\nKnead the dough for ten minutes.",
        ("house/heating", "house/heating.txt:1"): (
            "house/heating\nMrs. Keller services the boiler in October."
        ),
        ("trip", "trip.html"): "trip\nTrip\nWe took the night train — to Rome.\nSecond.",
    }


def test_a_long_text_is_cut_into_passages_that_know_their_line(
    passages: Any, tmp_path: Path
) -> None:
    lines = [f"Line {number} of a text that goes on and on." for number in range(1, 101)]
    (tmp_path / "long.txt").write_text("\n".join(lines))

    found = passages.folder(tmp_path).passages()

    assert len(found) > 5
    for passage in found:
        name, first, *_ = passage.page_content.split("\n")
        number = passage.metadata["source"].removeprefix("long.txt:")
        assert (name, first) == ("long", lines[int(number) - 1])


def test_nothing_to_read_is_an_error_that_says_so(passages: Any, tmp_path: Path) -> None:
    with pytest.raises(passages.CorpusError, match="no folder"):
        passages.folder(tmp_path / "nowhere")
    with pytest.raises(passages.CorpusError, match="no text, Markdown"):
        passages.folder(tmp_path)
    with pytest.raises(passages.CorpusError, match="--folder"):
        passages.standard_library(tmp_path)
    (tmp_path / "empty.txt").touch()
    with pytest.raises(passages.CorpusError, match="no text found"):
        passages.folder(tmp_path).passages()


def test_pdf_files_are_read_or_named(passages: Any, notes: Path) -> None:
    (notes / "letter.pdf").write_bytes(b"%PDF-1.4 and nothing more")

    corpus = passages.folder(notes)

    if passages.find_spec("pypdf"):
        assert len(corpus.files) == 4
    else:
        assert len(corpus.files) == 3
        assert "pip install pypdf" in corpus.notes[0]


# Keeping


@pytest.fixture
def embeddings(tiny_folder: Path) -> OnnxEmbeddings:
    return OnnxEmbeddings(model=str(tiny_folder))


def opened(rag: Any, corpus: Any, embeddings: OnnxEmbeddings, folder: Path) -> tuple[Path, Any]:
    file = folder / rag.index_name(corpus, embeddings.engine)
    store, _ = rag.open_index(file, corpus, embeddings)
    return file, store


def test_a_second_run_takes_the_index_and_embeds_nothing(
    rag: Any, passages: Any, notes: Path, embeddings: OnnxEmbeddings, tmp_path: Path
) -> None:
    file, built = opened(rag, passages.folder(notes), embeddings, tmp_path / "index")
    texts = embeddings.engine.stats().texts

    again, loaded = opened(rag, passages.folder(notes), embeddings, tmp_path / "index")

    assert again == file
    assert texts == 3
    assert embeddings.engine.stats().texts == texts
    assert loaded.store == built.store


def test_the_index_is_made_anew_when_a_text_the_cut_or_the_model_changed(  # noqa: PLR0913, PLR0917
    rag: Any,
    passages: Any,
    notes: Path,
    embeddings: OnnxEmbeddings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    index = tmp_path / "index"
    opened(rag, passages.folder(notes), embeddings, index)
    assert "made anew" not in capsys.readouterr().out

    (notes / "new.txt").write_text("A new text.")
    _, store = opened(rag, passages.folder(notes), embeddings, index)
    assert len(store.store) == 4
    assert "made anew: the texts changed" in capsys.readouterr().out

    monkeypatch.setattr(passages, "PASSAGE", 20)
    monkeypatch.setattr(passages, "OVERLAP", 0)
    _, store = opened(rag, passages.folder(notes), embeddings, index)
    assert len(store.store) > 4
    assert "made anew: the cut changed" in capsys.readouterr().out

    smaller = embeddings.model_copy(update={"dim": 8})
    file, store = opened(rag, passages.folder(notes), smaller, index)
    assert {len(row["vector"]) for row in store.store.values()} == {8}
    assert "made anew: the model changed" in capsys.readouterr().out
    assert list(index.iterdir()) == [file]


def test_indexes_of_two_folders_do_not_replace_each_other(
    rag: Any, passages: Any, notes: Path, embeddings: OnnxEmbeddings, tmp_path: Path
) -> None:
    index = tmp_path / "index"
    one, _ = opened(rag, passages.folder(notes), embeddings, index)
    two, _ = opened(rag, passages.folder(notes / "house"), embeddings, index)

    assert sorted(index.iterdir()) == sorted([one, two])


def test_an_index_that_can_not_be_written_whole_leaves_nothing(
    rag: Any, embeddings: OnnxEmbeddings, tmp_path: Path
) -> None:
    store = InMemoryVectorStore.from_texts(["a cat"], embeddings, [{"source": object()}])

    with pytest.raises(TypeError, match="JSON"):
        rag.save(tmp_path / "index" / "one.npz", store)
    assert list((tmp_path / "index").iterdir()) == []


# The script


def run(*arguments: str, home: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / "offline_rag.py"), *arguments],
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=300,
        check=False,
        env=os.environ
        | {"COLUMNS": "80", "ONNX_EMBEDDINGS_HOME": str(home), "PYTHONIOENCODING": "utf-8"},
    )


def test_a_bad_folder_is_one_line_and_no_traceback(tmp_path: Path) -> None:
    done = run("--folder", str(tmp_path / "nowhere"), home=tmp_path / "home")

    assert done.returncode == 1
    assert done.stderr == f"error: there is no folder {tmp_path / 'nowhere'}\n"


@pytest.mark.weights
def test_the_demo_finds_the_right_passage_and_keeps_its_index(
    minilm: Engine, models_home: Path, notes: Path, tmp_path: Path
) -> None:
    assert minilm.path.is_dir()
    question = "Who repairs our central heating?"
    arguments = ["--folder", str(notes), "--index", str(tmp_path / "index"), "--ask", question]

    first = run(*arguments, home=models_home)
    second = run(*arguments, home=models_home)

    for done in (first, second):
        assert done.returncode == 0, done.stderr
        assert "Warning" not in done.stderr
        lines = [line for line in done.stdout.splitlines() if line]
        best, text = lines[lines.index(question) + 1 :][:2]
        assert best.split()[1:] == ["house/heating", "house/heating.txt:1"]
        assert text.strip() == "Mrs. Keller services the boiler in October."
        assert len(best) < 80
    assert "texts  3 passages, " in first.stdout
    assert "embedded in" in first.stdout
    assert "embedded before" in second.stdout
