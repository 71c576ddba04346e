"""Haystack reports how it is used, unless told otherwise before it is imported."""

from __future__ import annotations

import os

os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "False"
