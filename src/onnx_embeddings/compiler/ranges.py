"""How far the values of a model reach, on sample texts: measured once, or shipped with us."""

from __future__ import annotations

import io
import zlib
from importlib import resources
from typing import TYPE_CHECKING

import numpy as np

from onnx_embeddings.compiler.int8 import Range, to_grid
from onnx_embeddings.errors import ModelFormatError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from onnx_embeddings.compiler.encoder import Array

_SHIPPED = "shipped_ranges"
_DIGITS = 16
_SIDES = ("least", "largest")


def from_outputs(values: Mapping[str, Array]) -> dict[str, Range]:
    """The ranges of all sites.

    Args:
        values: (batches, channels) of each output.
    """
    sites = dict.fromkeys(name.rpartition(".")[0] for name in values)
    return {
        site: Range(
            # With zero in it, so that both sides can be rounded away from it.
            least=to_grid(np.minimum(values[f"{site}.least"].min(axis=0), 0)),
            largest=to_grid(np.maximum(values[f"{site}.largest"].max(axis=0), 0)),
        )
        for site in sites
    }


def shipped(weights: str) -> bytes | None:
    """The file of ranges that we ship for weights of this digest, for `read`."""
    file = resources.files("onnx_embeddings.compiler").joinpath(_SHIPPED, file_name(weights))
    return file.read_bytes() if file.is_file() else None


def read(content: bytes, sites: Iterable[str], channels: int) -> dict[str, Range]:
    """The ranges in a file that `save` wrote, by site.

    Args:
        content: of the file.
        sites: what it must have.
        channels: of each site.

    Raises:
        ModelFormatError: it is damaged, or not of this model.
    """
    from zipfile import BadZipFile  # only here: most starts read no such file

    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as values:
            found = {
                site: Range(**{side: values[f"{site}.{side}"] for side in _SIDES}) for site in sites
            }
    except (ValueError, KeyError, TypeError, OSError, EOFError, BadZipFile, zlib.error) as error:
        raise _damaged(str(error)) from error
    for site, reach in found.items():
        if any(side.shape != (channels,) for side in (reach.least, reach.largest)):
            raise _damaged(f"{site} has not {channels} channels")
        if not np.isfinite(reach.largest - reach.least).all():
            raise _damaged(f"{site} is not finite")
    return found


def _damaged(reason: str) -> ModelFormatError:
    hint = "install onnx-embeddings again"
    return ModelFormatError(_SHIPPED, f"a file is damaged: {reason}", hint)


def save(ranges: Mapping[str, Range], folder: Path, weights: str) -> Path:
    """Write ranges into the folder, as `shipped` finds and `read` reads them."""
    file = folder / file_name(weights)
    arrays = {
        f"{site}.{side}": getattr(reach, side) for site, reach in ranges.items() for side in _SIDES
    }
    np.savez_compressed(file, **arrays)
    return file


def file_name(weights: str) -> str:
    """Of the file for weights of this digest."""
    return f"{weights[:_DIGITS]}.npz"
