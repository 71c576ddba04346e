"""A query in, its vector out."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Literal

from haystack import component, default_to_dict

from haystack_integrations.components.embedders.onnx_embeddings.embedder import OnnxEmbedder
from onnx_embeddings import DEFAULT_MODEL, ModelRequest

if TYPE_CHECKING:
    import os


@component
class OnnxTextEmbedder(OnnxEmbedder):
    """Embeds a text to search with, on this machine, with ONNX Runtime.

    To make one costs nothing: settings are checked, the model is loaded by `warm_up` or the first
    `run`, and fetched the first time ever. All embedders of one model share it in the process.

    .. code-block:: python

        embedder = OnnxTextEmbedder()
        embedder.run("Who repairs the heating?")["embedding"]  # list[float]

    Args:
        model: a name (``org/name``), or a folder: a path or a text that starts with ``.``, ``/``
            or ``~``.
        revision: a branch, tag or commit of the hub; None is the one that is known to be right.
        precision: ``"fp32"``; None is the precision that the model's files are meant for.
        variant: path inside the model's folder of a ready ONNX file; None compiles the weights.
        dim: keep only the first so many numbers of a vector, for models that were trained for it.
        max_tokens: cut texts to so many tokens, special tokens included; None is the model's own.
        long_text: ``"error"`` raises for a text that is longer, instead of cutting it.
        query_prompt: put before every query; None is the model's own prompt, ``""`` is none.
        document_prompt: as `query_prompt`, for documents. Not used here; both embedders of a
            model take the same model settings.
        prefix: put before the text, behind the query prompt.
        suffix: put behind the text.
        engine_options: fields of `onnx_embeddings.EngineConfig`, as JSON types. They never change
            a vector; a saved pipeline keeps them, as part of how it is deployed.

    Raises:
        SettingError: a setting has a value that can't be used.
    """

    _prompt = "query_prompt"

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

    def to_dict(self) -> dict[str, Any]:
        """Every init parameter, as Haystack saves it; secrets are not among them."""
        return default_to_dict(
            self,
            **self.request.to_dict(),
            prefix=self.prefix,
            suffix=self.suffix,
            engine_options=self.engine_options,
        )

    @component.output_types(embedding=list[float], meta=dict[str, Any])
    def run(self, text: str) -> dict[str, Any]:
        """Embed a text to search with.

        Args:
            text: it gets the model's query prompt.

        Returns:
            ``embedding``, D Python floats, and ``meta``, the ``model`` by its name.

        Raises:
            TypeError: `text` is no string.
            InputError: `text` is no valid text, or too long where `long_text` is ``"error"``.
            ModelError: the model can't be found, fetched, read or loaded.
        """
        if not isinstance(text, str):
            raise TypeError(
                f"OnnxTextEmbedder expects a string as input, not {type(text).__name__}. "
                "To embed a list of Documents, use OnnxDocumentEmbedder."
            )
        vectors = self.engine.embed_queries([self.prefix + text + self.suffix])
        return {"embedding": vectors[0].tolist(), "meta": {"model": self.model}}

    @component.output_types(embedding=list[float], meta=dict[str, Any])
    async def run_async(self, text: str) -> dict[str, Any]:
        """As `run`, in a thread."""
        return await asyncio.to_thread(self.run, text)
