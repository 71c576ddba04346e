"""What a model is asked for: fields that LlamaIndex writes and hashes, checked and then frozen."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any, Literal, Self

from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.bridge.pydantic import (
    ConfigDict,
    Field,
    PrivateAttr,
    field_validator,
    model_validator,
)

import onnx_embeddings
from onnx_embeddings import EngineConfig, ModelRequest
from onnx_embeddings.errors import SettingError

if TYPE_CHECKING:
    from collections.abc import Mapping


class EmbeddingSettings(BaseEmbedding):
    """The fields of `OnnxEmbedding`. None of those that change a vector can be assigned."""

    model_config = ConfigDict(
        extra="forbid", populate_by_name=True, strict=True, use_attribute_docstrings=True
    )

    model_name: str = Field(default=onnx_embeddings.DEFAULT_MODEL, alias="model", frozen=True)
    """A name (``org/name``), or a folder: a path or a text that starts with ``.``, ``/``, ``~``."""
    revision: str | None = Field(default=None, frozen=True)
    """A branch, tag or commit of the hub; None is the one that is known to be right."""
    precision: str | None = Field(default=None, frozen=True)
    """``"fp32"``; None is the precision that the model's files are meant for."""
    variant: str | None = Field(default=None, frozen=True)
    """Path inside the model's folder of a ready ONNX file; None compiles the weights."""
    dim: int | None = Field(default=None, frozen=True)
    """Keep only the first so many numbers of a vector, for models that were trained for it."""
    max_tokens: int | None = Field(default=None, frozen=True)
    """Cut texts to so many tokens, special tokens included; None is the model's own limit."""
    long_text: Literal["truncate", "error"] = Field(default="truncate", frozen=True)
    """What happens to a text that is longer."""
    query_prompt: str | None = Field(default=None, frozen=True)
    """Put before every query; None is the model's own prompt, ``""`` is none."""
    document_prompt: str | None = Field(default=None, frozen=True)
    """Put before every text that is no query; None is the model's own prompt, ``""`` is none."""
    engine_options: dict[str, Any] = Field(default_factory=dict, exclude=True, frozen=True)
    """Fields of `onnx_embeddings.EngineConfig`; they never change a vector, so no dump has them."""

    embed_batch_size: int = Field(default=1024, gt=0, le=2048)
    """Texts that the engine gets at a time; it makes batches of its own of them."""
    embeddings_cache: Any = Field(default=None, frozen=True)
    """Refused: its keys are texts alone. The engine has a cache by model, prompt and text."""

    _request: ModelRequest = PrivateAttr()
    _config: EngineConfig = PrivateAttr()

    @model_validator(mode="before")
    @classmethod
    def _without_class_name(cls, values: Any) -> Any:
        # LlamaIndex writes it into every dump, so what validates a dump meets it here.
        if isinstance(values, dict) and values.get("class_name") == cls.class_name():
            return {name: value for name, value in values.items() if name != "class_name"}
        return values

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
        if self.embeddings_cache is not None:
            raise SettingError(
                "embeddings_cache",
                self.embeddings_cache,
                "its keys are texts alone, so a query would get the vector of a document",
                "leave it out; the engine has a cache of its own, by model, prompt and text",
            )

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
