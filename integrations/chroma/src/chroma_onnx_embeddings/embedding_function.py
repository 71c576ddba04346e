"""Chroma's interface in, the engine's vectors out, as float32 arrays."""

from __future__ import annotations

from dataclasses import replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal

from chromadb.api.types import Documents, EmbeddingFunction
from chromadb.utils.embedding_functions import register_embedding_function

import onnx_embeddings
from chroma_onnx_embeddings import guard
from onnx_embeddings import EngineConfig, ModelRequest

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from chromadb.api.models.CollectionCommon import CollectionCommon
    from chromadb.api.types import Embeddings, Space

    from onnx_embeddings import Engine


class _Unwrapped(EmbeddingFunction[Documents]):
    """Chroma's interface without what Chroma puts around `__call__`: that raises for no texts."""

    def __init_subclass__(cls) -> None:
        super(EmbeddingFunction, cls).__init_subclass__()


@register_embedding_function
class OnnxEmbeddingFunction(_Unwrapped):
    """An embedding function by a local model, run with ONNX Runtime.

    To make one costs nothing: settings are checked, the first text loads the model. Chroma makes
    these anew all the time; all that ask for the same share one engine in the process.

    >>> client = chromadb.PersistentClient("./chroma")
    >>> notes = open_collection(client, "notes", OnnxEmbeddingFunction())
    >>> notes.add(ids=["1"], documents=["a text"])
    >>> found = notes.query(query_texts=["a question"])

    `model` is a name (``org/name``), or a folder: a path or a text that starts with ``.``, ``/``
    or ``~``. From there to `document_prompt` the settings are those of
    `onnx_embeddings.ModelRequest`, which Chroma keeps with the collection; they can be read, not
    set. `show_progress` shows a bar while documents are embedded, `engine_options` are fields of
    `onnx_embeddings.EngineConfig`; those two belong to a process and never change a vector, so
    Chroma does not keep them.
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
        request = ModelRequest(
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
        # A collection may be opened again from another current folder.
        self._request = request.absolute()
        self._config = EngineConfig.from_dict({} if engine_options is None else engine_options)
        self._show_progress = show_progress
        self._engine: Engine | None = None

    def __repr__(self) -> str:
        return f"OnnxEmbeddingFunction({self._request!r})"

    def __getstate__(self) -> dict[str, Any]:
        # What is unpickled takes the engine of its own process.
        return self.__dict__ | {"_engine": None}

    @property
    def request(self) -> ModelRequest:
        """What is asked of the engine: everything here that can change a vector."""
        return self._request

    @property
    def engine(self) -> Engine:
        """The engine that all functions with these settings share; the first text opens it."""
        if self._engine is None or self._engine.closed:
            self._engine = onnx_embeddings.load_shared(self._request, config=self._config)
        return self._engine

    def __call__(self, input: Documents) -> Embeddings:
        """N arrays (D,) float32 for N texts that are to be found.

        Raises:
            InputError: an item is no valid text; its place is in the message and in ``index``.
            ModelError: the model can't be found, fetched, read or loaded.
        """
        return list(self.engine.embed_documents(input, progress=self._show_progress))

    def embed_query(self, input: Documents) -> Embeddings:
        """N arrays (D,) float32 for N texts to search with; they get the query prompt.

        Raises:
            InputError: as for documents.
        """
        return list(self.engine.embed_queries(input))

    def check(
        self,
        collection: CollectionCommon[Any],
        *,
        accept: Literal["same-space"] | None = None,
    ) -> None:
        """May vectors of this function join, or search, those of a collection?

        Chroma compares only the names of embedding functions, so `get_collection` takes one with
        another model without a word. Nothing is changed; the model is loaded if it must be.

        Args:
            collection: as any client returns it.
            accept: ``"same-space"`` allows another way of making vectors of one space: other
                prompts, another limit or precision.

        Raises:
            SpecMismatchError: they may not; the message names both and what differs.
            SettingError: what the collection says about its model can't be read.
        """
        guard.check(self, collection, accept)

    @staticmethod
    def name() -> str:
        """What Chroma keeps, and looks for when it opens a collection again."""
        return guard.NAME

    def default_space(self) -> Space:
        """The distance of a new collection whose configuration does not say one."""
        return "cosine"

    def supported_spaces(self) -> list[Space]:
        """All that Chroma has; for vectors of unit length they rank alike."""
        return ["cosine", "ip", "l2"]

    def get_config(self) -> dict[str, Any]:
        """The request as JSON types: what Chroma keeps with a collection.

        ``variant="auto"`` opens the model: the file that it took is kept, not the question.
        """
        if self._request.variant == "auto":
            self._request = replace(self._request, variant=self.engine.open().request.variant)
        return self._request.to_dict()

    @staticmethod
    def build_from_config(config: dict[str, Any]) -> OnnxEmbeddingFunction:
        """The function that `get_config` came from; needs neither the model nor the disk.

        Raises:
            SettingError: there is a field that this version does not know, or a bad value.
        """
        return OnnxEmbeddingFunction(**ModelRequest.from_dict(config).to_dict())

    @staticmethod
    def validate_config(config: dict[str, Any]) -> None:
        """Raise `SettingError` for a configuration that `build_from_config` would not take."""
        ModelRequest.from_dict(config)

    def validate_config_update(
        self, old_config: dict[str, Any], new_config: dict[str, Any]
    ) -> None:
        """Refuse to put another model, or other settings, in the place of those of a collection.

        Raises:
            SpecMismatchError: vectors would differ, or nobody can tell because the old model is
                not there.
        """
        guard.check_update(ModelRequest.from_dict(old_config), self.build_from_config(new_config))
