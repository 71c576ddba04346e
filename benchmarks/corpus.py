"""Real texts: Debian's package descriptions and titles, fetched through apt.

They stay in the benchmark's work folder and never enter the repository. Which texts are taken
depends on the seed and on the texts only, so that an archive that has moved on a little gives
nearly the same corpus.

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
QUERY_TOKENS = range(10, 16)
QUERIES = 500
SEED = 1  # another one, other texts
LONG_TOKENS = 200

APT_HELPER = "/usr/lib/apt/apt-helper"
# English first: the others fill up where it has too few.
LANGUAGES = ["en", "it", "fr", "da", "de", "ja", "ru", "es", "ko", "pt_BR", "pl", "cs", "zh_CN"]


@dataclass(frozen=True, slots=True)
class Description:
    """What Debian says about one package, in one language."""

    package: str
    language: str
    title: str
    text: str


def descriptions(work: Path) -> list[Description]:
    """Every package description, each text once, English first, in the order of the archive.

    Args:
        work: where apt's lists are kept; fetched when they are not there.
    """
    conf = _fetch(work / "apt")
    listing = _run(
        *("apt-get", "-c", str(conf), "indextargets", "--format", "$(LANGUAGE) $(FILENAME)"),
        *("Created-By: Translations", "Label: Debian"),
    )
    files = [line.split(" ", 1) for line in listing.splitlines() if line]
    seen = set()
    found = []
    for language, path in sorted(files, key=lambda file: LANGUAGES.index(file[0])):
        for stanza in _run(APT_HELPER, "cat-file", path).split("\n\n"):
            entry = parse(stanza, language)
            if entry is not None and entry.text not in seen:
                seen.add(entry.text)
                found.append(entry)
    return found


def parse(stanza: str, language: str) -> Description | None:
    """One entry of apt's list; None if it has no long description."""
    fields = re.match(
        r"Package: (?P<package>\S+)\n(?:.*\n)*?"
        rf"Description-{re.escape(language)}: (?P<title>.+)\n(?P<body>(?: .*\n?)+)",
        stanza,
    )
    if fields is None:
        return None
    lines = [line[1:].strip() for line in fields["body"].rstrip("\n").split("\n")]
    paragraphs = " ".join("\n" if line == "." else line for line in lines)
    text = re.sub(r" ?\n ?", "\n", paragraphs).strip()
    return Description(fields["package"], language, fields["title"], text) if text else None


def prepare(work: Path, model: Path, mixed: int, *, short: int = 2000, long: int = 200) -> Path:
    """Write the English texts of every workload to a JSON file in the work folder.

    Args:
        work: our folder.
        model: a folder with the tokenizer that counts.
        mixed: how many descriptions, as they come.
        short: how many titles.
        long: how many descriptions of at least 200 tokens before the cut.

    Returns:
        The file: {"mixed": [...], "short": [...], "long": [...], "titles": [...]}; the last are
        500 of 10 to 15 tokens, as long as a typed query is.
    """
    path = work / f"texts-{mixed}-{short}-{long}.json"
    if path.exists():
        return path
    entries = [entry for entry in descriptions(work) if entry.language == "en"]
    texts = shuffled([entry.text for entry in entries], SEED)
    titles = shuffled(sorted({entry.title for entry in entries}), SEED + 1)
    tokenizer = tokenizer_of(model)
    found = {
        "mixed": texts[:mixed],
        "short": titles[:short],
        "long": _first(texts, long, lambda text: len(tokenizer.encode(text)) >= LONG_TOKENS),
        "titles": _first(
            titles[short:], QUERIES, lambda text: len(tokenizer.encode(text)) in QUERY_TOKENS
        ),
    }
    draft = path.with_suffix(".draft")
    draft.write_text(json.dumps(found), encoding="utf-8")
    draft.replace(path)
    return path


def shuffled(texts: list[str], seed: int) -> list[str]:
    """By a hash of seed and text: no text's place depends on which others there are."""
    return sorted(texts, key=lambda text: hashlib.sha256(f"{seed} {text}".encode()).digest())


def digest(texts: list[str]) -> str:
    """sha256 over all texts, to tell one corpus from another."""
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()


def tokenizer_of(model: Path) -> Any:
    """The model's tokenizer, which neither cuts nor pads."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(model / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def main() -> None:
    """Make the corpus and say what is in it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--model", type=Path, required=True, help="a folder with tokenizer.json")
    parser.add_argument("--count", type=int, default=1000)
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    path = prepare(arguments.work, arguments.model, arguments.count)
    tokenizer = tokenizer_of(arguments.model)
    for name, texts in json.loads(path.read_text(encoding="utf-8")).items():
        lengths = sorted(len(encoding.ids) for encoding in tokenizer.encode_batch(texts))
        print(
            f"{name}: {len(texts)} texts, tokens: median {statistics.median(lengths):.0f}, "
            f"largest {lengths[-1]}, mean {statistics.mean(min(n, CUT) for n in lengths):.1f} "
            f"when cut at {CUT}, {sum(n > CUT for n in lengths)} beyond that"
        )


def _first(texts: list[str], count: int, wanted: Any) -> list[str]:
    found: list[str] = []
    for text in texts:
        if len(found) == count:
            break
        if wanted(text):
            found.append(text)
    return found


def _fetch(folder: Path) -> Path:
    """Apt's lists in a folder of our own: the system's are left alone, no root is needed."""
    conf, done = folder / "apt.conf", folder / "languages"
    if done.exists() and done.read_text(encoding="utf-8").split() == LANGUAGES:
        return conf
    (folder / "lists" / "partial").mkdir(parents=True, exist_ok=True)
    (folder / "cache" / "archives" / "partial").mkdir(parents=True, exist_ok=True)
    languages = " ".join(f'"{language}";' for language in LANGUAGES)
    conf.write_text(
        "#clear Acquire::Languages;\n"
        f"Acquire::Languages {{{languages}}};\n"
        'APT::Sandbox::User "root";\n'  # the folder may be closed to apt's own user
        f'Dir::State::lists "{folder / "lists"}";\n'
        f'Dir::Cache "{folder / "cache"}";\n',
        encoding="utf-8",
    )
    _run("apt-get", "-c", str(conf), "update")
    done.write_text(" ".join(LANGUAGES), encoding="utf-8")
    return conf


def _run(*command: str) -> str:
    done = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603 - our own words
    return done.stdout


if __name__ == "__main__":
    main()
