"""Every exception of this package, under one root.

::

    OnnxEmbeddingsError(Exception)
    ├── ModelError                     the model cannot be used
    │   ├── ModelNotFoundError         + FileNotFoundError   .model  .looked_in
    │   ├── ModelFormatError           + ValueError          .path  .reason
    │   ├── DownloadError              + ConnectionError     .source  .reason
    │   ├── VerificationError          + ValueError          .path  .expected  .found
    │   └── StoreError                 + OSError             .folder  .reason
    ├── SettingError                   + ValueError          .name  .value  .reason
    ├── SpecMismatchError              + ValueError          .where  .stored  .given  .differences
    ├── CacheError                     + RuntimeError        .folder  .reason
    ├── InputError                     + ValueError          .reason  .index of the bad text
    ├── InferenceError                 + RuntimeError        .shape of the batch  .reason
    └── ClosedError                    + RuntimeError        .model

The second base lets handlers that know only built-in exceptions work too. A message says what is
wrong, then, on a line of its own, ``Hint:`` and the next step. Every error survives pickling.
"""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_LONGEST_VALUE = 40  # characters of a value in a message; digests are 64


_BLOB_ID_DIGITS = 40


class OnnxEmbeddingsError(Exception):
    """Root of all errors of this package."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        self.hint = hint
        super().__init__(f"{message}\nHint: {hint}" if hint else message)

    def __str__(self) -> str:
        # A second base such as OSError or KeyError would print the message its own way.
        return str(self.args[0])

    def __reduce__(self) -> tuple[Any, ...]:
        # Subclasses take other arguments than the message, so rebuild without calling them.
        state = {name: _picklable(value) for name, value in self.__dict__.items()}
        return _rebuilt, (type(self), self.args, state)


def _picklable(value: object) -> object:
    """The value, or how it prints: a setting may have been given anything."""
    try:
        pickle.dumps(value)
    except Exception:  # noqa: BLE001  pickling raises what the value likes
        return repr(value)
    return value


def _rebuilt(
    kind: type[OnnxEmbeddingsError], args: tuple[Any, ...], state: dict[str, Any]
) -> OnnxEmbeddingsError:
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(state)
    return error


class ModelError(OnnxEmbeddingsError):
    """The model cannot be used."""


class ModelNotFoundError(ModelError, FileNotFoundError):
    """No source has the model, or its folder does not exist.

    Attributes:
        model: the name or the folder that was asked for.
        looked_in: each place that was tried, with what was found there.
    """

    def __init__(self, model: str, looked_in: Sequence[str] = (), hint: str | None = None) -> None:
        self.model = model
        self.looked_in = tuple(looked_in)
        places = "".join(f"\n  - {place}" for place in self.looked_in)
        super().__init__(
            f"model {model!r} was not found{', looked in:' if places else ''}{places}", hint
        )


class ModelFormatError(ModelError, ValueError):
    """The files of the model are damaged, incomplete, or of a kind that is not supported.

    Attributes:
        path: the file or folder that is wrong.
        reason: what is wrong with it.
    """

    def __init__(self, path: object, reason: str, hint: str | None = None) -> None:
        self.path = str(path)
        self.reason = reason
        super().__init__(f"{self.path}: {reason}", hint)


class DownloadError(ModelError, ConnectionError):
    """A file could not be fetched.

    Attributes:
        source: where it was to come from.
        reason: what happened.
    """

    def __init__(self, source: str, reason: str, hint: str | None = None) -> None:
        self.source = source
        self.reason = reason
        super().__init__(f"download from {source} failed: {reason}", hint)


class VerificationError(ModelError, ValueError):
    """A file does not have the content that it must have.

    Attributes:
        path: the file.
        expected: the sha256 it must have, in hexadecimal; of a small file of the hub the id of its
            git blob (40 digits).
        found: what it has.
    """

    def __init__(self, path: object, expected: str, found: str, hint: str | None = None) -> None:
        self.path = str(path)
        self.expected = expected
        self.found = found
        kind = "git blob id" if len(expected) == _BLOB_ID_DIGITS else "sha256"
        super().__init__(f"{self.path} has {kind} {found}, expected {expected}", hint)


class StoreError(ModelError, OSError):
    """The folder that keeps models cannot be read or written.

    Attributes:
        folder: the folder.
        reason: what the operating system says.
    """

    def __init__(self, folder: object, reason: str, hint: str | None = None) -> None:
        self.folder = str(folder)
        self.reason = reason
        super().__init__(
            f"model store {self.folder}: {reason}",
            hint or "set ONNX_EMBEDDINGS_HOME to a folder that is writable and has space",
        )


class SettingError(OnnxEmbeddingsError, ValueError):
    """A setting has a value that it cannot have.

    Attributes:
        name: the setting.
        value: the value that was given.
        reason: what it must be.
    """

    def __init__(self, name: str, value: object, reason: str, hint: str | None = None) -> None:
        self.name = name
        self.value = value
        self.reason = reason
        super().__init__(f"{name}={value!r}: {reason}", hint)


class SpecMismatchError(OnnxEmbeddingsError, ValueError):
    """Vectors of one model would join, or search, those of another.

    Attributes:
        where: what holds the vectors that are there.
        stored: the model that made them.
        given: the model that is used now.
        differences: what differs: field -> (value stored, value given).
        same_space: whether they could be compared all the same.
    """

    def __init__(  # noqa: PLR0913  one argument for each thing that the message names
        self,
        where: str,
        *,
        stored: str,
        given: str,
        differences: Mapping[str, tuple[Any, Any]],
        same_space: bool = False,
        hint: str | None = None,
    ) -> None:
        self.where = where
        self.stored = stored
        self.given = given
        self.differences = dict(differences)
        self.same_space = same_space
        lines = "".join(
            f"\n  - {name}: stored {_short(there)}, given {_short(here)}"
            for name, (there, here) in self.differences.items()
        )
        what = "made another way" if same_space else "of another vector space"
        allowed = ", or accept='same-space' to mix them on purpose" if same_space else ""
        super().__init__(
            f"{where} holds vectors {what}: made by {stored}, and now {given} is given{lines}",
            hint or f"use the model and settings that made them, or fill a new place{allowed}",
        )


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 2]}…{text[-1]}"


class CacheError(OnnxEmbeddingsError, RuntimeError):
    """The folder that was named for cached vectors cannot be used.

    Attributes:
        folder: the folder.
        reason: what is wrong with it.
    """

    def __init__(self, folder: object, reason: str, hint: str | None = None) -> None:
        self.folder = str(folder)
        self.reason = reason
        super().__init__(
            f"cache {self.folder}: {reason}",
            hint or "name a folder that is writable and has space, or cache=None for no cache",
        )


class InputError(OnnxEmbeddingsError, ValueError):
    """A text cannot be embedded.

    Attributes:
        reason: what is wrong with it.
        index: its place in the input, from 0; None if the input as a whole is wrong.
    """

    def __init__(self, reason: str, *, index: int | None = None, hint: str | None = None) -> None:
        self.reason = reason
        self.index = index
        super().__init__(reason if index is None else f"text at index {index}: {reason}", hint)


class InferenceError(OnnxEmbeddingsError, RuntimeError):
    """The runtime failed, or the model returned numbers that are not finite.

    Attributes:
        shape: (texts, longest text in tokens) of the batch.
        reason: what the runtime said.
    """

    def __init__(self, shape: tuple[int, int], reason: str, hint: str | None = None) -> None:
        self.shape = shape
        self.reason = reason
        super().__init__(f"batch of {shape[0]} texts, longest {shape[1]} tokens: {reason}", hint)


class ClosedError(OnnxEmbeddingsError, RuntimeError):
    """The engine was closed, or a stream of its vectors came into a forked process.

    Attributes:
        model: the model that it ran.
    """

    def __init__(self, model: str, *, forked: bool = False) -> None:
        self.model = model
        if forked:
            super().__init__(
                f"a stream of vectors from {model} goes on only in the process that began it",
                "call iter_documents() again in this one",
            )
        else:
            super().__init__(f"engine for {model} is closed", "call onnx_embeddings.load() again")
