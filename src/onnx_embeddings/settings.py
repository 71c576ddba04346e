"""Words and checks for the values that people set."""

from __future__ import annotations

import operator

from onnx_embeddings.errors import SettingError

AUTO_VARIANT = "auto"
"""The variant that stands for the best ready ONNX file for this processor."""


def whole_number(name: str, value: object) -> int:
    """The value as an int of at least 1; numpy's whole numbers are ones too.

    Raises:
        SettingError: it is something else.
    """
    try:
        number = operator.index(value)  # type: ignore[arg-type]  # it checks the type
    except TypeError:
        number = 0
    if isinstance(value, bool) or number < 1:
        raise SettingError(name, value, "must be a whole number of at least 1")
    return number
