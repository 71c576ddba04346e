"""A model's name in, what is known of it out: its revision, its files' hashes, its mirrors.

The data lies in catalog.toml beside this module.
"""

from __future__ import annotations

import tomllib
from dataclasses import asdict, dataclass
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping


_ENTRY = "[[models]]\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogFile:
    """A file of a model: wherever it comes from, it has this content.

    Attributes:
        path: its place in the model's folder, with forward slashes.
        size: bytes.
        sha256: of its content, in hexadecimal.
        optional: whether the model works without it.
    """

    path: str
    size: int
    sha256: str
    optional: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Archive:
    """A zip file inside a wheel.

    Attributes:
        path: its place in the wheel.
        size: bytes.
    """

    path: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Mirror:
    """A package on the Python package index whose wheel holds the files of a model.

    Attributes:
        package: its name.
        version: its version, pinned.
        size: bytes of the wheel.
        sha256: of the wheel, in hexadecimal.
        folder: where the model's files lie, in the archive where there is one, else in the wheel.
        archive: a zip file inside the wheel that holds the folder.
    """

    package: str
    version: str
    size: int
    sha256: str
    folder: str
    archive: Archive | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogModel:
    """A model known by name.

    What a repository's own files say wins; of all this only a prompt is used where they say none.

    Attributes:
        name: its name on the hub, ``org/name``.
        aliases: other names that it is found by.
        family: the architecture, as its config.json names it.
        licence: SPDX identifier of the weights' licence, or ``other``.
        dim: numbers of a vector.
        max_tokens: longest text in tokens, special tokens included.
        languages: ISO 639-1, or ``multilingual``.
        source: ``files``: checked against the files below; ``card``: taken from the public card and
            the code of its authors, not checked.
        pooling: how token vectors become one vector.
        normalize: whether vectors have unit length.
        query_prompt: what its authors put before a query.
        document_prompt: what they put before a document.
        parameters: how many numbers it has.
        matryoshka: sizes that a vector may be cut to.
        ready: path of a ready ONNX file in its repository.
        unsupported: why no engine runs it yet.
        licence_note: what to know of the licence.
        revision_seen: a commit of the hub that others have measured; not pinned.
        revision: the commit of the hub that holds the files below.
        files: all its files, where their content is known.
        mirrors: in the order in which they are tried.
    """

    name: str
    aliases: tuple[str, ...]
    family: str
    licence: str
    dim: int
    max_tokens: int
    languages: tuple[str, ...]
    source: Literal["files", "card"]
    pooling: str | None = None
    normalize: bool | None = None
    query_prompt: str | None = None
    document_prompt: str | None = None
    parameters: int | None = None
    matryoshka: tuple[int, ...] = ()
    ready: str | None = None
    unsupported: str | None = None
    licence_note: str | None = None
    revision_seen: str | None = None
    revision: str | None = None
    files: tuple[CatalogFile, ...] = ()
    mirrors: tuple[Mirror, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """All that it is found by."""
        return (self.name, *self.aliases)

    def to_dict(self) -> dict[str, Any]:
        """What is known of the model, as JSON types; without its files."""
        values = asdict(self)
        return {k: v for k, v in values.items() if k not in {"files", "mirrors"}}

    def facts(self) -> list[tuple[str, str]]:
        """(what, value) for people; without what is not known."""
        prompts = {"query prompt": self.query_prompt, "document prompt": self.document_prompt}
        values = {
            "numbers": str(self.dim),
            "cut to": ", ".join(map(str, self.matryoshka)),
            "tokens": str(self.max_tokens),
            "pooling": self.pooling or "",
            **{name: repr(prompt) for name, prompt in prompts.items() if prompt},
            "languages": ", ".join(self.languages),
            "licence": f"{self.licence} {self.licence_note or ''}".strip(),
            "parameters": f"{self.parameters:,}" if self.parameters else "",
            "not supported": self.unsupported or "",
            "facts from": "its files" if self.source == "files" else "its card, not checked",
        }
        return [(name, value) for name, value in values.items() if value]


def list_models() -> tuple[CatalogModel, ...]:
    """The models of the catalog that an engine runs, by name. Others work by their name, too."""
    found = {model.name: model for model in models().values() if model.unsupported is None}
    return tuple(found[name] for name in sorted(found, key=str.lower))


def find(name: str) -> CatalogModel | None:
    """The model of this name or alias, or None if the catalog does not know it."""
    for text in _entries():
        # To read all of them would take longer than all the rest that a start does by name.
        if f'"{name}"' in text and name in (model := _read(text)).names:
            return model
    return None


@cache
def models() -> Mapping[str, CatalogModel]:
    """Every model of the catalog, by its name and by each alias."""
    by_name: dict[str, CatalogModel] = {}
    for text in _entries():
        model = _read(text)
        by_name |= dict.fromkeys(model.names, model)
    return MappingProxyType(by_name)


@cache
def _entries() -> tuple[str, ...]:
    """The text of each entry."""
    text = resources.files("onnx_embeddings").joinpath("catalog.toml").read_text("utf-8")
    _, *entries = text.split(_ENTRY)
    return tuple(entries)


@cache
def _read(entry: str) -> CatalogModel:
    (values,) = tomllib.loads(f"{_ENTRY}{entry}")["models"]
    return _model(values)


def _model(values: dict[str, Any]) -> CatalogModel:
    files = values.get("files", {}).items()
    return CatalogModel(
        **values
        | {name: tuple(values.get(name, ())) for name in ("aliases", "languages", "matryoshka")}
        | {
            "files": tuple(CatalogFile(path=path, **file) for path, file in files),
            "mirrors": tuple(_mirror(mirror) for mirror in values.get("mirrors", ())),
        }
    )


def _mirror(values: dict[str, Any]) -> Mirror:
    archive = values.get("archive")
    return Mirror(**values | {"archive": Archive(**archive) if archive else None})
