"""ModelSpec: what a request resolved to, its two digests, and the guard of vector spaces."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal

from onnx_embeddings.digests import digest
from onnx_embeddings.errors import SettingError, SpecMismatchError


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
    INT8 = "int8"


class Similarity(StrEnum):
    """How two vectors of a model are compared.

    Source: similarity_fn_name of config_sentence_transformers.json.
    """

    COSINE = "cosine"
    DOT = "dot"
    EUCLIDEAN = "euclidean"
    MANHATTAN = "manhattan"


_OF_THE_SPACE = ("weights", "tokenizer", "pooling", "normalize", "dim")
_OF_THE_FINGERPRINT = ("scheme", "max_tokens", "long_text", "query_prompt", "document_prompt")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSpec:
    """What a request resolved to: everything that changes a vector.

    Frameworks may persist it beside vectors: `to_dict` and `from_dict` go through JSON, `check`
    compares what was stored with what is used now.

    Attributes:
        model: the name or folder, for people; in no digest.
        weights: digest of the numbers and of the architecture they belong to.
        tokenizer: digest of the tokenizer's rules and vocabulary.
        pooling: how token vectors become one vector.
        normalize: whether vectors have unit length.
        dim: numbers of a vector.
        precision: ``fp32``, ``int8``, or ``own`` for a ready file that computes in another format.
        scheme: what the precision means exactly: ``fp32/1``, ``int8/1``, or ``onnx/<sha256>`` of a
            ready file.
        max_tokens: longest text in tokens, special tokens included.
        long_text: what happens to a longer one.
        query_prompt: put before every query.
        document_prompt: put before every document.
        similarity: how two vectors are compared, ``cosine``, ``dot``, ``euclidean`` or
            ``manhattan``; changes no vector, so it is in no digest.
        variant: path in the model's folder of the ready ONNX file that was asked for, the one that
            ``"auto"`` took; None where none was. In no digest: its content is in the scheme.
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
    similarity: Similarity = Similarity.COSINE
    variant: str | None = None

    @property
    def space(self) -> str:
        """sha256 in hexadecimal: vectors of different spaces must never be compared."""
        return digest(["space/1", {name: getattr(self, name) for name in _OF_THE_SPACE}])

    @property
    def fingerprint(self) -> str:
        """sha256 in hexadecimal: equal fingerprints, equal vectors (within the precision)."""
        values = {"space": self.space} | {name: getattr(self, name) for name in _OF_THE_FINGERPRINT}
        return digest(["fingerprint/1", values])

    def differences(self, other: ModelSpec) -> dict[str, tuple[Any, Any]]:
        """What makes vectors of the two differ: field -> (value here, value there)."""
        names = (*_OF_THE_SPACE, *_OF_THE_FINGERPRINT)
        pairs = {name: (getattr(self, name), getattr(other, name)) for name in names}
        return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}

    def check(
        self, stored: ModelSpec, *, where: str, accept: Literal["same-space"] | None = None
    ) -> None:
        """The guard of vector spaces: may vectors of this spec join, or search, those of another?

        With equal fingerprints they may. Of one space but made another way (precision, prompts,
        limit) they may if `accept` says so. Of two spaces never.

        Args:
            stored: what the vectors that are there were made with.
            where: what holds them, for the message: ``"collection 'notes'"``.
            accept: ``"same-space"`` lets the same space do.

        Raises:
            SpecMismatchError: they may not; the message names both models and what differs.
            SettingError: `accept` has another value.
        """
        given: object = stored
        if not isinstance(given, ModelSpec):
            hint = "ModelSpec.from_dict makes one of what to_dict gave"
            raise SettingError("stored", given, "must be a ModelSpec", hint)
        if accept not in (None, "same-space"):
            raise SettingError("accept", accept, "must be None or 'same-space'")
        differences = self.differences(stored)
        same_space = not differences.keys() & set(_OF_THE_SPACE)
        if differences and not (same_space and accept == "same-space"):
            raise SpecMismatchError(
                where,
                stored=stored.model,
                given=self.model,
                differences={name: (there, here) for name, (here, there) in differences.items()},
                same_space=same_space,
            )

    def check_file(
        self, file: str | os.PathLike[str], *, accept: Literal["same-space"] | None = None
    ) -> None:
        """As `check`, against the spec in a file; if there is none yet, this one is written there.

        One line at the start of a program, for an index that can't hold the spec itself:
        ``engine.spec.check_file("index/spec.json")``.

        Args:
            file: JSON, as `to_dict` gives it; its folder must exist.
            accept: ``"same-space"`` lets the same space do.

        Raises:
            SpecMismatchError: the file has another spec.
            SettingError: the file holds no spec that this version can read.
            OSError: it can't be read or written.
        """
        try:
            text = Path(file).read_text(encoding="utf-8")
        except FileNotFoundError:
            part = Path(f"{os.fspath(file)}.{secrets.token_hex(4)}.part")
            part.write_text(json.dumps(self.to_dict(), indent=1) + "\n", encoding="utf-8")
            try:
                part.replace(file)
            finally:
                part.unlink(missing_ok=True)
            return
        try:
            values = json.loads(text)
        except ValueError as error:
            raise SettingError("spec", text[:40], f"{file} is no JSON: {error}") from error
        self.check(self.from_dict(values), where=os.fspath(file), accept=accept)

    def to_dict(self) -> dict[str, Any]:
        """All fields as JSON types, with `space` and `fingerprint` for people who read them."""
        values = asdict(self) | {"space": self.space, "fingerprint": self.fingerprint}
        if self.variant is None:  # as records were before there were variants
            del values["variant"]
        # Members of an enumeration are texts too, but not everybody who stores a text takes them.
        return {k: str.__str__(v) if isinstance(v, str) else v for k, v in values.items()}

    @classmethod
    def from_dict(cls, values: object) -> ModelSpec:
        """The spec that `to_dict` came from.

        Raises:
            SettingError: it is not what this version's `to_dict` writes, or something in it that
                is in a digest was changed since.
        """
        hint = "a later version of onnx-embeddings may have written it; upgrade, or make it anew"
        if not isinstance(values, Mapping):
            raise SettingError("spec", values, "must be a dictionary", hint)
        types: dict[str, type] = {"normalize": bool, "dim": int, "max_tokens": int}
        known: dict[str, Any] = {field.name: values.get(field.name) for field in fields(cls)}
        for name, value in known.items():
            if name == "variant" and value is None:
                continue
            kind = types.get(name, str)
            if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
                raise SettingError(f"spec.{name}", value, "is missing or of another type", hint)
        try:
            known["pooling"] = Pooling(known["pooling"])
            known["similarity"] = Similarity(known["similarity"])
            spec = cls(**known)
            unchanged = spec.to_dict() == dict(values)
        except ValueError as error:  # no such pooling
            raise SettingError("spec", values, f"cannot be read: {error}", hint) from error
        if not unchanged:
            raise SettingError("spec", values, "has other fields, or was changed", hint)
        return spec
