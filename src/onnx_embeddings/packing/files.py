"""Files of packages: how they are named, and that they are whole."""

from __future__ import annotations

import re
import secrets
from typing import TYPE_CHECKING

from onnx_embeddings.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from onnx_embeddings.manifest import Manifest

_SEPARATORS = re.compile(r"[-_.]+")


def name_of(said: Manifest) -> str:
    """What tells a packed model from all others, as names of packages are normalised."""
    variant = "" if said.variant is None else said.variant.removesuffix(".onnx")
    name = f"{said.model}-{said.precision}-{variant}"
    return _SEPARATORS.sub("-", re.sub(r"[^A-Za-z0-9._-]", "-", name)).strip("-").lower()


def whole(out: Path, name: str, write: Callable[[Path], None]) -> Path:
    """A file that is there when it is written to its end, or not at all."""
    part = out / f".{name}.{secrets.token_hex(4)}.part"
    try:
        out.mkdir(parents=True, exist_ok=True)
        write(part)
        part.replace(out / name)
    except OSError as error:
        raise StoreError(out, str(error)) from error
    finally:
        part.unlink(missing_ok=True)
    return out / name
