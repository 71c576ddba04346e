"""Golden vectors: what the authors' own code computes for the texts in texts.json.

Needs sentence-transformers and PyTorch, which the project's own tests do not need. README.md in
this folder tells the versions and the command.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

HERE = Path(__file__).parent
WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
CUT = 256


def read_texts() -> list[str]:
    """The texts of texts.json, in their order."""
    entries = json.loads((HERE / "texts.json").read_text(encoding="utf-8"))
    return [entry["text"] for entry in entries]


def embed_each_alone(model: Any, texts: list[str]) -> npt.NDArray[np.float32]:
    """One call per text, so that no text is padded.

    Returns:
        (N, D) float32.
    """
    rows = [model.encode([text], batch_size=1, show_progress_bar=False)[0] for text in texts]
    vectors = np.stack(rows)
    if vectors.dtype != np.float32 or not np.isfinite(vectors).all():
        raise ValueError("golden vectors must be finite float32")
    return vectors


def count_tokens(model: Any, texts: list[str]) -> npt.NDArray[np.int32]:
    """Tokens of each text before the cut, special tokens included.

    Returns:
        (N,) int32.
    """
    counts = [len(model.tokenizer(text, truncation=False)["input_ids"]) for text in texts]
    for text, count in zip(texts, counts, strict=True):
        seen = model.preprocess([text])["input_ids"].shape
        if seen != (1, min(count, CUT)):
            raise ValueError(f"{text[:40]!r}: the model saw {seen} of {count} tokens")
    return np.array(counts, dtype=np.int32)


def main() -> None:
    """Write all-MiniLM-L6-v2.npz beside this file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="all-MiniLM-L6-v2, as its authors lay it out")
    folder = parser.parse_args().folder
    found = hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()
    if found != WEIGHTS_SHA256:
        raise SystemExit(f"model.safetensors has sha256 {found}, expected {WEIGHTS_SHA256}")

    import_module("torch").set_num_threads(1)  # one order of summation
    library = import_module("sentence_transformers")
    model = library.SentenceTransformer(str(folder), device="cpu", local_files_only=True)
    if model.max_seq_length != CUT:
        raise ValueError(f"the model cuts at {model.max_seq_length}, expected {CUT}")

    texts = read_texts()
    np.savez_compressed(
        HERE / "all-MiniLM-L6-v2.npz",
        vectors=embed_each_alone(model, texts),
        token_counts=count_tokens(model, texts),
        texts_sha256=np.array([hashlib.sha256(t.encode()).hexdigest() for t in texts], dtype="S64"),
    )
    packages = ("sentence-transformers", "torch", "transformers", "tokenizers", "numpy")
    versions = ", ".join(f"{name} {version(name)}" for name in packages)
    sys.stdout.write(f"{len(texts)} texts, {versions}\n")


if __name__ == "__main__":
    main()
