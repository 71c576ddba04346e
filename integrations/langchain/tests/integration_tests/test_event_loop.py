"""The event loop goes on while the real model is loaded and while it embeds."""

from __future__ import annotations

import pytest
from heartbeat import assert_the_loop_goes_on, assert_the_loop_goes_on_in_a_fresh_process

from langchain_onnx_embeddings import OnnxEmbeddings

pytestmark = pytest.mark.weights

TEXTS = [f"text {number} " + "of some length " * 20 for number in range(100)]


async def test_embedding_does_not_block_the_event_loop(minilm: str) -> None:
    embeddings = OnnxEmbeddings(model=minilm, engine_options={"cache": None})
    await embeddings.aembed_query("load it first")
    await assert_the_loop_goes_on(lambda: embeddings.aembed_documents(TEXTS))


def test_loading_does_not_block_the_event_loop(minilm: str) -> None:
    assert_the_loop_goes_on_in_a_fresh_process(
        "from langchain_onnx_embeddings import OnnxEmbeddings",
        "OnnxEmbeddings(model=sys.argv[1]).aembed_query('a')",
        minilm,
    )
