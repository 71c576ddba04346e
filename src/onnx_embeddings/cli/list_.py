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
    """List the models of the catalog, and others that are here.

    Any other model of the hub works by its name, too.
    """
    from onnx_embeddings import EngineConfig, inventory
    from onnx_embeddings.catalog import list_models

    config = EngineConfig().resolved()
    known = {model.name: model.to_dict() for model in list_models()}
    names = [*known, *(name for name in inventory.names_here(config) if name not in known)]
    models = []
    for name in names:
        size = sum(copy.size for copy in inventory.copies(name, config))
        if size or not here:
            models.append(known.get(name, {"name": name}) | {"on_disk_bytes": size})
    if as_json:
        output.document(models)
        return
    output.table(
        ["model", "dim", "tokens", "licence", "on disk"],
        [
            [
                *(str(model.get(key, "")) for key in ("name", "dim", "max_tokens", "licence")),
                output.size(model["on_disk_bytes"]) if model["on_disk_bytes"] else "",
            ]
            for model in models
        ],
    )
