"""`onnx-embeddings pack`: a model as a Python package, or as a plain archive."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from onnx_embeddings.cli import output
from onnx_embeddings.cli.output import AsJson, Model, Precision, Revision, Variant


def pack(  # noqa: PLR0913  the options of the command
    model: Model,
    *,
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder to write to.")] = Path(
        "dist"
    ),
    revision: Revision = None,
    precision: Precision = None,
    variant: Variant = None,
    name: Annotated[
        str | None, typer.Option(help="The name it will be found by; needed for a folder.")
    ] = None,
    licence: Annotated[
        str | None, typer.Option(help="Of the model; needed where the catalog does not know it.")
    ] = None,
    version: Annotated[str, typer.Option(help="Of the package.")] = "1",
    archive: Annotated[
        bool, typer.Option("--archive", help="A tar archive, for images, instead of a wheel.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Pack a model with all that it needs, for machines without a network.

    A wheel is installed by pip, from a company's index or a USB stick; then every engine and
    adapter there finds the model by its name. `unpack` makes a folder of either.
    """
    from onnx_embeddings import EngineConfig, ModelRequest
    from onnx_embeddings.packing import pack as write

    request = ModelRequest(model=model, revision=revision, precision=precision, variant=variant)
    file, said = write(
        request,
        EngineConfig().resolved(),
        out,
        name=name,
        licence=licence,
        version=version,
        archive=archive,
    )
    if as_json:
        output.document({"file": str(file), "manifest": said.to_dict()})
        return
    output.line(f"{file} ({output.size(file.stat().st_size)})")
    output.line(f"holds {said.model} in {said.precision}, licensed as {said.licence}")
    output.line(
        f"unpack it there: onnx-embeddings unpack {file.name} -o FOLDER"
        if archive
        else f"install it there: pip install {file.name}"
    )
