"""ModelRequest: what was asked for."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal

from onnx_embeddings.errors import SettingError
from onnx_embeddings.settings import AUTO_VARIANT, whole_number
from onnx_embeddings.spec import Precision

DEFAULT_MODEL = "sentence-transformers/all-MiniLM-L6-v2"
"""The model that `load()` takes when none is named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """What was asked for: plain values that need no disk and no network.

    Adapters hold one, frameworks may persist it: `to_dict` and `from_dict` go through JSON.

    Attributes:
        model: a name (``org/name``), or a folder: a text that starts with ``.``, ``/``, ``~``
            or a drive, or any `pathlib.Path` (kept as a text that starts so).
        revision: a branch, tag or commit of the hub; None is the catalog's pinned commit, or the
            main branch for a model that the catalog does not know.
        precision: ``fp32`` or ``int8``; None is the precision the files are meant for, fp32 for a
            compiled model.
        variant: path inside the model's folder of a ready ONNX file to run as it is,
            ``onnx/model.onnx`` for example, or ``"auto"`` for the best for this processor; None
            compiles the weights where there are any.
        dim: keep only the first so many numbers of a vector (models trained for it: Matryoshka).
        max_tokens: cut texts to so many tokens, special tokens included; None is the model's own.
        long_text: ``"truncate"`` cuts a longer text, ``"error"`` raises `InputError`.
        query_prompt: put before every query; None is the model's own, ``""`` is none.
        document_prompt: put before every document; None is the model's own, ``""`` is none.
    """

    model: str = DEFAULT_MODEL
    revision: str | None = None
    precision: str | None = None
    variant: str | None = None
    dim: int | None = None
    max_tokens: int | None = None
    long_text: Literal["truncate", "error"] = "truncate"
    query_prompt: str | None = None
    document_prompt: str | None = None

    def __post_init__(self) -> None:
        """Check every value.

        Raises:
            SettingError: a value cannot be used.
        """
        object.__setattr__(self, "model", _model_text(self.model))
        if self.precision is not None:
            _one_of("precision", self.precision, [p.value for p in Precision])
            object.__setattr__(self, "precision", str(self.precision))
        _one_of("long_text", self.long_text, ["truncate", "error"])
        for name in ("dim", "max_tokens"):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, whole_number(name, value))
        for name in ("revision", "variant", "query_prompt", "document_prompt"):
            _text(name, getattr(self, name))
        if self.revision == "":
            raise SettingError("revision", self.revision, "must be a branch, a tag or a commit")
        if self.variant not in (None, AUTO_VARIANT) and not _inside(str(self.variant)):
            raise SettingError(
                "variant",
                self.variant,
                f"must be {AUTO_VARIANT!r} or a path to an .onnx file inside the model's folder",
            )
        if self.revision is not None and _is_folder(self.model):
            raise SettingError("revision", self.revision, "a folder on disk has no revisions")

    @property
    def folder(self) -> Path | None:
        """The folder asked for, or None where a name was.

        Raises:
            SettingError: it lies in the home of a user who does not exist.
        """
        if not _is_folder(self.model):
            return None
        try:
            return Path(self.model).expanduser()
        except RuntimeError as error:
            raise SettingError("model", self.model, "names a user who does not exist") from error

    def absolute(self) -> ModelRequest:
        """The same request with a folder that does not depend on the current one."""
        if self.folder is None or self.folder.is_absolute():
            return self
        return replace(self, model=str(self.folder.absolute()))

    def differences(self, other: ModelRequest) -> dict[str, tuple[Any, Any]]:
        """What is asked for otherwise: field -> (value here, value there)."""
        pairs = {f.name: (getattr(self, f.name), getattr(other, f.name)) for f in fields(self)}
        return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}

    def to_dict(self) -> dict[str, Any]:
        """All fields as JSON types."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> ModelRequest:
        """The request that `to_dict` came from; fields that are missing take their defaults.

        Raises:
            SettingError: there is a field that no request has, or a value that cannot be used.
        """
        if not isinstance(values, Mapping):
            raise SettingError("request", values, "must be a dictionary")
        known = {field.name for field in fields(cls)}
        for name, value in values.items():
            if name not in known:
                raise SettingError(name, value, f"no such field, there are {sorted(known)}")
        return cls(**values)


def _model_text(model: object) -> str:
    if isinstance(model, os.PathLike):
        text = os.fspath(model)
        # A relative path must still read as a folder once it is a text.
        return str(text) if _is_folder(str(text)) else f".{os.sep}{text}"
    if not isinstance(model, str) or not model.strip():
        raise SettingError("model", model, "must be a name such as 'org/name', or a folder")
    name = r"(?!\.+(?:/|$))[\w.-]+"
    if not _is_folder(model) and not re.fullmatch(rf"{name}(/{name})?", model, re.ASCII):
        raise SettingError(
            "model",
            model,
            "is neither a name such as 'org/name' nor a folder",
            "a folder starts with '.', '/', '~' or a drive; or give a pathlib.Path",
        )
    return model


def _is_folder(model: str) -> bool:
    return model.startswith((".", "/", "~", "\\")) or bool(re.match(r"[A-Za-z]:[\\/]", model))


def _inside(path: str) -> bool:
    parts = path.split("/")
    odd = {"\\", ":", "\0"} & set(path) or {"", ".", ".."} & set(parts)
    return path.endswith(".onnx") and not odd


def _text(name: str, value: object) -> None:
    if value is None:
        return
    if not isinstance(value, str):
        raise SettingError(name, value, "must be a string")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise SettingError(name, value, "holds half a character (a lone surrogate)") from error


def _one_of(name: str, value: object, allowed: list[str]) -> None:
    if value not in allowed:
        raise SettingError(name, value, f"must be one of {', '.join(allowed)}")
