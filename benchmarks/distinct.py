"""100,000 distinct texts in a file to stream from: JSON lines, never one text twice.

English descriptions, filled up with titles and with descriptions in other languages. Every thousand
lines have the same mix of lengths: a thousand texts cost what a hundredth of them all costs, and
what grows with their number shows.

    python -m benchmarks.distinct --work FOLDER --model FOLDER
"""

from __future__ import annotations

import argparse
import json
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.corpus import CUT, SEED, descriptions, shuffled, tokenizer_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

COUNT = 100_000
BLOCK = 1000


def prepare(work: Path, model: Path, count: int = COUNT) -> Path:
    """Write the file, once.

    Returns:
        One JSON string a line, for `read`.

    Raises:
        SystemExit: the archive has too few texts.
    """
    path = work / f"distinct-{count}.jsonl"
    if path.exists():
        return path
    texts = choose(work, count)
    if len(texts) < count:
        raise SystemExit(f"the archive has {len(texts)} distinct texts of {count} wanted")
    encodings = tokenizer_of(model).encode_batch(texts)
    lengths = [min(len(encoding.ids), CUT) for encoding in encodings]
    draft = path.with_suffix(".draft")
    with draft.open("w", encoding="utf-8") as file:
        for place in evenly(lengths):
            file.write(json.dumps(texts[place]) + "\n")
    draft.replace(path)
    return path


def choose(work: Path, count: int) -> list[str]:
    """English descriptions first; titles and other languages share the rest evenly."""
    entries = descriptions(work)
    english = shuffled([entry.text for entry in entries if entry.language == "en"], SEED)[:count]
    used = set(english)
    titles = shuffled(
        sorted({entry.title for entry in entries if entry.language == "en"} - used), SEED
    )
    titles = titles[: (count - len(english)) // 2]
    used.update(titles)
    others = [entry.text for entry in entries if entry.language != "en" and entry.text not in used]
    texts = english + titles + shuffled(others, SEED)[: count - len(english) - len(titles)]
    return shuffled(texts, SEED + 1)


def evenly(lengths: Sequence[int], block: int = BLOCK) -> list[int]:
    """An order of texts in which every block has the same mix of lengths.

    Args:
        lengths: tokens of each text; their order decides among equal lengths and inside a block.
        block: texts of a block; the texts are a whole number of blocks, or one short block.

    Returns:
        The places of the texts, each once.
    """
    blocks = max(len(lengths) // block, 1)
    ascending = sorted(range(len(lengths)), key=lambda place: (lengths[place], place))
    return [place for first in range(blocks) for place in sorted(ascending[first::blocks])]


def read(path: Path, count: int | None = None) -> Iterator[str]:
    """The first texts of a file, one at a time."""
    with path.open(encoding="utf-8") as file:
        for line in islice(file, count):
            yield json.loads(line)


def main() -> None:
    """Make the file and say what is in it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--model", type=Path, required=True, help="a folder with tokenizer.json")
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    path = prepare(arguments.work, arguments.model)
    texts = list(read(path))
    encodings = tokenizer_of(arguments.model).encode_batch(texts)
    lengths = [min(len(encoding.ids), CUT) for encoding in encodings]
    print(f"{len(texts)} texts, {len(set(texts))} distinct")
    for count in (BLOCK, 10 * BLOCK, len(texts)):
        print(f"the first {count}: {sum(lengths[:count]) / count:.2f} tokens on average")


if __name__ == "__main__":
    main()
