"""What it costs to find a model that is there: by its name, against a folder.

    python -m benchmarks.found --model FOLDER [--work FOLDER]

Each run is a process of its own, offline, that has imported the engine before the clock starts; in
turns, medians of fifteen. The folder's contents are linked into a Hugging Face cache and packed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import statistics
import subprocess
import sys
import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks import machine

ROUNDS = 15
NAME = "benchmark/model"
COMMIT = "0" * 40

TIMED = """
import sys, time
import onnx_embeddings.engine
from onnx_embeddings import EngineConfig, ModelRequest, shared
config = EngineConfig().resolved()
started = time.perf_counter()
shared.prepare(ModelRequest(model=sys.argv[1]), config)
print(time.perf_counter() - started)
"""


def main() -> None:
    """Print milliseconds by place."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, required=True, help="the folder of a model")
    parser.add_argument("--out", type=Path, help="a file for the result")
    given = parser.parse_args()
    with TemporaryDirectory() as temporary:
        work = Path(temporary)
        _cache(given.model, work / "huggingface")
        _package(given.model, work / "site", work / "home")
        nothing = work / "nothing"
        runs = {
            "folder": (str(given.model.absolute()), nothing, nothing),
            "Hugging Face cache": (NAME, work / "huggingface", nothing),
            "installed package": (NAME, nothing, work / "site"),
        }
        found: dict[str, list[float]] = {place: [] for place in runs}
        for turn in range(ROUNDS + 1):
            for place, (model, cache, site) in runs.items():
                seconds = _timed(model, work / "home", cache, site)
                if turn:  # the first one hashes and compiles
                    found[place].append(1000 * seconds)
    result = {
        "machine": machine.describe(),
        "versions": machine.versions(),
        "milliseconds": {place: round(statistics.median(v), 2) for place, v in found.items()},
        "rounds": {place: [round(value, 2) for value in v] for place, v in found.items()},
    }
    text = json.dumps(result, indent=1)
    print(text)
    if given.out is not None:
        given.out.write_text(text + "\n", encoding="utf-8")


def _timed(model: str, home: Path, cache: Path, site: Path) -> float:
    environment = os.environ | {
        "ONNX_EMBEDDINGS_HOME": str(home),
        "ONNX_EMBEDDINGS_OFFLINE": "1",
        "HF_HOME": str(cache),
        "PYTHONPATH": os.pathsep.join([str(site), *sys.path]),
    }
    command = [sys.executable, "-c", TIMED, model]
    ended = subprocess.run(  # noqa: S603  our own
        command, env=environment, capture_output=True, text=True, check=True
    )
    return float(ended.stdout)


def _cache(model: Path, home: Path) -> None:
    """A snapshot as huggingface_hub lays it out."""
    repository = home / "hub" / f"models--{NAME.replace('/', '--')}"
    snapshot = repository / "snapshots" / COMMIT
    for file in (file for file in model.rglob("*") if file.is_file()):
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        blob, link = repository / "blobs" / digest, snapshot / file.relative_to(model)
        for folder in (blob.parent, link.parent):
            folder.mkdir(parents=True, exist_ok=True)
        if not blob.exists():
            blob.write_bytes(file.read_bytes())
        link.symlink_to(os.path.relpath(blob, link.parent))
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(COMMIT, encoding="utf-8")


def _package(model: Path, site: Path, home: Path) -> None:
    from onnx_embeddings import EngineConfig, ModelRequest
    from onnx_embeddings.packing import pack

    request = ModelRequest(model=str(model.absolute()))
    config = EngineConfig(home=home).resolved()
    wheel, _ = pack(request, config, site, name=NAME, licence="of the model")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    wheel.unlink()


if __name__ == "__main__":
    main()
