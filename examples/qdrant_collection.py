"""Notes in a Qdrant collection, searched by meaning and filtered by payload; needs no server.

pip install qdrant-onnx-embeddings
python qdrant_collection.py                    # in memory
python qdrant_collection.py --path ./qdrant    # on disk: the second run finds its notes there
"""

from __future__ import annotations

import argparse

from qdrant_client import QdrantClient, models

from onnx_embeddings.errors import SpecMismatchError
from qdrant_onnx_embeddings import OnnxEmbedder, open_collection, upload_texts

NOTES = [
    ("The boiler is serviced by Mrs. Keller every October.", "house", 2021),
    ("The stopcock for the water is behind the washing machine.", "house", 2019),
    ("The attic window sticks; push the lower corner first.", "house", 2024),
    ("Knead the dough for ten minutes, then let it rest in the cold overnight.", "kitchen", 2022),
    ("Grandfather's plum cake needs a pinch of cardamom.", "kitchen", 2018),
    ("The pressure cooker whistles twice before the lentils are done.", "kitchen", 2024),
    ("We took the night train from Vienna to Rome and shared a compartment.", "travel", 2022),
    ("In Lisbon the number 28 tram is empty before eight in the morning.", "travel", 2024),
    ("The hut below the glacier only takes cash.", "travel", 2020),
]

QUESTIONS = [
    ("Who repairs the heating?", None),
    ("How do I bake bread?", "kitchen"),
    ("Can I pay by card in the mountains?", "travel"),
]


def main() -> None:
    """Fill the collection, ask it, and try the wrong model on it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--path", help="a folder that keeps the collection; memory if not said")
    parser.add_argument("--model", help="another model: a name such as org/name, or a folder")
    arguments = parser.parse_args()
    client = QdrantClient(path=arguments.path) if arguments.path else QdrantClient(":memory:")
    embedder = OnnxEmbedder(arguments.model) if arguments.model else OnnxEmbedder()

    open_collection(client, "notes", embedder)
    written = upload_texts(
        client,
        "notes",
        embedder,
        [text for text, _, _ in NOTES],
        payloads=[{"about": about, "year": year} for _, about, year in NOTES],
        skip_existing=True,
    )
    print(f"{written} notes written, {client.count('notes').count} in the collection")

    for question, about in QUESTIONS:
        print(f"\n{question}" + (f"  (about: {about})" if about else ""))
        found = client.query_points(
            "notes",
            query=embedder.query_vector(question),
            query_filter=only(about),
            limit=2,
        )
        for point in found.points:
            payload = point.payload or {}
            print(
                f"  {point.score:.2f}  {payload['text']}  [{payload['about']}, {payload['year']}]"
            )

    print("\nWith fewer dimensions it would be another vector space:")
    try:
        open_collection(client, "notes", OnnxEmbedder(embedder.request.model, dim=128))
    except SpecMismatchError as error:
        print(f"  refused: {str(error).splitlines()[1].strip(' -')}")
    client.close()


def only(about: str | None) -> models.Filter | None:
    """A filter on the payload, or none."""
    if about is None:
        return None
    match = models.MatchValue(value=about)
    return models.Filter(must=[models.FieldCondition(key="about", match=match)])


if __name__ == "__main__":
    main()
