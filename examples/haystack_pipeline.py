"""Ask a folder of notes a question, on your own machine, with Haystack.

pip install onnx-embeddings-haystack
python examples/haystack_pipeline.py
python examples/haystack_pipeline.py "Where is the spare key?"

One pipeline embeds the notes and writes them into a store, another one embeds a question and finds
the notes that are nearest to it. Both embedders share one loaded model.
"""

from __future__ import annotations

import sys

from haystack import Document, Pipeline
from haystack.components.retrievers.in_memory import InMemoryEmbeddingRetriever
from haystack.components.writers import DocumentWriter
from haystack.document_stores.in_memory import InMemoryDocumentStore

from haystack_integrations.components.embedders.onnx_embeddings import (
    OnnxDocumentEmbedder,
    OnnxTextEmbedder,
)

NOTES = {
    "Garden": [
        "Water the lemon tree twice a week in summer and once a month in winter.",
        "The hedge is cut in late June, when the young birds have left it.",
        "Tomatoes go out after the last frost, in the middle of May.",
    ],
    "House": [
        "Mrs. Keller services the boiler in October; she needs the cellar key.",
        "The main tap for the water is behind the washing machine.",
        "A spare key to the front door lies under the third flower pot.",
    ],
    "Computer": [
        "Hold the button of the router for ten seconds to restart it.",
        "Photographs are copied to the second disk every Sunday night.",
    ],
}
QUESTIONS = (
    "Who repairs the heating?",
    "The internet is down, what can I do?",
    "Where can I shut off the water?",
)


def main() -> None:
    """Fill a store, then answer."""
    store = InMemoryDocumentStore()

    indexing = Pipeline()
    embedder = OnnxDocumentEmbedder(meta_fields_to_embed=["about"], progress_bar=False)
    indexing.add_component("embedder", embedder)
    indexing.add_component("writer", DocumentWriter(store))
    indexing.connect("embedder.documents", "writer.documents")

    query = Pipeline()
    query.add_component("embedder", OnnxTextEmbedder())
    query.add_component("retriever", InMemoryEmbeddingRetriever(store, top_k=2))
    query.connect("embedder.embedding", "retriever.query_embedding")

    notes = [
        Document(content=note, meta={"about": about}) for about in NOTES for note in NOTES[about]
    ]
    written = indexing.run({"embedder": {"documents": notes}})["writer"]["documents_written"]
    spec = embedder.engine.spec
    print(f"{written} notes, as vectors of {spec.dim} numbers by {spec.model}")

    for question in sys.argv[1:] or QUESTIONS:
        found = query.run({"embedder": {"text": question}})
        print(f"\n{question}")
        for note in found["retriever"]["documents"]:
            print(f"  {note.score:.2f}  {note.meta['about']}: {note.content}")


if __name__ == "__main__":
    main()
