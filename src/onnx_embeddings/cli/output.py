"""What the commands print: tables and lines for people, one JSON document for scripts."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from onnx_embeddings.errors import OnnxEmbeddingsError

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document, for scripts.")]
Model = Annotated[
    str, typer.Argument(help="A name such as BAAI/bge-small-en-v1.5, or a folder: ./model.")
]
Revision = Annotated[str | None, typer.Option(help="Branch, tag or commit of the hub.")]
Precision = Annotated[str | None, typer.Option(help="fp32 or int8; the model's own by default.")]
Variant = Annotated[
    str | None,
    typer.Option(help="A ready ONNX file of the model, or auto for the best for this processor."),
]

_STEP = 1000.0
_ANY_WIDTH = 10_000  # where nobody looks, nothing is folded


def document(values: Any) -> None:
    """One JSON document on the standard output."""
    typer.echo(json.dumps(values, indent=1, ensure_ascii=False))


def line(text: str) -> None:
    """A line on the standard output."""
    typer.echo(text)


def note(text: str) -> None:
    """A line for people only, on the standard error stream."""
    typer.echo(text, err=True)


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """A table on the standard output, folded to the width of a terminal."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = _ANY_WIDTH
    drawn = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        drawn.add_column(column, overflow="fold")
    for row in rows:
        drawn.add_row(*row)
    console.print(drawn)


def failed(error: OnnxEmbeddingsError, *, as_json: bool) -> None:
    """What went wrong, and the next step."""
    if as_json:
        document({"error": {"type": type(error).__name__, "message": str(error)}})
    else:
        note(f"error: {error}")


def size(count: int) -> str:
    """Bytes for people: 23.7 MB."""
    value = float(count)
    for unit in ("B", "kB", "MB"):
        if value < _STEP:
            return f"{value:.0f} B" if unit == "B" else f"{value:.1f} {unit}"
        value /= _STEP
    return f"{value:.1f} GB"
