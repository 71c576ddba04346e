"""Quality, so that speed is never bought with it: STS-B (similarity) and Cranfield (retrieval).

    ONNX_EMBEDDINGS_DATA=FOLDER python -m benchmarks.quality [--quick]

The data are for evaluation only and not part of the repository: stsb/stsb-en-test.csv (and de, zh)
and cranfield/{cran.all.1400,cran.qry,cranqrel} under ``ONNX_EMBEDDINGS_DATA``. Whoever has the
vectors of our fp32 model has its quality, so only the others are measured.
"""

from __future__ import annotations

import csv
import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from benchmarks.contestants import FP32, QUALITY
from benchmarks.lab import Lab, alone, say
from benchmarks.prepare import texts_of

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    import numpy.typing as npt
    from benchmarks.contestants import Embedder

    Vectors = npt.NDArray[np.float32]
    Floats = npt.NDArray[np.float64]
    Embed = Callable[[list[str]], Vectors]

TOP = 10
ALONE = 200  # texts that are embedded alone and in a batch


def measure(lab: Lab) -> dict[str, Any]:
    """Scores by contestant, as `scores` gives them; "skipped" with a reason without the data."""
    path = lab.places.work / "alone.json"
    lab.write(path, texts_of(lab)["mixed"][:ALONE])
    found: dict[str, Any] = {}
    if not os.environ.get("ONNX_EMBEDDINGS_DATA"):
        found["skipped"] = "ONNX_EMBEDDINGS_DATA names no folder with stsb/ and cranfield/"
    for name in QUALITY:
        if name not in lab.skipped:
            say(f"quality: {name}")
            found[name] = lab.ask(
                "quality",
                contestant=name,
                texts=path,
                languages=",".join(lab.plan.languages),
                retrieval=int(lab.plan.retrieval),
            )
    for name, values in found.items():
        if name not in {FP32, "skipped"}:
            values["below_fp32"] = {
                score: found[FP32][score] - value
                for score, value in values.items()
                if score.startswith(("stsb", "cranfield"))
            }
    return found


def scores(embedder: Embedder, options: argparse.Namespace) -> dict[str, Any]:
    """In a process of its own: one contestant's scores.

    Returns:
        How many of how many texts have other bits alone than in a batch; where there are data,
        Spearman x100 for each language of STS-B, and nDCG@10 on Cranfield.
    """
    texts = json.loads(options.texts.read_text(encoding="utf-8"))
    together = embedder.embed(texts)
    unequal = sum(
        embedder.embed([text]).tobytes() != row.tobytes()
        for text, row in zip(texts, together, strict=True)
    )
    found: dict[str, Any] = {"alone": {"texts": len(texts), "other_bits_than_in_a_batch": unequal}}
    data = os.environ.get("ONNX_EMBEDDINGS_DATA")
    if data:
        for language in options.languages.split(","):
            path = Path(data) / "stsb" / f"stsb-{language}-test.csv"
            found[f"stsb_{language}"] = stsb(embedder.embed, path)
        if options.retrieval:
            folder = Path(data) / "cranfield"
            found["cranfield_ndcg_at_10"] = cranfield(embedder.embed, embedder.embed, folder)
    return found


def average_ranks(values: npt.ArrayLike) -> Floats:
    """The rank of each value, from 1; equal values share the mean of their ranks.

    Args:
        values: (N,) numbers.

    Returns:
        (N,) float64.
    """
    _, which, counts = np.unique(np.asarray(values), return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    ranks: Floats = (last - (counts - 1) / 2.0)[which]
    return ranks


def spearman(left: npt.ArrayLike, right: npt.ArrayLike) -> float:
    """Spearman's rank correlation: Pearson's correlation of the average ranks.

    Args:
        left: (N,) numbers.
        right: (N,) numbers.

    Returns:
        Between -1 and 1.
    """
    return float(np.corrcoef(average_ranks(left), average_ranks(right))[0, 1])


def stsb(embed: Embed, path: Path) -> float:
    """Spearman x100 between the cosine of two sentences and the score that people gave."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    left, right = (embed([row[column] for row in rows]) for column in (0, 1))
    cosines = (_unit(left) * _unit(right)).sum(axis=1)
    return 100.0 * spearman(cosines, [float(row[2]) for row in rows])


def cranfield(embed_documents: Embed, embed_queries: Embed, folder: Path) -> float:
    """nDCG@10 over the queries; a judgement above 0 counts as relevant, all alike."""
    documents = _records(folder / "cran.all.1400")
    queries = list(_records(folder / "cran.qry").values())
    relevant = _judgements(folder / "cranqrel")

    names = list(documents)
    rows = _unit(embed_documents(list(documents.values())))
    scores = _unit(embed_queries(queries)) @ rows.T
    best = np.argsort(-scores, axis=1, kind="stable")[:, :TOP]
    gains = 1.0 / np.log2(np.arange(2, TOP + 2))
    values = []
    for number, ranking in enumerate(best, start=1):
        wanted = relevant.get(number)
        if wanted:
            hits = np.array([names[place] in wanted for place in ranking])
            values.append(gains[hits].sum() / gains[: len(wanted)].sum())
    return float(np.mean(values))


def _unit(vectors: Vectors) -> Floats:
    wide = vectors.astype(np.float64)
    units: Floats = wide / np.linalg.norm(wide, axis=1, keepdims=True)
    return units


def _records(path: Path) -> dict[int, str]:
    """The bodies (.W) by number (.I), without those that have none."""
    found = {}
    for record in re.split(r"^\.I ", path.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        number, _, rest = record.partition("\n")
        body = " ".join(re.split(r"^\.W\n", rest, flags=re.MULTILINE)[-1].split())
        if body:
            found[int(number)] = body
    return found


def _judgements(path: Path) -> dict[int, set[int]]:
    """The relevant documents by query; queries are numbered by their position from 1."""
    found: dict[int, set[int]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        query, _, document, relevance = line.split()
        if int(relevance) > 0:
            found.setdefault(int(query), set()).add(int(document))
    return found


if __name__ == "__main__":
    alone(__doc__, measure)
