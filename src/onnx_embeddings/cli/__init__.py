"""The command `onnx-embeddings`: models onto this disk, into packages, and away.

One module per command; what they print goes through `output`.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from onnx_embeddings import __version__
from onnx_embeddings.cli import info, list_, pack, pull, remove, unpack, verify
from onnx_embeddings.cli.output import failed
from onnx_embeddings.errors import OnnxEmbeddingsError

app = typer.Typer(
    name="onnx-embeddings",
    help="Texts to vectors on your own machine. These commands look after models.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command("pull")(pull.pull)
app.command("list")(list_.list_)
app.command("info")(info.info)
app.command("verify")(verify.verify)
app.command("remove")(remove.remove)
app.command("pack")(pack.pack)
app.command("unpack")(unpack.unpack)


def _print_version(asked: bool) -> None:  # noqa: FBT001  typer calls it so
    if asked:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _options(
    *,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command; an error of ours is a line, not a traceback."""
    try:
        app()
    except OnnxEmbeddingsError as error:
        failed(error, as_json="--json" in sys.argv)
        sys.exit(1)
