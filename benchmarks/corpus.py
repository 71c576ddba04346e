"""Real texts in a realistic mix of lengths: Debian's package descriptions, fetched through apt.

They stay in the benchmark's work folder and never enter the repository. Which texts are taken
depends on the seed and the package names only, so that an archive that has moved on a little
gives nearly the same corpus.

    python -m benchmarks.corpus --work FOLDER --model FOLDER
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import statistics
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CUT = 256
APT_HELPER = "/usr/lib/apt/apt-helper"
QUERY_TOKENS = range(10, 16)


@dataclass(frozen=True, slots=True)
class Description:
    """What Debian says about one package."""

    package: str
    synopsis: str
    text: str


def descriptions(work: Path) -> list[Description]:
    """Every package description in English, each text once, in the order of the archive.

    Args:
        work: where apt's lists are kept; fetched when they are not there.
    """
    conf = _fetch(work / "apt")
    listing = _run(
        *("apt-get", "-c", str(conf), "indextargets", "--format", "$(FILENAME)"),
        *("Created-By: Translations", "Label: Debian"),
    )
    seen = set()
    found = []
    for path in listing.split("\n"):
        if not path:
            continue
        for stanza in _run(APT_HELPER, "cat-file", path).split("\n\n"):
            entry = _parse(stanza)
            if entry is not None and entry.text not in seen:
                seen.add(entry.text)
                found.append(entry)
    return found


def mixed(entries: list[Description], count: int, seed: int) -> list[str]:
    """The long descriptions of ``count`` packages, in a random but repeatable order."""
    return [entry.text for entry in _ranked(entries, seed)[:count]]


def titles(entries: list[Description], tokenizer: Any, count: int, seed: int) -> list[str]:
    """Synopses of 10 to 15 tokens, special tokens included: as long as a typed query is."""
    found: list[str] = []
    for entry in _ranked(entries, seed + 1):
        if (
            len(tokenizer.encode(entry.synopsis).ids) in QUERY_TOKENS
            and entry.synopsis not in found
        ):
            found.append(entry.synopsis)
        if len(found) == count:
            break
    return found


def prepare(work: Path, model: Path, count: int, seed: int = 1) -> Path:
    """Write ``mixed`` texts and ``titles`` to a JSON file in the work folder.

    Returns:
        The file: {"mixed": [...], "titles": [...]}.
    """
    path = work / f"corpus-{count}-{seed}.json"
    if not path.exists():
        entries = descriptions(work)
        tokenizer = _tokenizer(model)
        texts = {
            "mixed": mixed(entries, count, seed),
            "titles": titles(entries, tokenizer, 500, seed),
        }
        path.write_text(json.dumps(texts), encoding="utf-8")
    return path


def digest(texts: list[str]) -> str:
    """sha256 over all texts, to tell one corpus from another."""
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()


def main() -> None:
    """Make the corpus and say what is in it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--model", type=Path, required=True, help="a folder with tokenizer.json")
    parser.add_argument("--count", type=int, default=1000)
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    path = prepare(arguments.work, arguments.model, arguments.count)
    tokenizer = _tokenizer(arguments.model)
    for name, texts in json.loads(path.read_text(encoding="utf-8")).items():
        lengths = sorted(len(encoding.ids) for encoding in tokenizer.encode_batch(texts))
        print(
            f"{name}: {len(texts)} texts, tokens: median {statistics.median(lengths):.0f}, "
            f"largest {lengths[-1]}, mean {statistics.mean(min(n, CUT) for n in lengths):.1f} "
            f"when cut at {CUT}, {sum(n > CUT for n in lengths)} beyond that"
        )


def _fetch(folder: Path) -> Path:
    """Apt's lists in a folder of our own: the system's are left alone, no root is needed."""
    conf = folder / "apt.conf"
    done = folder / "done"
    if done.exists():
        return conf
    (folder / "lists" / "partial").mkdir(parents=True, exist_ok=True)
    (folder / "cache" / "archives" / "partial").mkdir(parents=True, exist_ok=True)
    conf.write_text(
        "#clear Acquire::Languages;\n"
        'Acquire::Languages {"en";};\n'
        f'Dir::State::lists "{folder / "lists"}";\n'
        f'Dir::Cache "{folder / "cache"}";\n',
        encoding="utf-8",
    )
    _run("apt-get", "-c", str(conf), "update")
    done.touch()
    return conf


def _run(*command: str) -> str:
    done = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603 - our own words
    return done.stdout


def _parse(stanza: str) -> Description | None:
    fields = re.match(
        r"Package: (?P<package>\S+)\n(?:.*\n)*?"
        r"Description-en: (?P<synopsis>.+)\n(?P<body>(?: .*\n?)+)",
        stanza,
    )
    if fields is None:
        return None
    lines = [line[1:].strip() for line in fields["body"].rstrip("\n").split("\n")]
    paragraphs = " ".join("\n" if line == "." else line for line in lines)
    text = re.sub(r" ?\n ?", "\n", paragraphs).strip()
    return Description(fields["package"], fields["synopsis"], text)


def _ranked(entries: list[Description], seed: int) -> list[Description]:
    """Shuffled by a hash of seed and name: no entry's place depends on which others there are."""
    return sorted(
        entries, key=lambda entry: hashlib.sha256(f"{seed} {entry.package}".encode()).digest()
    )


def _tokenizer(model: Path) -> Any:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(model / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


if __name__ == "__main__":
    main()
