"""Ask your texts a question, on your own machine: the finding half of RAG, with LangChain.

python examples/offline_rag.py                       Python's own documentation
python examples/offline_rag.py --ask "…" --ask "…"   your questions
python examples/offline_rag.py --interactive         one question after the other
python examples/offline_rag.py --folder ~/notes      your texts, Markdown, HTML and PDF files

The passages that come out are what you would put into the prompt of a language model.
"""

from __future__ import annotations

import argparse
import io
import json
import logging
import os
import shutil
import sys
import textwrap
import time
import zipfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

try:
    import numpy as np
    import passages
    from langchain_core.vectorstores import InMemoryVectorStore
    from pydantic import ValidationError

    from langchain_onnx_embeddings import OnnxEmbeddings
    from onnx_embeddings import DEFAULT_MODEL, OnnxEmbeddingsError
except ModuleNotFoundError as error:
    sys.exit(f"{error}: run `make demo`, or install as examples/README.md says")

if TYPE_CHECKING:
    from onnx_embeddings import Engine

QUESTIONS = (
    "How do I run a shell command and get its output?",
    "make a temporary folder that is deleted by itself",
    "make a secret token for a password reset link",
)
BEST = 3
WIDTH = min(shutil.get_terminal_size().columns, 100) - 1
COLOURS = sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def main() -> None:
    """Index the texts unless that is done, answer, and say what it took."""
    options = arguments()
    corpus = passages.folder(options.folder) if options.folder else passages.standard_library()
    say(bold(f"Answers from {corpus.title}"))
    for note in corpus.notes:
        say(dim(note))

    embeddings = OnnxEmbeddings(model=options.model, show_progress=True)
    engine = embeddings.engine
    file = options.index / index_name(corpus, engine)
    store, made = open_index(file, corpus, embeddings)

    for question in options.ask or ([] if options.interactive else QUESTIONS):
        say(f"\n{bold(question)}")
        answer(question, store)
    while options.interactive and (question := asked()):
        answer(question, store)

    now = f"embedded before; the questions had {engine.stats().tokens} tokens"
    say(f"\n{dim('texts')}  {len(store.store):,} passages, {made or now}")
    say(f"{dim('model')}  {engine.spec.model}")
    say(f"       {home(engine.path)}")
    say(f"{dim('index')}  {home(file)}")


def open_index(
    file: Path, corpus: passages.Corpus, embeddings: OnnxEmbeddings
) -> tuple[InMemoryVectorStore, str]:
    """The vectors of all passages, from the file or made now, and then how."""
    if file.exists():
        try:
            return load(file, embeddings), ""
        except (ValueError, KeyError, zipfile.BadZipFile):
            say(dim("The index is damaged and is made anew"))

    older = [one for one in file.parent.glob(f"{corpus.label}.*.npz") if one != file]
    if older:
        pairs = zip(older[0].name.split("."), file.name.split("."), strict=True)
        changed = " and the ".join(new.partition("-")[0] for old, new in pairs if old != new)
        say(dim(f"The index is made anew: the {changed} changed"))
    documents = corpus.passages()
    say(dim(f"{len(documents):,} passages from {len(corpus.files):,} files"))

    start = time.perf_counter()
    store = InMemoryVectorStore.from_documents(documents, embeddings)
    seconds = time.perf_counter() - start
    save(file, store)
    for one in older:
        one.unlink(missing_ok=True)
    tokens = embeddings.engine.stats().tokens
    rate = len(documents) / seconds
    return store, f"{tokens:,} tokens, embedded in {seconds:.1f} s: {rate:,.0f} texts/s"


def index_name(corpus: passages.Corpus, engine: Engine) -> str:
    """A name that changes with anything that an index depends on."""
    made_from = {
        "texts": corpus.state()[:8],
        "cut": f"{passages.PASSAGE}-{passages.OVERLAP}",
        "model": engine.spec.fingerprint[:8],
    }
    return ".".join([corpus.label, *(f"{what}-{it}" for what, it in made_from.items()), "npz"])


