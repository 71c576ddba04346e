"""`onnx-embeddings info`: what is known of a model, and what its copies take."""

from __future__ import annotations

from onnx_embeddings.cli import output
from onnx_embeddings.cli.output import AsJson, Model


def info(model: Model, *, as_json: AsJson = False) -> None:
    """Show what is known of a model, and its copies on this disk. Nothing is fetched."""
    from onnx_embeddings import EngineConfig, catalog, inventory

    known = catalog.find(model)
    copies = inventory.copies(model, EngineConfig().resolved())
    if as_json:
        output.document(
            {
                "model": model if known is None else known.name,
                "known": None if known is None else known.to_dict(),
                "copies": [
                    {
                        "kind": copy.kind,
                        "path": str(copy.path),
                        "bytes": copy.size,
                        "precision": copy.precision,
                    }
                    for copy in copies
                ],
            }
        )
        return
    if known is None:
        output.line(f"{model}: not in the catalog; any model of the hub works by its name")
    else:
        output.line(known.name)
        for name, value in known.facts():
            output.line(f"  {name}: {value}")
    if not copies:
        output.line(f"not on this disk; fetch it: onnx-embeddings pull {model}")
        return
    output.table(
        ["copy", "precision", "size", "folder"],
        [[c.kind, c.precision or "", output.size(c.size), str(c.path)] for c in copies],
    )
