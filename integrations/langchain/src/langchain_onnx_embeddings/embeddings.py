"""LangChain's interface in, the engine's vectors out, as lists of Python floats."""

from __future__ import annotations

import asyncio
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, Literal, Self

from langchain_core.embeddings import Embeddings
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, field_validator

import onnx_embeddings
from onnx_embeddings import EngineConfig, ModelRequest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from onnx_embeddings import Engine


class OnnxEmbeddings(BaseModel, Embeddings):
    """Embeddings by a local model, run with ONNX Runtime.

    Setup:
        .. code-block:: bash

            pip install langchain-onnx-embeddings

    Instantiate:
        To make one costs nothing. The first text loads the model; the first time ever, it is
        fetched too. All objects with one model share it in the process.

        .. code-block:: python

            from langchain_onnx_embeddings import OnnxEmbeddings

            embeddings = OnnxEmbeddings()  # or model="org/name", or model="./a/folder"

    Embed:
        .. code-block:: python

            query = embeddings.embed_query("a question")  # list[float]
            vectors = embeddings.embed_documents(["a text", "another"])  # list[list[float]]
            query = await embeddings.aembed_query("a question")
            vectors = await embeddings.aembed_documents(["a text", "another"])

    An object is frozen, because vectors made before a change would not go with those made after
    it: ``embeddings.model_copy(update={"dim": 128})`` makes another one.
    """

    model_config = ConfigDict(
        extra="forbid",
        protected_namespaces=(),
        populate_by_name=True,
        frozen=True,
        strict=True,
        use_attribute_docstrings=True,
    )

    model_name: str = Field(default=onnx_embeddings.DEFAULT_MODEL, alias="model")
    """A name (``org/name``), or a folder: a path or a text that starts with ``.``, ``/``, ``~``."""
    revision: str | None = None
    """A branch, tag or commit of the hub; None is the one that is known to be right."""
    precision: str | None = None
    """``"fp32"``; None is the precision that the model's files are meant for."""
    variant: str | None = None
    """Path inside the model's folder of a ready ONNX file; None compiles the weights."""
    dim: int | None = None
    """Keep only the first so many numbers of a vector, for models that were trained for it."""
    max_tokens: int | None = None
    """Cut texts to so many tokens, special tokens included; None is the model's own limit."""
    long_text: Literal["truncate", "error"] = "truncate"
    """What happens to a text that is longer."""
    query_prompt: str | None = None
    """Put before every query; None is the model's own prompt, ``""`` is none."""
    document_prompt: str | None = None
    """Put before every document; None is the model's own prompt, ``""`` is none."""
    show_progress: bool = False
    """Show a bar on the standard error stream while documents are embedded."""
    engine_options: dict[str, Any] = Field(default_factory=dict, exclude=True)
    """Fields of `onnx_embeddings.EngineConfig`; they never change a vector, so no dump has them."""

    _request: ModelRequest = PrivateAttr()
    _config: EngineConfig = PrivateAttr()
    _engine: Engine | None = PrivateAttr(default=None)

    @field_validator("model_name", mode="before")
    @classmethod
    def _path_as_text(cls, value: object) -> str:
        return ModelRequest(model=value).model  # type: ignore[arg-type]  # it checks the type

    @field_validator("engine_options", mode="before")
    @classmethod
    def _none_are_no_options(cls, value: object) -> object:
        return {} if value is None else value

    def model_post_init(self, _context: Any, /) -> None:
        """Check all settings together, without touching disk or network."""
        values = {field.name: getattr(self, field.name) for field in fields(ModelRequest)[1:]}
        self._request = ModelRequest(model=self.model_name, **values)
        self._config = EngineConfig.from_dict(self.engine_options)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A copy; other than pydantic's own, one with an update is checked like a new object."""
        if not update:
            return super().model_copy(deep=deep)
        values = {name: getattr(self, name) for name in type(self).model_fields}
        changed = {"model_name" if name == "model" else name: update[name] for name in update}
        return type(self)(**values | changed)

    @property
    def model(self) -> str:
        """The name or the folder that was asked for, as `model_name`."""
        return self.model_name

    @property
    def request(self) -> ModelRequest:
        """What is asked of the engine: everything here that can change a vector."""
        return self._request

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

    @property
    def cache_namespace(self) -> str:
        """For `CacheBackedEmbeddings`: what tells vectors of documents from all others.

        Changes with all that changes a vector, and with nothing else; letters, digits and ``-``
        only. Loads the model.
        """
        return f"{self.engine.spec.fingerprint}-document"

    @property
    def query_cache_namespace(self) -> str:
        """As `cache_namespace`, for vectors of queries."""
        return f"{self.engine.spec.fingerprint}-query"

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """N vectors of D Python floats for N texts that are to be found.

        Raises:
            InputError: an item is no valid text; its place is in the message and in ``index``.
            ModelError: the model can't be found, fetched, read or loaded.
        """
        vectors = self.engine.embed_documents(texts, progress=self.show_progress)
        # Row by row: one call for all would hold the interpreter, and with it an event loop.
        return [row.tolist() for row in vectors]

    def embed_query(self, text: str) -> list[float]:
        """The vector, D Python floats, of a text to search with; it gets the query prompt.

        Raises:
            InputError: `text` is no valid text.
        """
        vector: list[float] = self.engine.embed_queries([text])[0].tolist()
        return vector

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        """As `embed_documents`, in a thread."""
        return await asyncio.to_thread(self.embed_documents, texts)

    async def aembed_query(self, text: str) -> list[float]:
        """As `embed_query`, in a thread."""
        return await asyncio.to_thread(self.embed_query, text)
