"""Quality, so that speed is never bought with it: STS-B (similarity) and Cranfield (retrieval).

    ONNX_EMBEDDINGS_DATA=FOLDER python -m benchmarks.quality --model FOLDER_OR_NAME

The data are for evaluation only and not part of the repository: stsb/stsb-en-test.csv and
cranfield/{cran.all.1400,cran.qry,cranqrel} under ``ONNX_EMBEDDINGS_DATA``.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from benchmarks import machine

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    Vectors = npt.NDArray[np.float32]
    Floats = npt.NDArray[np.float64]
    Embed = Callable[[list[str]], Vectors]

EXPECTED_STSB, TOLERANCE = 82.03, 0.03
TOP = 10


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


def main() -> None:
    """Measure both and print them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", help="a folder or a model's name; the default model if absent")
    parser.add_argument("--precision", help="the model's own if absent")
    parser.add_argument("--out", type=Path, help="where to write the result as JSON")
    arguments = parser.parse_args()
    data = os.environ.get("ONNX_EMBEDDINGS_DATA")
    if not data:
        raise SystemExit("set ONNX_EMBEDDINGS_DATA to the folder with stsb/ and cranfield/")

    import onnx_embeddings

    model: Any = arguments.model or onnx_embeddings.DEFAULT_MODEL
    if Path(model).is_dir():
        model = Path(model)
    config = onnx_embeddings.EngineConfig(cache=None)
    with onnx_embeddings.load(model, precision=arguments.precision, config=config) as engine:
        similarity = stsb(engine.embed_documents, Path(data) / "stsb" / "stsb-en-test.csv")
        retrieval = cranfield(
            engine.embed_documents, engine.embed_queries, Path(data) / "cranfield"
        )
    print(f"STS-B en test, Spearman x100   {similarity:7.2f}   ({EXPECTED_STSB} ± {TOLERANCE})")
    print(f"Cranfield, nDCG@{TOP}             {retrieval:7.4f}")
    if arguments.out is not None:
        result = {
            "stsb_en_test_spearman_x100": round(similarity, 2),
            "cranfield_ndcg_at_10": round(retrieval, 4),
            "machine": machine.describe(),
            "versions": machine.versions(),
        }
        arguments.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


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
    main()
