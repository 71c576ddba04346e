"""Writes docs/errors.md from errors.py: python docs/errors_page.py. A test fails when it is old."""

from __future__ import annotations

import inspect
from pathlib import Path

from onnx_embeddings import errors

PAGE = Path(__file__).parent / "errors.md"


def page() -> str:
    """The whole page."""
    tree = inspect.cleandoc(errors.__doc__ or "").split("::\n\n")[1].split("\n\n")[0]
    tree = "\n".join(line.removeprefix("    ") for line in tree.splitlines())
    parts = [
        "# Errors",
        (
            "Every exception is in `onnx_embeddings.errors`, under one root. The second base lets "
            "handlers that know only built-in exceptions work too. A message says what is wrong, "
            "then, on a line of its own, `Hint:` and the next step."
        ),
        f"```\n{tree}\n```",
    ]
    for name, kind in vars(errors).items():
        if inspect.isclass(kind) and issubclass(kind, errors.OnnxEmbeddingsError):
            text = inspect.getdoc(kind) or ""
            summary, _, attributes = text.partition("\n\nAttributes:\n")
            rows = [line.strip().partition(": ") for line in attributes.splitlines()]
            listed = "".join(f"\n- `{field}`: {what}" for field, _, what in rows if what)
            parts.append(f"## {name}\n\n{summary}" + (f"\n{listed}" if listed else ""))
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
