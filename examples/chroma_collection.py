"""A Chroma collection on disk: filled once, opened again, and kept to one model.

python examples/chroma_collection.py                 run it twice: the second time nothing is added
python examples/chroma_collection.py --ask "…"       your question
python examples/chroma_collection.py --folder PATH   where the database is, .demo/chroma if not said
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

try:
    import chromadb
    from chromadb.config import Settings

    from chroma_onnx_embeddings import OnnxEmbeddingFunction, open_collection
    from onnx_embeddings import DEFAULT_MODEL, OnnxEmbeddingsError
    from onnx_embeddings.errors import SpecMismatchError
except ModuleNotFoundError as error:
    sys.exit(f"{error}: pip install . ./integrations/chroma")

if TYPE_CHECKING:
    from chromadb.api import ClientAPI

NOTES = {
    "boiler": "Mrs. Keller looks after the heating; she comes every October and charges 90 euros.",
    "bread": "Knead the dough for ten minutes and leave it in the fridge until the next morning.",
    "train": "The sleeper from Vienna arrives in Rome at nine; book the compartment in spring.",
    "cat": "Two spoons of wet food at seven and at six, and the blue pill only with butter.",
    "printer": "If it says that paper is missing, open the back and press the grey lever down.",
    "lease": "We may end the contract with three months' notice, in writing, to the end of March.",
    "garden": "Cut the roses back when the forsythia flowers, the apple tree in late winter.",
    "router": "The password for guests is on the fridge; it changes every first of May.",
}
QUESTION = "Who can repair the radiators?"


def main() -> None:
    """Fill the collection unless that is done, ask, and try another model."""
    parser = argparse.ArgumentParser(description="A Chroma collection, filled once.")
    parser.add_argument("--ask", default=QUESTION, metavar="QUESTION")
    parser.add_argument("--folder", type=Path, default=Path(".demo/chroma"))
    parser.add_argument("--model", default=DEFAULT_MODEL, help="a name, or a folder such as ./m")
    options = parser.parse_args()

    options.folder.mkdir(parents=True, exist_ok=True)
    settings = Settings(anonymized_telemetry=False)  # what older versions of Chroma send
    client = chromadb.PersistentClient(path=options.folder, settings=settings)
    ef = OnnxEmbeddingFunction(options.model)
    fill(client, ef)

    # As another program would: Chroma makes the function from what it keeps.
    notes = client.get_collection("notes")
    answer(notes.query(query_texts=[options.ask], n_results=3), options.ask)

    spec, stats = ef.engine.spec, ef.engine.stats()
    print(f"\nmodel  {spec.model}, {spec.dim} numbers")
    print(f"work   {stats.texts} texts embedded, by one engine in all of Chroma's functions")
    refuse(client, OnnxEmbeddingFunction(options.model, document_prompt="note: "))


def fill(client: ClientAPI, ef: OnnxEmbeddingFunction) -> None:
    """Add the notes that are not there yet."""
    notes = open_collection(client, "notes", ef)
    there = notes.get(include=[])["ids"]
    missing = [name for name in NOTES if name not in there]
    if missing:
        notes.add(ids=missing, documents=[NOTES[name] for name in missing])
    print(f"{notes.count()} notes, {len(missing)} of them added now")


def answer(found: Any, question: str) -> None:
    """Show what is nearest."""
    print(f"\n{question}")
    (ids,), (documents,), (distances,) = found["ids"], found["documents"], found["distances"]
    for name, document, distance in zip(ids, documents, distances, strict=True):
        print(f"  {1 - distance:.2f}  {name:8} {document}")


def refuse(client: ClientAPI, other: OnnxEmbeddingFunction) -> None:
    """Show that a function whose vectors would not fit is not let in."""
    try:
        open_collection(client, "notes", other)
    except SpecMismatchError as error:
        print(f"\nA function with another prompt was refused:\n{error}")


if __name__ == "__main__":
    try:
        main()
    except (OnnxEmbeddingsError, OSError) as error:
        sys.exit(f"error: {error}")
