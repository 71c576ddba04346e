"""In LlamaIndex's pipelines, their workers and their caches, and in an index that stays on disk."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import pytest
from llama_index.core import Document, StorageContext, VectorStoreIndex, load_index_from_storage
from llama_index.core.ingestion import IngestionPipeline
from llama_index.core.ingestion.pipeline import get_transformation_hash
from llama_index.core.schema import TextNode

from llama_index.embeddings.onnx import OnnxEmbedding
from onnx_embeddings import ModelRequest, ModelSpec
from onnx_embeddings.errors import SpecMismatchError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from llama_index.core.schema import BaseNode

TEXTS = ["a cat sits", "the blue bird flies", "", "the sun and the sea", "one two three"]

# Another value for every field of a request.
CHANGES: dict[str, Any] = {
    "model": "org/name",
    "revision": "main",
    "precision": "fp32",
    "variant": "onnx/model.onnx",
    "dim": 8,
    "max_tokens": 5,
    "long_text": "error",
    "query_prompt": "",
    "document_prompt": "",
}


def nodes() -> list[TextNode]:
    return [TextNode(id_=str(number), text=text) for number, text in enumerate(TEXTS)]


def vectors(of: Sequence[BaseNode]) -> list[list[float] | None]:
    return [node.embedding for node in of]


@pytest.mark.usefixtures("no_sockets")
def test_the_hash_of_a_run_changes_with_all_that_changes_a_vector() -> None:
    assert CHANGES.keys() == {field.name for field in fields(ModelRequest)}
    hashes = {get_transformation_hash(nodes(), OnnxEmbedding(**{n: v})) for n, v in CHANGES.items()}
    hashes.add(get_transformation_hash(nodes(), OnnxEmbedding()))

    assert len(hashes) == len(CHANGES) + 1


@pytest.mark.usefixtures("no_sockets")
def test_the_hash_of_a_run_does_not_change_with_the_engine(tiny: str, tmp_path: Path) -> None:
    embed_model = OnnxEmbedding(model=tiny)
    before = get_transformation_hash(nodes(), embed_model)
    embed_model.get_query_embedding("a cat")
    options = {"lanes": 1, "offline": True, "home": str(tmp_path), "cache": None}

    assert get_transformation_hash(nodes(), embed_model) == before
    other = OnnxEmbedding(model=tiny, engine_options=options)
    assert get_transformation_hash(nodes(), other) == before


@pytest.mark.usefixtures("no_sockets")
async def test_a_pipeline_embeds_nodes_and_knows_them_the_second_time(tiny: str) -> None:
    embed_model = OnnxEmbedding(model=tiny)
    expected = embed_model.get_text_embedding_batch(TEXTS)
    pipeline = IngestionPipeline(transformations=[embed_model])
    texts = embed_model.engine.stats().texts

    assert vectors(pipeline.run(nodes=nodes())) == expected
    assert vectors(pipeline.run(nodes=nodes())) == expected
    assert vectors(await pipeline.arun(nodes=nodes())) == expected
    assert embed_model.engine.stats().texts == texts + len(TEXTS)


WORKERS = """
import asyncio, json, sys
from llama_index.core.ingestion import IngestionPipeline
from llama_index.core.schema import TextNode
from llama_index.embeddings.onnx import OnnxEmbedding

class Telling(OnnxEmbedding):
    def __call__(self, nodes, **kwargs):
        config = self.engine.config
        for node in nodes:
            node.metadata = {}
        found = super().__call__(nodes, **kwargs)
        for node in found:
            node.metadata = {"config": repr(config), "request": self.request.to_dict()}
        return found

    async def acall(self, nodes, **kwargs):
        return self(nodes, **kwargs)

if __name__ == "__main__":
    settings, texts = json.loads(sys.argv[1]), json.loads(sys.argv[2])
    embed_model = Telling(**settings)
    expected = embed_model.get_text_embedding_batch(texts)
    there = {"config": repr(embed_model.engine.config), "request": embed_model.request.to_dict()}

    def nodes():
        return [TextNode(text=text) for text in texts]

    def pipeline():
        return IngestionPipeline(transformations=[embed_model], disable_cache=True)

    found = [pipeline().run(nodes=nodes(), num_workers=2)]
    found.append(asyncio.run(pipeline().arun(nodes=nodes(), num_workers=2)))
    for run in found:
        assert [node.embedding for node in run] == expected
        assert [node.metadata for node in run] == [there] * len(texts), run[0].metadata
    print("equal")
"""


@pytest.mark.slow
@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="two workers need two processors")
def test_workers_have_all_settings_and_give_the_same_vectors(tiny: str, tmp_path: Path) -> None:
    script = tmp_path / "workers.py"
    script.write_text(textwrap.dedent(WORKERS))
    settings = {
        "model": tiny,
        "dim": 16,
        "max_tokens": 8,
        "query_prompt": "q: ",
        "document_prompt": "d: ",
        "engine_options": {
            "cache": None,
            "lanes": 1,
            "batch_tokens": 64,
            "home": str(tmp_path / "models"),
            "offline": True,
        },
    }
    command = [sys.executable, "-W", "error", str(script), json.dumps(settings), json.dumps(TEXTS)]

    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)

    assert (done.returncode, done.stdout, done.stderr) == (0, "equal\n", "")


@pytest.mark.usefixtures("no_sockets")
def test_an_index_finds_the_nearest_text(tiny: str) -> None:
    embed_model = OnnxEmbedding(model=tiny, query_prompt="", document_prompt="")
    documents = [Document(text=text) for text in TEXTS if text]
    index = VectorStoreIndex.from_documents(documents, embed_model=embed_model)

    (found,) = index.as_retriever(similarity_top_k=1).retrieve("the blue bird flies")

    assert found.node.get_content() == "the blue bird flies"
    assert found.score == pytest.approx(1, abs=1e-6)


@pytest.mark.usefixtures("no_sockets")
def test_an_index_on_disk_is_opened_again_and_guarded(tiny: str, tmp_path: Path) -> None:
    folder = tmp_path / "index"
    embed_model = OnnxEmbedding(model=tiny)
    documents = [Document(text=text) for text in TEXTS if text]
    index = VectorStoreIndex.from_documents(documents, embed_model=embed_model)
    index.storage_context.persist(str(folder))
    (folder / "spec.json").write_text(json.dumps(embed_model.engine.spec.to_dict()))
    nearest = index.as_retriever(similarity_top_k=2).retrieve("a red bird")

    again = OnnxEmbedding(model=tiny)
    stored = ModelSpec.from_dict(json.loads((folder / "spec.json").read_text()))
    again.engine.spec.check(stored, where="the index")
    context = StorageContext.from_defaults(persist_dir=str(folder))
    opened: Any = load_index_from_storage(context, embed_model=again)
    found = opened.as_retriever(similarity_top_k=2).retrieve("a red bird")

    assert [(it.text, it.score) for it in found] == [(it.text, it.score) for it in nearest]
    other = OnnxEmbedding(model=tiny, dim=16)
    with pytest.raises(SpecMismatchError, match="dim: stored 32, given 16") as bad:
        other.engine.spec.check(stored, where="the index")
    assert bad.value.stored == bad.value.given == tiny
