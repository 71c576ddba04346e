"""What LlamaIndex tells its observers: once for a batch, once for a call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from llama_index.core.callbacks import CallbackManager, CBEventType, EventPayload, LlamaDebugHandler
from llama_index.core.instrumentation.events.embedding import EmbeddingEndEvent, EmbeddingStartEvent
from llama_index_instrumentation import get_dispatcher
from llama_index_instrumentation.event_handlers import BaseEventHandler
from llama_index_instrumentation.span_handlers import SimpleSpanHandler
from pydantic import Field

from llama_index.embeddings.onnx import OnnxEmbedding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from llama_index_instrumentation.base import BaseEvent

pytestmark = pytest.mark.usefixtures("no_sockets")

TEXTS = ["a cat", "a dog", "", "the sun", "the moon"]
BATCHES = [["a cat", "a dog"], ["", "the sun"], ["the moon"]]


class Events(BaseEventHandler):
    """Keeps what was told."""

    seen: list[Any] = Field(default_factory=list)

    def handle(self, event: BaseEvent, **_: Any) -> None:
        self.seen.append(event)

    def of(self, kind: type[Any]) -> list[Any]:
        return [event for event in self.seen if isinstance(event, kind)]


@pytest.fixture
def events() -> Iterator[Events]:
    root = get_dispatcher()
    handler = Events()
    root.add_event_handler(handler)
    yield handler
    root.event_handlers.remove(handler)


@pytest.fixture
def spans() -> Iterator[SimpleSpanHandler]:
    root = get_dispatcher()
    handler = SimpleSpanHandler()
    root.add_span_handler(handler)
    yield handler
    root.span_handlers.remove(handler)


async def ask(embed_model: OnnxEmbedding, way: str) -> list[list[float]]:
    if way == "sync":
        return embed_model.get_text_embedding_batch(TEXTS)
    return await embed_model.aget_text_embedding_batch(TEXTS)


@pytest.mark.parametrize("way", ["sync", "async"])
async def test_every_batch_has_one_start_and_one_end(tiny: str, events: Events, way: str) -> None:
    debug = LlamaDebugHandler(print_trace_on_end=False)
    embed_model = OnnxEmbedding(
        model=tiny, embed_batch_size=2, callback_manager=CallbackManager([debug])
    )

    vectors = await ask(embed_model, way)

    ends = events.of(EmbeddingEndEvent)
    assert len(events.of(EmbeddingStartEvent)) == 3
    assert [end.chunks for end in ends] == BATCHES
    assert [vector for end in ends for vector in end.embeddings] == vectors
    pairs = debug.get_event_pairs(CBEventType.EMBEDDING)
    assert [end.payload[EventPayload.CHUNKS] for _, end in pairs if end.payload] == BATCHES


def test_a_single_text_has_one_start_and_one_end(tiny: str, events: Events) -> None:
    embed_model = OnnxEmbedding(model=tiny)

    embed_model.get_text_embedding("a cat")
    embed_model.get_query_embedding("a dog")

    assert [event.chunks for event in events.of(EmbeddingEndEvent)] == [["a cat"], ["a dog"]]
    told = [event.model_dict for event in events.of(EmbeddingStartEvent)]
    assert [it["class_name"] for it in told] == ["OnnxEmbedding"] * 2
    assert [it["model_name"] for it in told] == [tiny] * 2


@pytest.mark.parametrize("way", ["sync", "async"])
async def test_a_call_is_one_span(tiny: str, spans: SimpleSpanHandler, way: str) -> None:
    await ask(OnnxEmbedding(model=tiny), way)

    names = [span.id_.partition("-")[0] for span in spans.completed_spans]
    calls = [name for name in names if name.endswith("get_text_embedding_batch")]
    assert len(calls) == 1
