"""A prepared model in, a folder that needs nothing else out."""

from __future__ import annotations

import json
import re
import shutil
from typing import TYPE_CHECKING

from onnx_embeddings import __version__, layout, manifest
from onnx_embeddings.documents import read_object
from onnx_embeddings.errors import StoreError
from onnx_embeddings.manifest import GRAPH_FORMAT, Manifest

if TYPE_CHECKING:
    from pathlib import Path

    from onnx_embeddings.shared import Prepared

_PROMPTS = "config_sentence_transformers.json"

LICENCES = re.compile(r"(LICEN[CS]E|NOTICE|COPYING)([.-].*)?", re.IGNORECASE)
"""Names of files that go with a model whatever else does."""


def write_folder(
    model: Prepared, target: Path, *, name: str, licence: str, revisions: tuple[str, ...]
) -> Manifest:
    """A model as a folder that needs nothing else: configs, tokenizer, graph, licence, manifest.

    Args:
        model: what to pack.
        target: an empty folder.
        name: the name that the model is to be found by.
        licence: of the model.
        revisions: what of the hub it may be asked for by.

    Raises:
        StoreError: it can't be written.
    """
    files = model.files
    found = layout.choose(layout.OnDisk(files.path), variant=files.variant, packed=True)
    numbers = {found.index, *found.weights, *found.compiled, found.ready, *found.ready_data}
    sources = {n: files.path / n for n in found.files if n not in numbers}
    ready = model.graph.layout == "padded"
    if ready:
        sources |= {n: files.path / n for n in (*found.ready_data, found.ready) if n is not None}
    else:
        place = model.graph.path.parent
        sources |= {n: place / n.removeprefix(layout.COMPILED) for n in layout.COMPILED_FILES}
    for file in files.path.iterdir():
        # A link may lead to anything; those of the hub's cache lead to its own contents.
        is_own = not file.is_symlink() or file.resolve().parent.name == "blobs"
        if file.is_file() and is_own and LICENCES.fullmatch(file.name):
            sources[file.name] = file
    try:
        for place_in, source in sources.items():
            (target / place_in).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target / place_in)
        if files.query_prompt or files.document_prompt:
            _write_prompts(target / _PROMPTS, files.query_prompt, files.document_prompt)
            sources[_PROMPTS] = target / _PROMPTS
        said = Manifest(
            model=name,
            revisions=revisions,
            licence=licence,
            precision=model.spec.precision,
            variant=files.variant,
            graph_format=None if ready else GRAPH_FORMAT,
            packed_with=__version__,
            files={n: manifest.content_of(target / n) for n in sorted(sources)},
        )
        manifest.write(said, target)
    except OSError as error:
        raise StoreError(target, str(error)) from error
    return said


def _write_prompts(file: Path, query: str, document: str) -> None:
    """Say in the files what the catalog says: under another name nobody would know."""
    values = read_object(file)
    prompts = values.get("prompts")
    values["prompts"] = (prompts if isinstance(prompts, dict) else {}) | {
        "query": query,
        "document": document,
    }
    file.write_text(json.dumps(values, indent=2, sort_keys=True) + "\n", encoding="utf-8")
