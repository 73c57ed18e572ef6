"""Canonical JSON out, strict JSON in: no duplicate keys, no NaN, bounded size and depth."""

from __future__ import annotations

import json
from typing import Any, NoReturn

from sitsedge.modules.errors import BundleError

JSON_BYTES_MAX = 1 << 20
"""Manifests, configs and statements are a few KiB; 1,024 signals with long names stay below 512 KiB."""

DEPTH_MAX = 16


def encode(value: object) -> bytes:
    """Sorted keys, no spaces, UTF-8: equal values give equal bytes.

    Raises ``BundleError`` (``bundle-json``) for NaN and infinities: what is signed holds numbers.
    """
    try:
        text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    except ValueError as error:
        raise _error("a part of the bundle", str(error)[:120], "finite numbers") from None
    return text.encode()


def decode(data: bytes, what: str, *, size_max: int = JSON_BYTES_MAX) -> Any:
    """Parse, or raise ``BundleError`` (``bundle-json``) naming ``what``."""
    if len(data) > size_max:
        raise _error(what, f"{len(data)} bytes", f"at most {size_max} bytes")
    depth = deepest = 0
    # Counted without regard to strings: an over-estimate, good enough to keep the parser's recursion small.
    for byte in data:
        if byte in b"[{":
            depth += 1
            deepest = max(deepest, depth)
        elif byte in b"]}":
            depth -= 1
    if deepest > DEPTH_MAX:
        raise _error(what, f"nesting of {deepest}", f"at most {DEPTH_MAX}")
    try:
        return json.loads(data.decode(), object_pairs_hook=_unique, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise _error(what, str(error)[:120], "strict JSON") from error


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("a key twice in one object")
    return result


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"the number {name}")


def _error(what: str, found: str, expected: str) -> BundleError:
    return BundleError("bundle-json", found=f"{what}: {found}", expected=expected)
