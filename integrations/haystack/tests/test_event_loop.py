"""The event loop goes on while the real model is loaded and while it embeds."""

from __future__ import annotations

import pytest
from haystack import Document
from heartbeat import assert_the_loop_goes_on, assert_the_loop_goes_on_in_a_fresh_process

from haystack_integrations.components.embedders.onnx_embeddings import OnnxDocumentEmbedder

pytestmark = pytest.mark.weights

TEXTS = [f"text {number} " + "of some length " * 20 for number in range(100)]


async def test_embedding_does_not_block_the_event_loop(minilm: str) -> None:
    embedder = OnnxDocumentEmbedder(minilm, progress_bar=False, engine_options={"cache": None})
    documents = [Document(content=text) for text in TEXTS]
    await embedder.warm_up_async()
    await assert_the_loop_goes_on(lambda: embedder.run_async(documents))


@pytest.mark.parametrize("work", ["run_async('a')", "warm_up_async()"])
def test_loading_does_not_block_the_event_loop(minilm: str, work: str) -> None:
    module = "haystack_integrations.components.embedders.onnx_embeddings"
    assert_the_loop_goes_on_in_a_fresh_process(
        f"from {module} import OnnxTextEmbedder",
        f"OnnxTextEmbedder(sys.argv[1]).{work}",
        minilm,
    )
