"""Batches in, token vectors out: what runs the graphs, and on how many processors."""

from __future__ import annotations
