"""`onnx-embeddings unpack`: the folder of a packed model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from onnx_embeddings.cli import output
from onnx_embeddings.cli.output import AsJson


def unpack(
    file: Annotated[Path, typer.Argument(help="A wheel or an archive that `pack` wrote.")],
    *,
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder to make.")],
    as_json: AsJson = False,
) -> None:
    """Unpack a packed model into a folder, every file verified. `load("./folder")` takes it."""
    from onnx_embeddings.packing import unpack as write

    said = write(file, out)
    if as_json:
        output.document({"folder": str(out), "manifest": said.to_dict()})
    else:
        output.line(f"{out}: {said.model} in {said.precision}, licensed as {said.licence}")
