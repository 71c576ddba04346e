"""Safetensors files in, float32 arrays out, one at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

# ml_dtypes teaches numpy the name bfloat16, which safetensors asks it for.
import ml_dtypes  # noqa: F401
import numpy as np
from safetensors import SafetensorError, safe_open

from onnx_embeddings.errors import ModelFormatError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import numpy.typing as npt

_FLOATS = frozenset({"float32", "float16", "bfloat16"})


class Weights:
    """The tensors of a checkpoint by name, over one or many files."""

    def __init__(self, files: Sequence[Path], *, finite: bool = False) -> None:
        """Open the files; they are memory-mapped and read when a tensor is asked for.

        Args:
            files: of one checkpoint.
            finite: whether a tensor with other numbers is an error.

        Raises:
            ModelFormatError: a file is no safetensors file, or two hold the same tensor.
        """
        self._files = tuple(files)
        self._finite = finite
        self._open: list[Any] = []
        self._where: dict[str, tuple[Any, Path]] = {}
        for file in self._files:
            try:
                handle = safe_open(file, framework="numpy")
                names: list[str] = list(handle.keys())  # type: ignore[no-untyped-call]  # Rust
            except (SafetensorError, OSError, ValueError) as error:
                raise ModelFormatError(file, f"is not a safetensors file: {error}") from error
            self._open.append(handle)
            for name in names:
                if name in self._where:
                    raise ModelFormatError(file, f"holds {name!r}, and so does another file")
                self._where[name] = (handle, file)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._where.clear()
        self._open.clear()

    def __contains__(self, name: str) -> bool:
        return name in self._where

    def take(self, name: str, shape: tuple[int, ...]) -> npt.NDArray[np.float32]:
        """A tensor as float32; float16 and bfloat16 widen without loss.

        Raises:
            ModelFormatError: it is missing, has another shape or no floating-point numbers, or
                numbers that are not finite where they must be.
        """
        if name not in self._where:
            raise ModelFormatError(self._files[0], f"has no tensor {name!r}")
        handle, file = self._where[name]
        try:
            tensor: npt.NDArray[Any] = handle.get_tensor(name)
        except (SafetensorError, AttributeError, TypeError, ValueError) as error:
            raise ModelFormatError(file, f"tensor {name!r} cannot be read: {error}") from error
        if tensor.dtype.name not in _FLOATS:
            raise ModelFormatError(file, f"tensor {name!r} holds {tensor.dtype.name} numbers")
        if tensor.shape != shape:
            raise ModelFormatError(
                file, f"tensor {name!r} has shape {tensor.shape}, config.json asks for {shape}"
            )
        numbers = tensor.astype(np.float32, copy=False)
        if self._finite and not np.isfinite(numbers).all():
            raise ModelFormatError(
                file, f"tensor {name!r} holds numbers that are not finite", "fetch the model again"
            )
        return numbers
