"""Where the demo's passages come from: Python's own standard library, or a folder of yours.

Reading is all this does: no module is imported, nothing leaves the machine.
"""

from __future__ import annotations

import ast
import hashlib
import os
import re
import sys
import sysconfig
import warnings
from dataclasses import dataclass
from html.parser import HTMLParser
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from langchain_core.documents import Document

PASSAGE = 800  # characters at most: the default model reads 256 tokens of a text
OVERLAP = 80  # characters that neighbours share
SHORTEST = 40  # characters of a docstring: "Return self." answers no question

_NO_DOCS = {"__pycache__", "dist-packages", "idlelib", "lib2to3", "pydoc_data", "site-packages"}
_NO_DOCS |= {"idle_test", "test", "tests", "turtledemo"}
_TEXTS = {".txt", ".md", ".markdown", ".rst", ".html", ".htm", ".pdf"}


class CorpusError(Exception):
    """There is nothing to read; the message says what to do."""


class Piece(NamedTuple):
    """A text of its own: a docstring, a file, a page.

    Attributes:
        name: what it is called.
        where: its file, from the root.
        line: of its first line in that file; 0 where lines say nothing.
        text: what it says.
    """

    name: str
    where: str
    line: int
    text: str


@dataclass(frozen=True)
class Corpus:
    """Files, and how to read them.

    Attributes:
        title: what it is, for people.
        label: what it is, for the name of a file.
        root: the folder that sources are told relative to.
        files: what to read, in order.
        read: one file to its pieces.
        notes: what is left out, and why.
    """

    title: str
    label: str
    root: Path
    files: list[Path]
    read: Callable[[Path, str], Iterator[Piece]]
    notes: tuple[str, ...] = ()

    def state(self) -> str:
        """A digest that changes when a file is added, removed or written, without reading any."""
        digest = hashlib.sha256()
        for file in self.files:
            stat = file.stat()
            digest.update(f"{file} {stat.st_size} {stat.st_mtime_ns}\n".encode())
        return digest.hexdigest()

    def passages(self) -> list[Document]:
        """Passages of a size that the model reads whole, with ``name`` and ``source``."""
        from langchain_core.documents import Document
        from langchain_text_splitters import RecursiveCharacterTextSplitter

        splitter = RecursiveCharacterTextSplitter(
            chunk_size=PASSAGE, chunk_overlap=OVERLAP, add_start_index=True
        )
        passages = []
        for file in self.files:
            for piece in self.read(file, file.relative_to(self.root).as_posix()):
                for chunk in splitter.create_documents([piece.text]):
                    lines_before = piece.text.count("\n", 0, chunk.metadata["start_index"])
                    line = f":{piece.line + lines_before}" if piece.line else ""
                    # The name says what a passage is about, so it is embedded with it.
                    text = f"{piece.name}\n{chunk.page_content}"
                    source = {"name": piece.name, "source": f"{piece.where}{line}"}
                    passages.append(Document(text, metadata=source))
        if not passages:
            raise CorpusError(f"no text found in {self.root}")
        return passages


def standard_library(root: Path | None = None) -> Corpus:
    """The docstrings of the Python that runs this."""
    root = root or Path(sysconfig.get_path("stdlib"))
    files = _files(root, {".py"}, without=_NO_DOCS)
    if not files:
        raise CorpusError(f"this Python has no sources in {root}; take a folder with --folder")
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    title = f"the docstrings of Python {version}'s standard library"
    return Corpus(title, f"python{version.replace('.', '')}", root, files, _docstrings)


def folder(root: Path) -> Corpus:
    """The texts, Markdown, HTML and PDF files of a folder."""
    root = root.expanduser().absolute()
    if not root.is_dir():
        raise CorpusError(f"there is no folder {root}")
    files = _files(root, _TEXTS)
    notes = []
    if any(file.suffix.lower() == ".pdf" for file in files) and not find_spec("pypdf"):
        notes.append("PDF files are left out; to read them: pip install pypdf")
        files = [file for file in files if file.suffix.lower() != ".pdf"]
    if not files:
        kinds = "no text, Markdown, HTML or PDF files"
        raise CorpusError("; ".join([f"there are {kinds} to read in {root}", *notes]))
    label = f"{root.name}-{hashlib.sha256(str(root).encode()).hexdigest()[:8]}"
    return Corpus(f"the files of {root}", label, root, files, _texts, tuple(notes))


def _files(root: Path, suffixes: set[str], *, without: set[str] | None = None) -> list[Path]:
    found = []
    for path, folders, names in os.walk(root):
        folders[:] = sorted(set(folders) - (without or set()))
        folders[:] = [name for name in folders if not name.startswith(".")]
        found += [Path(path, name) for name in sorted(names)]
    return [file for file in found if file.suffix.lower() in suffixes]


def _docstrings(file: Path, where: str) -> Iterator[Piece]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # invalid escapes in other people's sources
        try:
            tree = ast.parse(file.read_bytes())
        except (SyntaxError, ValueError):  # a source that is broken on purpose
            return
    module = where.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    for name, node in _definitions(tree, module):
        text = ast.get_docstring(node)
        if text and len(text) >= SHORTEST:
            yield Piece(name, where, node.body[0].lineno, text)


_Definition = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def _definitions(node: _Definition, name: str) -> Iterator[tuple[str, _Definition]]:
    """Public ones, with qualified names such as ``json.dumps``."""
    if name.rpartition(".")[2].startswith("_"):
        return
    yield name, node
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        for child in node.body:
            if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                yield from _definitions(child, f"{name}.{child.name}")


def _texts(file: Path, where: str) -> Iterator[Piece]:
    name = where.rpartition(".")[0]
    if file.suffix.lower() == ".pdf":
        try:
            pages = [page.extract_text() for page in import_module("pypdf").PdfReader(file).pages]
        except Exception as error:  # noqa: BLE001  damaged files make it raise anything
            print(f"{where} is left out: {error}", file=sys.stderr)
            pages = []
        for number, text in enumerate(pages, start=1):
            yield Piece(name, f"{where}, page {number}", 0, text)
        return
    text = file.read_text(encoding="utf-8", errors="replace")
    if file.suffix.lower().startswith(".htm"):
        yield Piece(name, where, 0, _visible(text))
    else:
        yield Piece(name, where, 1, text)


class _Visible(HTMLParser):
    hidden = frozenset({"noscript", "script", "style", "template"})
    inline = frozenset({"a", "abbr", "b", "code", "em", "i", "kbd", "span", "strong", "sub", "sup"})

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []
        self.depth = 0

    def handle_starttag(self, tag: str, attrs: object) -> None:  # noqa: ARG002  its base says so
        self.depth += tag in self.hidden
        self.parts.append("" if tag in self.inline else "\n")

    def handle_endtag(self, tag: str) -> None:
        self.depth -= tag in self.hidden and self.depth > 0
        self.parts.append("" if tag in self.inline else "\n")

    def handle_data(self, data: str) -> None:
        if not self.depth:
            self.parts.append(re.sub(r"\s+", " ", data))


def _visible(html: str) -> str:
    """The text of a page as a reader sees it, one block a line."""
    parser = _Visible()
    parser.feed(html)
    parser.close()
    lines = "".join(parser.parts).splitlines()
    return "\n".join(line.strip() for line in lines if line.strip())
