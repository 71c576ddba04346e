"""One way to make a digest of values, so that equal values have equal digests for good."""

from __future__ import annotations

import hashlib
import json


def digest(values: object) -> str:
    """sha256, in hexadecimal, of values of JSON types."""
    text = json.dumps(values, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()
