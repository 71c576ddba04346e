"""`onnx-embeddings pull`: fetch a model ahead, and make it ready to start."""

from __future__ import annotations

import time

from onnx_embeddings.cli import output
from onnx_embeddings.cli.output import AsJson, Model, Precision, Revision, Variant


def pull(
    model: Model,
    *,
    revision: Revision = None,
    precision: Precision = None,
    variant: Variant = None,
    as_json: AsJson = False,
) -> None:
    """Fetch a model and compile it, so that it starts at once, also without a network."""
    from onnx_embeddings import load

    started = time.perf_counter()
    with load(model, revision=revision, precision=precision, variant=variant) as engine:
        spec, path = engine.spec, engine.path
    if as_json:
        output.document({"path": str(path), "spec": spec.to_dict()})
        return
    what = f"{spec.model}: {spec.dim} numbers, {spec.precision}, up to {spec.max_tokens} tokens"
    output.line(what if spec.variant is None else f"{what}, from {spec.variant}")
    output.line(f"ready in {path} ({time.perf_counter() - started:.1f} s)")
