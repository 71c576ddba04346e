"""Documents in, documents with vectors out."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from haystack import Document, component, default_to_dict

from haystack_integrations.components.embedders.onnx_embeddings.embedder import (
    OnnxEmbedder,
    checked_text,
)
from onnx_embeddings import DEFAULT_MODEL, ModelRequest
from onnx_embeddings.errors import SettingError

if TYPE_CHECKING:
    import os


@component
class OnnxDocumentEmbedder(OnnxEmbedder):
    """Embeds documents that are to be found, on this machine, with ONNX Runtime.

    .. code-block:: python

        embedder = OnnxDocumentEmbedder(meta_fields_to_embed=["title"])
        embedder.run([Document(content="a text")])["documents"][0].embedding  # list[float]

    There is no `batch_size`: the engine puts texts of similar length together, up to a budget of
    tokens (``engine_options={"batch_tokens": …}``), and a batch never changes a vector.

    The settings that are not listed are those of `OnnxTextEmbedder`.

    Args:
        prefix: put before every document's text, behind the document prompt.
        suffix: put behind it.
        meta_fields_to_embed: the values of these fields of a document's meta are embedded in
            front of its content.
        embedding_separator: put between these values and before the content.
        progress_bar: show a bar on the standard error stream.

    Raises:
        SettingError: a setting has a value that can't be used.
    """

    _prompt = "document_prompt"

    def __init__(  # noqa: PLR0913  every field of the request by name
        self,
        model: str | os.PathLike[str] = DEFAULT_MODEL,
        *,
        revision: str | None = None,
        precision: str | None = None,
        variant: str | None = None,
        dim: int | None = None,
        max_tokens: int | None = None,
        long_text: Literal["truncate", "error"] = "truncate",
        query_prompt: str | None = None,
        document_prompt: str | None = None,
        prefix: str = "",
        suffix: str = "",
        meta_fields_to_embed: list[str] | None = None,
        embedding_separator: str = "\n",
        progress_bar: bool = True,
        engine_options: dict[str, Any] | None = None,
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
        # No super(): @component makes the class anew, and super() would look for the old one.
        OnnxEmbedder.__init__(
            self, request, prefix=prefix, suffix=suffix, engine_options=engine_options
        )
        self.meta_fields_to_embed = _checked_names(meta_fields_to_embed)
        self.embedding_separator = checked_text("embedding_separator", embedding_separator)
        self.progress_bar = progress_bar

    def to_dict(self) -> dict[str, Any]:
        """Every init parameter, as Haystack saves it; secrets are not among them."""
        return default_to_dict(
            self,
            **self.request.to_dict(),
            prefix=self.prefix,
            suffix=self.suffix,
            meta_fields_to_embed=list(self.meta_fields_to_embed),
            embedding_separator=self.embedding_separator,
            progress_bar=self.progress_bar,
            engine_options=self.engine_options,
        )

    @component.output_types(documents=list[Document], meta=dict[str, Any])
    def run(self, documents: list[Document]) -> dict[str, Any]:
        """Embed documents that are to be found.

        Args:
            documents: they stay as they are. One without content is embedded as an empty text.

        Returns:
            ``documents``, new ones in the same order with the same ids and an embedding of D
            Python floats, and ``meta``, the ``model`` by its name.

        Raises:
            TypeError: `documents` is no list of Documents.
            InputError: a text is not valid, or too long where `long_text` is ``"error"``; its place
                is in the message and in ``index``.
            ModelError: the model can't be found, fetched, read or loaded.
        """
        _check_documents(documents)
        meta = {"model": self.model}
        if not documents:
            return {"documents": [], "meta": meta}
        texts = [self._text(document) for document in documents]
        vectors = self.engine.embed_documents(texts, progress=self.progress_bar)
        # Row by row: one call for all would hold the interpreter, and with it an event loop.
        embedded = [
            replace(document, embedding=row.tolist())
            for document, row in zip(documents, vectors, strict=True)
        ]
        return {"documents": embedded, "meta": meta}

    @component.output_types(documents=list[Document], meta=dict[str, Any])
    async def run_async(self, documents: list[Document]) -> dict[str, Any]:
        """As `run`, in a thread."""
        return await asyncio.to_thread(self.run, documents)

    def _text(self, document: Document) -> str:
        # Joined as by Haystack's own embedders, so that an index can be filled by either.
        values = [document.meta.get(name) for name in self.meta_fields_to_embed]
        parts = [str(value) for value in values if value is not None]
        text = self.embedding_separator.join([*parts, document.content or ""])
        return self.prefix + text + self.suffix


def _checked_names(names: object) -> list[str]:
    if names is None:
        return []
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise SettingError("meta_fields_to_embed", names, "must be a list of names of meta fields")
    return list(names)


def _check_documents(documents: object) -> None:
    wrong = "" if isinstance(documents, list) else f"not {type(documents).__name__}"
    for index, document in enumerate(documents if isinstance(documents, list) else []):
        if not isinstance(document, Document):
            wrong = f"and the item at index {index} is of type {type(document).__name__}"
            break
    if wrong:
        raise TypeError(
            f"OnnxDocumentEmbedder expects a list of Documents as input, {wrong}. "
            "To embed a string, use OnnxTextEmbedder."
        )
