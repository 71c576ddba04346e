"""What a source is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from onnx_embeddings.catalog import CatalogModel


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a source is asked for.

    Attributes:
        name: the model's name on the hub.
        revision: branch, tag or commit of the hub; None is the main branch.
        variant: the ready ONNX file asked for, None for the usual choice.
        precision: asked for; it matters where a model is packed in one.
        known: the catalog's entry where this very revision is asked for: then every file must
            have the catalog's content.
    """

    name: str
    revision: str | None = None
    variant: str | None = None
    precision: str | None = None
    known: CatalogModel | None = None
