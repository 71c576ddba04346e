"""The contract of all adapters, on a pair of both components."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from haystack import Document

import haystack_integrations.components.embedders.onnx_embeddings as package
from haystack_integrations.components.embedders.onnx_embeddings import (
    OnnxDocumentEmbedder,
    OnnxTextEmbedder,
)
from onnx_embeddings.testing import check_adapter, check_import

MODULE = "haystack_integrations.components.embedders.onnx_embeddings"


class Pair:
    """Both components with the same settings."""

    def __init__(self, **settings: Any) -> None:
        self.documents = OnnxDocumentEmbedder(**settings, progress_bar=False)
        self.text = OnnxTextEmbedder(**settings)


def as_documents(texts: Any) -> Any:
    if not isinstance(texts, list):
        return texts
    return [Document(content=text) if isinstance(text, str) else text for text in texts]


def embed_documents(pair: Pair, texts: Any) -> list[Any]:
    found = pair.documents.run(as_documents(texts))["documents"]
    return [document.embedding for document in found]


def embed_query(pair: Pair, text: Any) -> Any:
    return pair.text.run(text)["embedding"]


async def embed_documents_async(pair: Pair, texts: Any) -> list[Any]:
    found = await pair.documents.run_async(as_documents(texts))
    return [document.embedding for document in found["documents"]]


async def embed_query_async(pair: Pair, text: Any) -> Any:
    return (await pair.text.run_async(text))["embedding"]


@pytest.mark.usefixtures("no_sockets")
def test_the_pair_keeps_the_promises_of_the_engine() -> None:
    check_adapter(
        Pair,
        documents=embed_documents,
        query=embed_query,
        adocuments=embed_documents_async,
        aquery=embed_query_async,
        bad_input=(TypeError,),
    )


@pytest.mark.parametrize("kind", ["OnnxTextEmbedder", "OnnxDocumentEmbedder"])
def test_importing_and_constructing_load_nothing_heavy(kind: str) -> None:
    made = f"{MODULE}.{kind}(engine_options={{'lanes': 1}})"
    check_import(MODULE, made, framework="haystack.document_stores.in_memory")


def test_constructing_touches_neither_disk_nor_network() -> None:
    code = """
        import sys
        from haystack_integrations.components.embedders.onnx_embeddings import *
        kinds = OnnxTextEmbedder, OnnxDocumentEmbedder
        [kind() for kind in kinds]
        def refuse(event, arguments):
            if event.startswith(("open", "os.", "socket.")):
                sys.stderr.write(f"{event} {arguments}")
                raise SystemExit(1)
        sys.addaudithook(refuse)
        for kind in kinds:
            kind(model="/not/there", dim=3, engine_options={"home": "/not/there/either"})
            kind.from_dict(kind("org/name").to_dict())
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


def test_the_package_leaves_the_namespace_to_all() -> None:
    leaf = Path(package.__file__).parent
    assert (leaf / "py.typed").exists()
    above = [folder for folder in leaf.parents if "haystack_integrations" in folder.parts]
    assert len(above) == 3
    assert not [folder for folder in above if (folder / "__init__.py").exists()]
