"""LlamaIndex's interface in, the engine's vectors out, as lists of Python floats."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterable, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from llama_index.core.base.embeddings.base import BaseEmbedding, Embedding
from llama_index.core.bridge.pydantic import PrivateAttr

import onnx_embeddings
from llama_index.embeddings.onnx.settings import EmbeddingSettings
from onnx_embeddings.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from onnx_embeddings import Engine

# LlamaIndex decorates our methods of these names too; undecorated ones make one span for a call.
_batched = inspect.unwrap(BaseEmbedding.get_text_embedding_batch)
_abatched = inspect.unwrap(BaseEmbedding.aget_text_embedding_batch)


class OnnxEmbedding(EmbeddingSettings):
    """Embeddings by a local model, run with ONNX Runtime.

    To make one costs nothing. The first text loads the model; the first time ever, it is fetched
    too. All objects with one model share it in the process.

    Examples:
        .. code-block:: python

            from llama_index.core import Settings
            from llama_index.embeddings.onnx import OnnxEmbedding

            Settings.embed_model = OnnxEmbedding()  # or model="org/name", or model="./a/folder"

    What changes a vector can't be assigned, because vectors made before would not go with those
    made after it: ``embed_model.model_copy(update={"dim": 128})`` makes another one.
    """

    _engine: Engine | None = PrivateAttr(default=None)

    @classmethod
    def class_name(cls) -> str:
        """What dumps and events call this class."""
        return "OnnxEmbedding"

    @property
    def engine(self) -> Engine:
        """The engine, opened by the first who asks: its ``spec``, its ``path``, its ``stats()``."""
        # Threads that come at once make an engine each, on one session; the last one is kept.
        if self._engine is None or self._engine.closed:
            engine = onnx_embeddings.load(self._request, config=self._config)
            # What "auto" took is what is kept of these settings; fields may be frozen.
            object.__setattr__(self, "variant", engine.request.variant)
            self._request = replace(self._request, variant=self.variant)
            self._engine = engine
        return self._engine

    def get_text_embedding_batch(
        self,
        texts: Iterable[str],
        show_progress: bool = False,  # noqa: FBT001, FBT002  LlamaIndex's signature
        **kwargs: Any,
    ) -> list[Embedding]:
        """N vectors of D Python floats for N texts that are to be found.

        Raises:
            InputError: an item is no valid text; its place is in the message and in ``index``.
            ModelError: the model can't be found, fetched, read or loaded.
        """
        with self._listed(texts) as items:
            vectors: list[Embedding] = _batched(self, items, show_progress, **kwargs)
        return vectors

    async def aget_text_embedding_batch(
        self,
        texts: Iterable[str],
        show_progress: bool = False,  # noqa: FBT001, FBT002  LlamaIndex's signature
        **kwargs: Any,
    ) -> list[Embedding]:
        """As `get_text_embedding_batch`, in threads."""
        with self._listed(texts) as items:
            vectors: list[Embedding] = await _abatched(self, items, show_progress, **kwargs)
        return vectors

    @contextmanager
    def _listed(self, texts: object) -> Iterator[list[str]]:
        # LlamaIndex itself would take a bare text for a list of characters.
        if isinstance(texts, str | Mapping) or not isinstance(texts, Iterable):
            hint = "put a single text in a list: [text]"
            raise InputError(f"{type(texts).__name__} where a list of texts is wanted", hint=hint)
        items: list[str] = list(texts)
        size = self.embed_batch_size
        try:
            yield items
        except InputError as error:
            if len(items) > size:
                error.add_note(f"The index counts within a batch of embed_batch_size={size} texts.")
            raise

    def _get_text_embeddings(self, texts: list[str]) -> list[Embedding]:
        # Row by row: one call for all would hold the interpreter, and with it an event loop.
        return [row.tolist() for row in self.engine.embed_documents(texts)]

    def _get_text_embedding(self, text: str) -> Embedding:
        return self._get_text_embeddings([text])[0]

    def _get_query_embedding(self, query: str) -> Embedding:
        vector: Embedding = self.engine.embed_queries([query])[0].tolist()
        return vector

    async def _aget_text_embeddings(self, texts: list[str]) -> list[Embedding]:
        return await asyncio.to_thread(self._get_text_embeddings, texts)

    async def _aget_text_embedding(self, text: str) -> Embedding:
        return await asyncio.to_thread(self._get_text_embedding, text)

    async def _aget_query_embedding(self, query: str) -> Embedding:
        return await asyncio.to_thread(self._get_query_embedding, query)
