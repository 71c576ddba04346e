"""What both embedders have: the model asked for, its engine, what goes around every text."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from haystack import default_from_dict

import onnx_embeddings
from onnx_embeddings import EngineConfig
from onnx_embeddings.errors import SettingError

if TYPE_CHECKING:
    from onnx_embeddings import Engine, ModelRequest


def _read(path: str, doc: str) -> Any:
    return property(attrgetter(path), doc=doc)


class OnnxEmbedder:
    """The half that the two components share; it is no component itself."""

    _prompt: ClassVar[str]
    """The field of `ModelSpec` that holds what the engine puts before every text."""

    # Haystack wants an attribute for each init parameter. These can only be read: they were checked
    # together, and an engine that is open would go on with the old value.
    model: str = _read("request.model", "The name or the folder that was asked for.")
    revision: str | None = _read("request.revision", "A branch, tag or commit of the hub.")
    precision: str | None = _read("request.precision", "None: what the files are meant for.")
    variant: str | None = _read("request.variant", "Path of a ready ONNX file; None: the weights.")
    dim: int | None = _read("request.dim", "How many numbers of a vector are kept; None: all.")
    max_tokens: int | None = _read("request.max_tokens", "None: the model's own limit.")
    long_text: Literal["truncate", "error"] = _read("request.long_text", "What a longer text gets.")
    query_prompt: str | None = _read("request.query_prompt", "None: the model's own prompt.")
    document_prompt: str | None = _read("request.document_prompt", "None: the model's own prompt.")
    prefix: str = _read("_prefix", "Put before every text, behind the prompt.")
    suffix: str = _read("_suffix", "Put behind every text.")

    def __init__(
        self,
        request: ModelRequest,
        *,
        prefix: str,
        suffix: str,
        engine_options: dict[str, Any] | None,
    ) -> None:
        self._request = request
        options = {} if engine_options is None else engine_options
        self._config = EngineConfig.from_dict(options)
        self._engine_options = dict(options)
        self._engine: Engine | None = None
        self._prefix = checked_text("prefix", prefix)
        self._suffix = checked_text("suffix", suffix)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """The embedder that `to_dict` came from; loads no model and leaves `data` as it is.

        Raises:
            SettingError: a setting has a value that can't be used.
        """
        return default_from_dict(cls, data)

    @property
    def engine_options(self) -> dict[str, Any]:
        """A copy of the options that the engine gets."""
        return dict(self._engine_options)

    @property
    def request(self) -> ModelRequest:
        """What is asked of the engine."""
        return self._request

    @property
    def engine(self) -> Engine:
        """The engine, opened by the first who asks: its ``spec``, its ``path``, its ``stats()``.

        Raises:
            ModelError: the model can't be found, fetched, read or loaded.
            SettingError: the model does not have what is asked for, or `prefix` repeats its prompt.
        """
        # Threads that come at once make an engine each, on one session; the last one is kept.
        engine = self._engine
        if engine is None or engine.closed:
            engine = onnx_embeddings.load(self._request, config=self._config)
            self._check_prefix(getattr(engine.spec, self._prompt))
            # What "auto" took is what `to_dict` keeps.
            self._request = replace(self._request, variant=engine.request.variant)
            self._engine = engine
        return engine

    def warm_up(self) -> None:
        """Load the model now, unless it is loaded; a run does it too, and raises the same."""
        _ = self.engine

    async def warm_up_async(self) -> None:
        """As `warm_up`, in a thread, since Haystack awaits it on the event loop."""
        await asyncio.to_thread(self.warm_up)

    def close(self) -> None:
        """Give the model back; the last one who has it frees its memory. The next run loads it."""
        # Not Engine.close: runs under way, and copies of this embedder, hold the same engine.
        self._engine = None

    def _check_prefix(self, prompt: str) -> None:
        """Refuse the prompt that other embedders needed as a prefix: the text would get it twice.

        Raises:
            SettingError: `prefix` starts with the model's own prompt.
        """
        if prompt.strip() and self.prefix.lstrip().startswith(prompt.strip()):
            raise SettingError(
                "prefix",
                self.prefix,
                f"the engine puts {prompt!r} before every text already",
                f"leave prefix empty, or turn the model's prompt off with {self._prompt}=''",
            )


def checked_text(name: str, value: object) -> str:
    """`value`, a string.

    Raises:
        SettingError: it is something else.
    """
    if not isinstance(value, str):
        raise SettingError(name, value, "must be a string")
    return value