def load(file: Path, embeddings: OnnxEmbeddings) -> InMemoryVectorStore:
    """The vector store as it was saved."""
    with np.load(file) as saved:
        rows, vectors = json.loads(saved["rows"].tobytes()), saved["vectors"].tolist()
    store = InMemoryVectorStore(embeddings)
    store.store = {
        row["id"]: row | {"vector": vector} for row, vector in zip(rows, vectors, strict=True)
    }
    return store


def save(file: Path, store: InMemoryVectorStore) -> None:
    """Keep a vector store; LangChain's own `dump` makes six times as much, slow to read, JSON."""
    rows = [dict(row) for row in store.store.values()]
    vectors = np.array([row.pop("vector") for row in rows], np.float32)
    file.parent.mkdir(parents=True, exist_ok=True)
    beside = file.with_name(f"{file.name}.{os.getpid()}.part")
    try:
        with beside.open("wb") as out:
            np.savez(out, vectors=vectors, rows=np.frombuffer(json.dumps(rows).encode(), np.uint8))
        beside.replace(file)  # whoever looks sees a whole index or none
    finally:
        beside.unlink(missing_ok=True)


def answer(question: str, store: InMemoryVectorStore) -> None:
    """Show the passages nearest to a question."""
    for document, score in store.similarity_search_with_score(question, k=BEST):
        name, source = document.metadata["name"], document.metadata["source"]
        text = " ".join(document.page_content.removeprefix(name).split())
        gap = WIDTH - len(f"  {score:.2f}  {name}{source}")
        between = " " * gap if gap > 1 else "\n        "
        say(f"\n  {green(f'{score:.2f}')}  {bold(name)}{between}{dim(source)}")
        for line in textwrap.wrap(text, WIDTH - 8, max_lines=3, placeholder=" …"):
            say(f"        {line}")


def asked() -> str:
    """A question from the keyboard; empty when there are no more."""
    try:
        return input("\nYour question (Enter to end): ").strip()
    except (EOFError, KeyboardInterrupt):
        return ""


def arguments() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ask", action="append", metavar="QUESTION", help="may be repeated")
    parser.add_argument("--interactive", action="store_true", help="ask for questions")
    parser.add_argument("--folder", type=Path, help="texts of your own")
    parser.add_argument("--index", type=Path, default=Path(".demo"), help="where vectors are kept")
    parser.add_argument("--model", default=DEFAULT_MODEL, help="a name, or a folder such as ./m")
    return parser.parse_args()


def home(path: Path) -> str:
    """A path as short as people write it."""
    inside = path.is_relative_to(Path.home())
    return f"~/{path.relative_to(Path.home())}" if inside else str(path)


def say(line: str) -> None:
    """Print a line at once, so that it comes before the bar."""
    print(line, flush=True)


def paint(code: int, text: str) -> str:
    """A text in bold, dim or green, where a terminal shows it."""
    return f"\x1b[{code}m{text}\x1b[0m" if COLOURS else text


bold, dim, green = (partial(paint, code) for code in (1, 2, 32))


class Messages(logging.Handler):
    """What the engine has to say, such as what it fetches from where."""

    def emit(self, record: logging.LogRecord) -> None:
        """Show a message, as wide as all the rest."""
        print(textwrap.fill(record.getMessage(), WIDTH, break_on_hyphens=False), file=sys.stderr)


if __name__ == "__main__":
    logging.getLogger("onnx_embeddings").addHandler(Messages())
    logging.getLogger("onnx_embeddings").setLevel(logging.INFO)
    logging.getLogger("pypdf").setLevel(logging.CRITICAL)  # what it can't read, we say
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal that lacks a character
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("\nStopped; nothing half-made was kept.")
    except BrokenPipeError:  # such as | head
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (passages.CorpusError, OnnxEmbeddingsError, OSError, ValidationError) as error:
        sys.exit(f"error: {error}")
