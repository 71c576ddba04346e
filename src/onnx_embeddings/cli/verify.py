"""`onnx-embeddings verify`: read all files of a model again."""

from __future__ import annotations

from typing import Annotated

import typer

from onnx_embeddings.cli import output
from onnx_embeddings.cli.output import AsJson, Model


def verify(
    model: Model,
    *,
    delete: Annotated[
        bool, typer.Option("--delete", help="Delete damaged copies, but none in the hub cache.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Read every file of a model's copies and compare it with what it must hold.

    What is damaged is named, and is not used from now on: the next start, or `pull`, fetches that
    file of the hub cache alone again, and makes another copy of what was compiled. The exit code is
    1 if anything is damaged or nothing is there.
    """
    from onnx_embeddings import EngineConfig, inventory

    config = EngineConfig().resolved()
    findings = [inventory.verify(c, model, config) for c in inventory.copies(model, config)]
    wrong = [finding for finding in findings if finding.problem is not None]
    if as_json:
        output.document(
            [
                {
                    "kind": finding.copy.kind,
                    "path": str(finding.copy.path),
                    "files": finding.files,
                    "problem": finding.problem,
                }
                for finding in findings
            ]
        )
    for finding in findings if not as_json else ():
        state = "DAMAGED" if finding.is_damaged else "NOT READ"
        state = f"{finding.files} files are right" if finding.problem is None else state
        output.line(f"{finding.copy.kind} {finding.copy.path}: {state}")
        for problem in (finding.problem or "").splitlines():
            output.line(f"  {problem}")
    for finding in wrong if delete else ():
        if finding.is_damaged and finding.copy.kind in {"compiled", "store"}:
            inventory.remove(finding.copy, config)
            output.note(f"deleted: {finding.copy.path}")
    if not findings:
        output.note(f"{model} is not on this disk; fetch it: onnx-embeddings pull {model}")
    if wrong or not findings:
        raise typer.Exit(1)
