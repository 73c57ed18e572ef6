"""JSON as RFC 8259 has it, written and read: Python's own module writes and takes NaN, Infinity and -Infinity.

A measurement that is no number reaches reports and snapshots sooner or later (a broken sensor, a hostile server's
"revised interval"); readers in other languages then refuse the whole file. So such a float becomes the text "NaN",
"Infinity" or "-Infinity" (as in OPC 10000-6, 5.4.2.4), and a file with those tokens is no JSON.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any, NoReturn


def dumps(
    value: object,
    *,
    indent: int | None = None,
    sort_keys: bool = False,
    ensure_ascii: bool = True,
    separators: tuple[str, str] | None = None,
    default: Callable[[Any], object] | None = None,
) -> str:
    """JSON text of plain data (dicts, lists, tuples, scalars); the options are those of ``json.dumps``.

    Raises TypeError for what is no plain data.
    """

    def text(plain: object) -> str:
        return json.dumps(
            plain,
            indent=indent,
            sort_keys=sort_keys,
            ensure_ascii=ensure_ascii,
            separators=separators,
            default=default,
            allow_nan=False,
        )

    try:
        return text(value)
    except ValueError:  # the rare case: a float that JSON has no number for
        return text(finite(value))


def finite(value: object) -> object:
    """``value`` with every NaN and infinity in it, keys too, as its text."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {finite(key): finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return value


def loads(data: str | bytes) -> Any:
    """The value of JSON text. Raises ValueError for NaN and infinities too, whether as a token or as 1e999."""
    return json.loads(data, parse_constant=_no_number, parse_float=_float)


def _float(text: str) -> float:
    value = float(text)
    return value if math.isfinite(value) else _no_number(text)


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text[:32]} is no JSON number")
