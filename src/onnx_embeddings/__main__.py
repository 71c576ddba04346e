"""`python -m onnx_embeddings`, the same as the command `onnx-embeddings`."""

from __future__ import annotations

from onnx_embeddings.cli import main

main()
