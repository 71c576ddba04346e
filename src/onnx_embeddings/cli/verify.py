"""`onnx-embeddings verify`: read all files of a model again."""

from __future__ import annotations

import typer

from onnx_embeddings.cli import output
from onnx_embeddings.cli.output import AsJson, Model


def verify(model: Model, *, as_json: AsJson = False) -> None:
    """Read every file of a model's copies and compare it with what it must hold.

    What is damaged is named; the next start, or `pull`, fetches that file alone again, and compiles
    again what was compiled. The exit code is 1 if anything is damaged or nothing is there.
    """
    from onnx_embeddings import EngineConfig, inventory

    config = EngineConfig().resolved()
    findings = [inventory.verify(c, model, config) for c in inventory.copies(model, config)]
    damaged = [finding for finding in findings if finding.problem is not None]
    for finding in damaged:
        if finding.copy.kind in {"compiled", "store"}:
            # Nothing else would notice: what is in the store is trusted by its sizes.
            inventory.remove(finding.copy, config)
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
        state = f"{finding.files} files are right" if finding.problem is None else "DAMAGED"
        output.line(f"{finding.copy.kind} {finding.copy.path}: {state}")
        if finding.problem is not None:
            output.line(f"  {finding.problem}")
    if not findings:
        output.note(f"{model} is not on this disk; fetch it: onnx-embeddings pull {model}")
    if damaged or not findings:
        raise typer.Exit(1)
