"""Texts in, what Qdrant's client takes out: points, query vectors, vector parameters."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal, Self

from qdrant_client import models

import onnx_embeddings
from onnx_embeddings import EngineConfig, ModelRequest, Similarity
from onnx_embeddings.errors import SettingError
from qdrant_onnx_embeddings.inference import replace_documents
from qdrant_onnx_embeddings.points import distinct, embed_rows, read_rows, to_points

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Mapping
    from uuid import UUID

    from onnx_embeddings import Engine

_DISTANCES = {
    Similarity.COSINE: models.Distance.COSINE,
    Similarity.DOT: models.Distance.DOT,
    Similarity.EUCLIDEAN: models.Distance.EUCLID,
    Similarity.MANHATTAN: models.Distance.MANHATTAN,
}


class OnnxEmbedder:
    """A local model for Qdrant collections, run with ONNX Runtime.

    To make one costs nothing. The first text loads the model; the first time ever, it is fetched
    too. All objects with one model share it in the process; they pickle, and survive a fork.
    """

    # To be read only: an engine that is open would go on with the old value.
    model = property(attrgetter("request.model"))
    revision = property(attrgetter("request.revision"))
    precision = property(attrgetter("request.precision"))
    variant = property(attrgetter("request.variant"))
    dim = property(attrgetter("request.dim"))
    max_tokens = property(attrgetter("request.max_tokens"))
    long_text = property(attrgetter("request.long_text"))
    query_prompt = property(attrgetter("request.query_prompt"))
    document_prompt = property(attrgetter("request.document_prompt"))

    def __init__(  # noqa: PLR0913  every field of the request by name
        self,
        model: str | os.PathLike[str] = onnx_embeddings.DEFAULT_MODEL,
        *,
        revision: str | None = None,
        precision: str | None = None,
        variant: str | None = None,
        dim: int | None = None,
        max_tokens: int | None = None,
        long_text: Literal["truncate", "error"] = "truncate",
        query_prompt: str | None = None,
        document_prompt: str | None = None,
        show_progress: bool = False,
        engine_options: Mapping[str, Any] | None = None,
    ) -> None:
        """Check the settings; nothing is read and nothing is loaded yet.

        The settings up to `document_prompt` are those of `onnx_embeddings.ModelRequest`, and
        `engine_options` are fields of `onnx_embeddings.EngineConfig`, which never change a
        vector. `show_progress` shows a bar on the standard error stream while texts become points.
        The settings of the model can be read, not set.

        Raises:
            SettingError: a value can't be used.
        """
        self._request = ModelRequest(
            model=model,  # type: ignore[arg-type]  # takes paths
            revision=revision,
            precision=precision,
            variant=variant,
            dim=dim,
            max_tokens=max_tokens,
            long_text=long_text,
            query_prompt=query_prompt,
            document_prompt=document_prompt,
        )
        self._config = EngineConfig.from_dict({} if engine_options is None else engine_options)
        self._engine: Engine | None = None
        self._is_given = False
        self.show_progress = show_progress

    @classmethod
    def from_engine(cls, engine: Engine, *, show_progress: bool = False) -> Self:
        """An embedder that uses this engine, and makes none of its own."""
        if not isinstance(engine, onnx_embeddings.Engine):
            raise SettingError("engine", engine, "must be an Engine, as load() returns it")
        embedder = cls(show_progress=show_progress)
        embedder._request, embedder._config = engine.request, engine.config
        embedder._engine, embedder._is_given = engine, True
        return embedder

    @property
    def request(self) -> ModelRequest:
        """What is asked of the engine: everything here that can change a vector."""
        return self._request

    @property
    def engine(self) -> Engine:
        """The engine, opened by the first who asks: its ``spec``, its ``path``, its ``stats()``.

        One that was closed is made anew; that of `from_engine` is its owner's, and stays closed.
        """
        # Threads that come at once make an engine each, on one session; the last one is kept.
        engine = self._engine
        if engine is None or (engine.closed and not self._is_given):
            engine = self._engine = onnx_embeddings.load(self._request, config=self._config)
            self._request = replace(self._request, variant=engine.request.variant)
        return engine

    def vector_params(self, **overrides: Any) -> models.VectorParams:
        """Size and distance of a collection's vectors, as the model says.

        Args:
            overrides: other fields of `models.VectorParams`: ``on_disk``, ``hnsw_config``, …
        """
        spec = self.engine.spec
        ours: dict[str, Any] = {"size": spec.dim, "distance": _DISTANCES[spec.similarity]}
        return models.VectorParams(**ours | overrides)

    def points(
        self,
        texts: Iterable[str],
        *,
        ids: Iterable[int | str | UUID] | None = None,
        payloads: Iterable[Mapping[str, Any] | None] | None = None,
        vector_name: str | None = None,
        text_key: str | None = "text",
    ) -> list[models.PointStruct]:
        """N points for N texts that are to be found, in their order.

        Args:
            texts: any iterable of strings.
            ids: one for each text; None is `point_id` of the text, so that equal texts are one
                point, which can't have two payloads.
            payloads: one dictionary for each text, or None.
            vector_name: the named vector to fill; None is the collection's only, unnamed one.
            text_key: where the payload holds the text; None leaves the payload as it is.

        Returns:
            Each with a flat list of D Python floats as its vector, or as its named vector.

        Raises:
            InputError: an item is no valid text, its id or payload is none, or its id is that of
                another text or payload; its place is in the message and in ``index``.
            ModelError: the model can't be found, fetched, read or loaded.
        """
        rows = list(read_rows(texts, ids, payloads, text_key))
        distinct(rows)  # or raise: of points with one id, Qdrant keeps the last
        vectors = embed_rows(self.engine, rows, progress=self.show_progress)
        return to_points(rows, vectors, vector_name)

    def query_vector(self, text: str) -> list[float]:
        """The vector, D Python floats, of a text to search with; it gets the query prompt.

        For ``client.query_points(name, query=embedder.query_vector("…"))``.

        Raises:
            InputError: `text` is no valid text.
        """
        return self._embed_queries([text])[0]

    async def apoints(
        self,
        texts: Iterable[str],
        *,
        ids: Iterable[int | str | UUID] | None = None,
        payloads: Iterable[Mapping[str, Any] | None] | None = None,
        vector_name: str | None = None,
        text_key: str | None = "text",
    ) -> list[models.PointStruct]:
        """As `points`, in a thread, which goes on if this is cancelled."""
        return await asyncio.to_thread(
            self.points,
            texts,
            ids=ids,
            payloads=payloads,
            vector_name=vector_name,
            text_key=text_key,
        )

    async def aquery_vector(self, text: str) -> list[float]:
        """As `query_vector`, in a thread."""
        return await asyncio.to_thread(self.query_vector, text)

    def infer_points(self, points: Any) -> Any:
        """The same points, with the vector of a document for each `models.Document`.

        Documents that name another model stay, for a server that runs it.

        Args:
            points: a list of points, a batch, or anything else of Qdrant's models.

        Raises:
            SettingError: a document has options.
            InputError: a text can't be embedded, or `points` is an iterator.
        """
        return replace_documents(points, self._request.model, self._embed_documents)

    def infer_query(self, query: Any) -> Any:
        """The same query, prefetch or request, with the vector of a query for each document.

        Differs from `infer_points` only in the prompt, for models that have one.
        """
        return replace_documents(query, self._request.model, self._embed_queries)

    def _embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [vector.tolist() for vector in self.engine.embed_documents(texts)]

    def _embed_queries(self, texts: list[str]) -> list[list[float]]:
        return [vector.tolist() for vector in self.engine.embed_queries(texts)]

    def __repr__(self) -> str:
        return f"OnnxEmbedder({self._request!r})"
