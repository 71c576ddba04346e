"""`onnx-embeddings remove`: delete the copies of a model."""

from __future__ import annotations

from typing import Annotated

import typer

from onnx_embeddings.cli import output
from onnx_embeddings.cli.output import AsJson, Model
from onnx_embeddings.errors import SettingError


def remove(
    model: Model,
    *,
    compiled: Annotated[
        bool, typer.Option("--compiled", help="Only what was compiled; it is made again.")
    ] = False,
    original: Annotated[
        bool,
        typer.Option("--original", help="Only what was fetched; other tools share the hub cache."),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: AsJson = False,
) -> None:
    """Delete a model from this disk: what was fetched, what was compiled, or (by default) both.

    Packages that hold a model are removed by pip.
    """
    from onnx_embeddings import EngineConfig, inventory

    config = EngineConfig().resolved()
    kinds = {"compiled"} if compiled else set()
    kinds |= {"store", "hub cache"} if original else set()
    kinds = kinds or {"compiled", "store", "hub cache"}
    everything = inventory.copies(model, config)
    packages = [inventory.package_of(copy) for copy in everything if copy.kind == "package"]
    copies = [copy for copy in everything if copy.kind in kinds]
    for copy in copies if not as_json else ():
        output.line(f"{copy.kind} {copy.path} ({output.size(copy.size)})")
    if copies and not yes:
        if as_json:
            raise SettingError("--json", "without --yes", "deletes nothing: nobody can be asked")
        typer.confirm("Delete?", abort=True)
    for copy in copies:
        inventory.remove(copy, config)
    freed = sum(copy.size for copy in copies)
    if as_json:
        output.document({"removed": [str(copy.path) for copy in copies], "bytes": freed})
    elif copies:
        output.line(f"{output.size(freed)} are free")
    else:
        output.note(f"nothing of {model} is on this disk that this command may delete")
        for package in packages:
            output.note(f"an installed package holds it: pip uninstall {package}")
