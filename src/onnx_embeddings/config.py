"""EngineConfig: how an engine works. Nothing in here ever changes a vector."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from onnx_embeddings.errors import SettingError
from onnx_embeddings.settings import whole_number

_TRUE = frozenset({"1", "true", "yes", "on"})
_FALSE = frozenset({"0", "false", "no", "off"})
_NO_FOLDERS = frozenset({"", "none", "off", "no", "0", "false"})  # words that mean None
_MOST_DIGITS = 6
_MOST_BYTES = 2**60


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineConfig:
    """How an engine works; equal vectors come out whatever is set here.

    A field that is None takes its value when an engine opens: from the environment variable
    named below, else the default named below.

    Attributes:
        cache: where vectors are kept on disk, so that none is computed twice: a folder, None for
            nowhere, or ``"auto"``: ``ONNX_EMBEDDINGS_CACHE`` (a folder, or ``off``), else the
            folder ``vectors`` in `home`. With that last one, a cache that can't be used is logged
            and done without; a folder that was named and can't be used is a `CacheError`.
        cache_bytes: how much the cache's database may take, 1 GiB by default; a log beside it
            takes some MB more. Above it, the vectors used least recently go.
        lanes: how many batches of this engine run at a time, one thread each.
            ``ONNX_EMBEDDINGS_LANES``, else the processors this process may use (affinity and
            container quota respected). All engines of a process together run as many as the
            largest of them says.
        batch_tokens: the budget of a batch in padded cells: texts times tokens of the longest.
            A single text above it runs alone.
        home: the folder that keeps downloaded and compiled models. ``ONNX_EMBEDDINGS_HOME``,
            else the user's cache folder.
        offline: never touch the network. ``ONNX_EMBEDDINGS_OFFLINE``, else ``HF_HUB_OFFLINE``,
            else False.
        mirror: where models are asked for before the hub: a folder, or the address of a server of
            plain files, ``https://host/models/{model}/{revision}/{file}``; what is missing of
            ``{model}`` and ``{file}`` is put behind it. ``ONNX_EMBEDDINGS_MIRROR``, else none.
    """

    cache: str | os.PathLike[str] | None = "auto"
    cache_bytes: int = 2**30
    lanes: int | None = None
    batch_tokens: int = 512
    home: str | os.PathLike[str] | None = None
    offline: bool | None = None
    mirror: str | os.PathLike[str] | None = None

    def __post_init__(self) -> None:
        """Check every value.

        Raises:
            SettingError: a value cannot be used.
        """
        if isinstance(self.cache, str) and self.cache.lower() == "auto":
            object.__setattr__(self, "cache", "auto")
        if self.cache is not None and not _names_a_folder(self.cache, but=_NO_FOLDERS):
            raise SettingError("cache", self.cache, "must be 'auto', None for none, or a folder")
        size = whole_number("cache_bytes", self.cache_bytes)
        if size > _MOST_BYTES:
            raise SettingError("cache_bytes", size, f"must be at most {_MOST_BYTES}")
        object.__setattr__(self, "cache_bytes", size)
        if self.lanes is not None:
            object.__setattr__(self, "lanes", whole_number("lanes", self.lanes))
        budget = whole_number("batch_tokens", self.batch_tokens)
        object.__setattr__(self, "batch_tokens", budget)
        if self.home is not None and not _names_a_folder(self.home, but=("",)):
            raise SettingError("home", self.home, "must be a folder")
        if not isinstance(self.offline, bool | None):
            raise SettingError("offline", self.offline, "must be True or False")
        if self.mirror is not None and not _names_a_folder(self.mirror, but=("",)):
            raise SettingError("mirror", self.mirror, "must be a folder or an address")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> EngineConfig:
        """A configuration from named values, as adapters get them.

        Raises:
            SettingError: there is a name that no field has, or a value that cannot be used.
        """
        if not isinstance(values, Mapping):
            raise SettingError("engine_options", values, "must be a dictionary")
        known = [field.name for field in fields(cls)]
        for name, value in values.items():
            if name not in known:
                raise SettingError(name, value, f"no such option, there are {', '.join(known)}")
        return cls(**values)

    def absolute(self) -> EngineConfig:
        """The same configuration with folders that do not depend on the current one."""
        cache = None if self.cache == "auto" else self.cache
        return replace(
            self,
            home=_absolute(self.home),
            cache=self.cache if cache is None else _absolute(cache),
            mirror=self.mirror if _is_address(self.mirror) else _absolute(self.mirror),
        )

    def resolved(self) -> EngineConfig:
        """This configuration with the environment read and the defaults of folders filled in.

        `lanes` stays None where neither says a number: the processors are the engine's to count.

        Raises:
            SettingError: an environment variable has a value that cannot be used.
        """
        return replace(
            self,
            cache=self._cache(),
            lanes=_lanes() if self.lanes is None else self.lanes,
            home=self.home_path,
            offline=_offline() if self.offline is None else self.offline,
            mirror=self._mirror(),
        )

    def _mirror(self) -> str | None:
        text = self.mirror or os.environ.get("ONNX_EMBEDDINGS_MIRROR", "").strip()
        if not text:
            return None
        text = os.fspath(text)
        if _is_address(text):
            return text
        return str(_folder("mirror" if self.mirror else "ONNX_EMBEDDINGS_MIRROR", text))

    def _cache(self) -> Path | str | None:
        if self.cache is None:
            return None
        if self.cache != "auto":
            return _folder("cache", self.cache)
        text = os.environ.get("ONNX_EMBEDDINGS_CACHE", "").strip()
        if text.lower() in {"", "auto"}:
            return "auto"
        return None if text.lower() in _NO_FOLDERS else _folder("ONNX_EMBEDDINGS_CACHE", text)

    @property
    def home_path(self) -> Path:
        """`home`, with the default filled in."""
        return _home() if self.home is None else _folder("home", self.home)


def _absolute(folder: str | os.PathLike[str] | None) -> str | os.PathLike[str] | None:
    # A user's own folder stays as it is: it is the same from everywhere.
    if folder is None or Path(folder).is_absolute() or Path(folder).parts[:1] == ("~",):
        return folder
    return Path(folder).absolute()


def _is_address(mirror: str | os.PathLike[str] | None) -> bool:
    return mirror is not None and os.fspath(mirror).startswith(("http://", "https://"))


def _names_a_folder(value: object, but: Collection[str]) -> bool:
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    return isinstance(value, str) and value.lower() not in but and "\0" not in value


def _lanes() -> int | None:
    text = os.environ.get("ONNX_EMBEDDINGS_LANES", "").strip()
    if not text:
        return None
    if not text.isdecimal() or len(text) > _MOST_DIGITS or int(text) < 1:
        raise SettingError("ONNX_EMBEDDINGS_LANES", text, "must be a whole number of at least 1")
    return int(text)


def _folder(name: str, value: str | os.PathLike[str]) -> Path:
    try:
        return Path(value).expanduser().absolute()
    except RuntimeError as error:
        raise SettingError(name, value, "names a user who does not exist") from error


def _home() -> Path:
    text = os.environ.get("ONNX_EMBEDDINGS_HOME", "").strip()
    if text:
        return _folder("ONNX_EMBEDDINGS_HOME", text)
    from platformdirs import user_cache_path

    return user_cache_path("onnx-embeddings", appauthor=False)


def _offline() -> bool:
    for name in ("ONNX_EMBEDDINGS_OFFLINE", "HF_HUB_OFFLINE"):
        text = os.environ.get(name, "").strip().lower()
        if text in _TRUE:
            return True
        if text in _FALSE:
            return False
        if text:
            raise SettingError(name, text, "must be 1 or 0")
    return False
