"""Decoded values as plain data for JSON: every frozen value of the codecs, whatever its protocol.

Integers stay integers, bytes become lower-case hexadecimal, NaN and the infinities become the texts ``NaN``,
``Infinity`` and ``-Infinity`` (OPC 10000-6, 5.4.2.4), because JSON has no numbers for them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum, StrEnum
from typing import Any
from uuid import UUID

_WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def plain(value: object) -> Any:
    """``value`` as dicts, lists and scalars. A dataclass has its name under ``struct``; raises TypeError for a value
    that no codec makes."""
    if value is None or (isinstance(value, bool | str) and not isinstance(value, Enum)):
        return value
    if isinstance(value, Enum):
        return value.value if isinstance(value, StrEnum) else value.name.lower().replace("_", "-")
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else _not_finite(value)
    if isinstance(value, bytes | bytearray):
        return value.hex()
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, Mapping):
        return {str(plain(key)): plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    if is_dataclass(value) and not isinstance(value, type):
        kind = _WORD.sub("-", type(value).__name__).lower()
        members = {item.name: plain(getattr(value, item.name)) for item in fields(value)}
        return {"struct": kind, **members}
    raise TypeError(f"no plain form of {type(value).__name__}")


def _not_finite(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"
