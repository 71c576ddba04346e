"""ModelRequest: what was asked for. ModelSpec: what it resolved to, with its two digests."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal

from onnx_embeddings.digests import digest
from onnx_embeddings.errors import SettingError
from onnx_embeddings.settings import whole_number

DEFAULT_MODEL = "sentence-transformers/all-MiniLM-L6-v2"
"""The model that `load()` takes when none is named."""


class Pooling(StrEnum):
    """How the vectors of a text's tokens become one vector.

    Source: the modes of 1_Pooling/config.json, as sentence-transformers writes it.
    """

    CLS = "cls"
    MEAN = "mean"
    MAX = "max"
    MEAN_SQRT_LEN = "mean_sqrt_len"
    WEIGHTED_MEAN = "weighted_mean"
    LAST = "last"


class Precision(StrEnum):
    """The number format that a model computes in."""

    FP32 = "fp32"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """What was asked for: plain values that need no disk and no network.

    Adapters hold one, frameworks may persist it: `to_dict` and `from_dict` go through JSON.

    Attributes:
        model: a name (``org/name``), or a folder: a text that starts with ``.``, ``/``, ``~``
            or a drive, or any `pathlib.Path` (kept as a text that starts so).
        revision: a branch, tag or commit of the hub; None is the catalog's pinned commit, or the
            main branch for a model that the catalog does not know.
        precision: None is the precision the files are meant for: fp32 for a compiled model.
        variant: path inside the model's folder of a ready ONNX file to run as it is,
            ``onnx/model.onnx`` for example; None compiles the weights where there are any.
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
        if self.variant is not None and not _inside(self.variant):
            raise SettingError(
                "variant", self.variant, "must be a path to an .onnx file inside the model's folder"
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSpec:
    """What a request resolved to: everything that changes a vector.

    Attributes:
        model: the name or folder, for people; in no digest.
        weights: digest of the numbers and of the architecture they belong to.
        tokenizer: digest of the tokenizer's rules and vocabulary.
        pooling: how token vectors become one vector.
        normalize: whether vectors have unit length.
        dim: numbers of a vector.
        precision: ``fp32``, or ``own`` for a ready file that computes in another format.
        scheme: what the precision means exactly: ``fp32/1``, or ``onnx/<sha256>`` of a ready file.
        max_tokens: longest text in tokens, special tokens included.
        long_text: what happens to a longer one.
        query_prompt: put before every query.
        document_prompt: put before every document.
    """

    model: str
    weights: str
    tokenizer: str
    pooling: Pooling
    normalize: bool
    dim: int
    precision: str
    scheme: str
    max_tokens: int
    long_text: Literal["truncate", "error"]
    query_prompt: str
    document_prompt: str

    @property
    def space(self) -> str:
        """sha256 in hexadecimal: vectors of different spaces must never be compared."""
        names = ("weights", "tokenizer", "pooling", "normalize", "dim")
        return digest(["space/1", {name: getattr(self, name) for name in names}])

    @property
    def fingerprint(self) -> str:
        """sha256 in hexadecimal: equal fingerprints, equal vectors (within the precision)."""
        names = ("scheme", "max_tokens", "long_text", "query_prompt", "document_prompt")
        values = {"space": self.space} | {name: getattr(self, name) for name in names}
        return digest(["fingerprint/1", values])


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
    odd = {"\\", ":"} & set(path) or {"", ".", ".."} & set(parts)
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
