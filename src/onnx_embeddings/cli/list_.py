"""`onnx-embeddings list`: the models that are known by name, and which of them are here."""

from __future__ import annotations

from typing import Annotated

import typer

from onnx_embeddings.cli import output
from onnx_embeddings.cli.output import AsJson


def list_(
    *,
    here: Annotated[bool, typer.Option("--here", help="Only those on this disk.")] = False,
    as_json: AsJson = False,
) -> None:
    """List the models of the catalog. Any other model of the hub works by its name, too."""
    from onnx_embeddings import EngineConfig, inventory
    from onnx_embeddings.catalog import list_models

    config = EngineConfig().resolved()
    models = []
    for model in list_models():
        copies = inventory.copies(model.name, config)
        if copies or not here:
            models.append((model, copies))
    if as_json:
        output.document(
            [
                model.to_dict() | {"on_disk_bytes": sum(copy.size for copy in copies)}
                for model, copies in models
            ]
        )
        return
    output.table(
        ["model", "dim", "tokens", "licence", "on disk"],
        [
            [
                model.name,
                str(model.dim),
                str(model.max_tokens),
                model.licence,
                output.size(sum(copy.size for copy in copies)) if copies else "",
            ]
            for model, copies in models
        ],
    )
