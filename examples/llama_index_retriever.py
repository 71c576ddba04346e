"""Ask a few notes a question, on your own machine, with LlamaIndex.

python examples/llama_index_retriever.py              the questions below
python examples/llama_index_retriever.py "…" "…"      your questions
"""

from __future__ import annotations

import sys

try:
    from llama_index.core import Document, VectorStoreIndex

    from llama_index.embeddings.onnx import OnnxEmbedding
except ModuleNotFoundError as error:
    sys.exit(f"{error}: pip install . ./integrations/llama-index")

NOTES = {
    "boiler": "Mrs. Keller services the boiler in October; her number is on the cellar door.",
    "water": "The main valve for the water is behind the washing machine.",
    "fuses": "When the oven and the dryer run together, the third fuse goes.",
    "bins": "Paper is collected every second Tuesday, glass goes to the container by the church.",
    "bread": "Knead the dough for ten minutes, then let it rest overnight in the cold.",
    "guests": "The sofa in the study folds out, and blankets are in the chest under the window.",
    "garden": "Water the tomatoes in the evening and never on their leaves.",
    "trip": "We took the night train from Vienna to Rome and had breakfast past Florence.",
}
QUESTIONS = (
    "Who repairs the heating?",
    "Where can a friend sleep?",
    "Why is there no electricity in the kitchen?",
)


def main(questions: tuple[str, ...]) -> None:
    """Index the notes, then show the two nearest to each question."""
    embed_model = OnnxEmbedding()
    documents = [
        Document(
            text=text,
            metadata={"note": name},
            excluded_embed_metadata_keys=["note"],  # names are for people, not for vectors
        )
        for name, text in NOTES.items()
    ]
    index = VectorStoreIndex.from_documents(documents, embed_model=embed_model)
    retriever = index.as_retriever(similarity_top_k=2)

    for question in questions:
        print(f"\n{question}")
        for found in retriever.retrieve(question):
            print(f"  {found.score:.2f}  {found.metadata['note']:7} {found.text}")

    spec, stats = embed_model.engine.spec, embed_model.engine.stats()
    print(f"\n{spec.model}, {spec.dim} numbers to a vector")
    print(f"{stats.texts} texts, {stats.cached_texts} of them known from an earlier run")


if __name__ == "__main__":
    main(tuple(sys.argv[1:]) or QUESTIONS)
