"""The event loop goes on while the real model is loaded and while it embeds."""

from __future__ import annotations

import pytest
from heartbeat import assert_the_loop_goes_on, assert_the_loop_goes_on_in_a_fresh_process

from llama_index.embeddings.onnx import OnnxEmbedding

pytestmark = pytest.mark.weights

TEXTS = [f"text {number} " + "of some length " * 20 for number in range(100)]


async def test_embedding_does_not_block_the_event_loop(minilm: str) -> None:
    embed_model = OnnxEmbedding(model=minilm, engine_options={"cache": None})
    await embed_model.aget_query_embedding("load it first")
    await assert_the_loop_goes_on(lambda: embed_model.aget_text_embedding_batch(TEXTS))


def test_loading_does_not_block_the_event_loop(minilm: str) -> None:
    assert_the_loop_goes_on_in_a_fresh_process(
        "from llama_index.embeddings.onnx import OnnxEmbedding",
        "OnnxEmbedding(model=sys.argv[1]).aget_query_embedding('a')",
        minilm,
    )
