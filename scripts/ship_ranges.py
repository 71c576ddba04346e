"""Measures how far a model's values reach and puts that into the package.

With shipped ranges the int8 graph of a model is the same file on every machine, and is made without
running sample texts. Run it for a model of the catalog, from the root of the repository:

    python scripts/ship_ranges.py sentence-transformers/all-MiniLM-L6-v2
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from onnx_embeddings import EngineConfig, ModelRequest, calibration, compiler, folder, sources
from onnx_embeddings.compiler import ranges
from onnx_embeddings.store import Store

FOLDER = Path(compiler.__file__).parent / "shipped_ranges"


def main(model: str) -> None:
    """Measure one model."""
    request = ModelRequest(model=model)
    config = EngineConfig().resolved()
    files = folder.read(*sources.find(request, config))
    measure = partial(calibration.measure, folder=files, threads=1)
    with TemporaryDirectory() as home:
        checkpoint = compiler.Checkpoint(files, Store(Path(home)))
        reach = checkpoint.measured(Path(home) / "sample", measure)
    FOLDER.mkdir(exist_ok=True)
    print(ranges.save(reach, FOLDER, checkpoint.weights))


if __name__ == "__main__":
    main(*sys.argv[1:])
