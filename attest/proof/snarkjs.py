"""Export and import in the snarkjs layout: ``proof.json``, ``public.json``, ``verification_key.json``.

Numbers are decimal strings, G1 points [x, y, "1"], G2 points [[x0, x1], [y0, y1], ["1", "0"]] with the real part
first, curve "bn128" (snarkjs' name for BN254). ``vk_alphabeta_12`` is a cache of e(α, β) in that tool's own tower; it
is neither written nor read, verification does not use it. Imports are strict: a missing or wrong member, a
non-canonical number or a point off the curve raises :class:`LayoutError`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from attest.proof import bn254
from attest.proof.errors import LayoutError, ProofRefused
from attest.proof.keys import PUBLIC_MAX, Proof, VerificationKey
from attest.proof.signals import require_canonical

TEXT_CHARS_MAX: Final = 1 << 20
"""A key with the most public signals takes about 400 kB of JSON."""
BRACKETS_MAX: Final = PUBLIC_MAX + 64
"""Opening brackets in the largest key; bounds the parser's recursion whatever the interpreter's limit is."""
_DIGITS_MAX: Final = 77
"""Decimal digits of a 254-bit number."""

Json = Any
"""Parsed JSON, untyped until the functions here have checked it."""


def _error(found: str, expected: str) -> LayoutError:
    return LayoutError("snarkjs-layout", found=found, expected=expected)


def _g1(point: bn254.G1Point) -> list[str]:
    return [str(point.x), str(point.y), "1"]


def _g2(point: bn254.G2Point) -> list[list[str]]:
    return [[str(c) for c in point.x], [str(c) for c in point.y], ["1", "0"]]


def export_proof(proof: bytes) -> str:
    """``proof.json`` of 128 proof bytes; raises :class:`ProofRefused` (``proof-point``)."""
    decoded = Proof.decode(proof)
    body = {"pi_a": _g1(decoded.a), "pi_b": _g2(decoded.b), "pi_c": _g1(decoded.c)}
    return json.dumps({**body, "protocol": "groth16", "curve": "bn128"}, indent=1)


def export_public(signals: Sequence[int]) -> str:
    """``public.json``; raises :class:`ProofRefused` (``signal-range``)."""
    require_canonical(signals)
    return json.dumps([str(signal) for signal in signals], indent=1)


def export_verification_key(verification_key: bytes) -> str:
    """``verification_key.json``; raises :class:`ProofRefused` (``key-lint``)."""
    key = VerificationKey.decode(verification_key)
    body = {
        "protocol": "groth16",
        "curve": "bn128",
        "nPublic": key.n_public,
        "vk_alpha_1": _g1(key.alpha),
        "vk_beta_2": _g2(key.beta),
        "vk_gamma_2": _g2(key.gamma),
        "vk_delta_2": _g2(key.delta),
        "IC": [_g1(point) for point in key.ic],
    }
    return json.dumps(body, indent=1)


def _load(text: str) -> Json:
    if len(text) > TEXT_CHARS_MAX:
        raise _error(f"{len(text)} characters", f"at most {TEXT_CHARS_MAX}")
    brackets = text.count("[") + text.count("{")
    if brackets > BRACKETS_MAX:
        raise _error(f"{brackets} brackets", f"at most {BRACKETS_MAX}")
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _error("text that is not JSON", "JSON") from error


def _members(value: Json, names: Sequence[str]) -> dict[str, Json]:
    if not isinstance(value, dict):
        raise _error(type(value).__name__, "an object")
    missing = [name for name in (*names, "protocol", "curve") if name not in value]
    if missing:
        raise _error(f"no member {missing[0]!r}", ", ".join(names))
    if value["protocol"] != "groth16" or value["curve"] not in ("bn128", "bn254"):
        raise _error(f"{value['protocol']!r} over {value['curve']!r}", "groth16 over bn128")
    return value


def _number(value: Json) -> int:
    if not (isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= _DIGITS_MAX):
        raise _error(repr(value)[:80], "a decimal string")
    if value != str(int(value)):
        raise _error(repr(value), "no leading zero")
    return int(value)


def _list(value: Json, length: int) -> list[Json]:
    if not isinstance(value, list) or len(value) != length:
        raise _error(repr(value)[:80], f"a list of {length}")
    return value


def _parse_g1(value: Json) -> bn254.G1Point:
    x, y, z = (_number(item) for item in _list(value, 3))
    if z != 1 or not bn254.g1_on_curve(x, y):
        raise _error(f"({x}, {y}, {z})", "an affine point on the curve, z = 1")
    return bn254.G1Point(x, y)


def _parse_g2(value: Json) -> bn254.G2Point:
    rows = [tuple(_number(item) for item in _list(row, 2)) for row in _list(value, 3)]
    x, y = (rows[0][0], rows[0][1]), (rows[1][0], rows[1][1])
    if rows[2] != (1, 0) or not bn254.g2_on_curve(x, y):
        raise _error(f"{rows}", "an affine point on the twist, z = 1")
    return bn254.G2Point(x, y)


def import_proof(text: str) -> bytes:
    """The 128 proof bytes of ``proof.json``; the subgroup is checked when the proof is verified."""
    body = _members(_load(text), ("pi_a", "pi_b", "pi_c"))
    return Proof(_parse_g1(body["pi_a"]), _parse_g2(body["pi_b"]), _parse_g1(body["pi_c"])).encode()


def import_public(text: str) -> list[int]:
    """The public signals of ``public.json``, each below r."""
    value = _load(text)
    if not isinstance(value, list) or len(value) > PUBLIC_MAX:
        raise _error(type(value).__name__, f"a list of at most {PUBLIC_MAX} decimal strings")
    signals = [_number(item) for item in value]
    try:
        require_canonical(signals)
    except ProofRefused as refusal:
        raise _error(refusal.found, refusal.expected) from refusal
    return signals


def import_verification_key(text: str) -> bytes:
    """The binary key of ``verification_key.json``; raises :class:`ProofRefused` (``key-lint``) for a bad key."""
    names = ("nPublic", "vk_alpha_1", "vk_beta_2", "vk_gamma_2", "vk_delta_2", "IC")
    body = _members(_load(text), names)
    n_public = body["nPublic"]
    if not isinstance(n_public, int) or isinstance(n_public, bool) or not 1 <= n_public <= PUBLIC_MAX:
        raise _error(repr(n_public)[:80], f"nPublic from 1 to {PUBLIC_MAX}")
    key = VerificationKey(
        alpha=_parse_g1(body["vk_alpha_1"]),
        beta=_parse_g2(body["vk_beta_2"]),
        gamma=_parse_g2(body["vk_gamma_2"]),
        delta=_parse_g2(body["vk_delta_2"]),
        ic=tuple(_parse_g1(point) for point in _list(body["IC"], n_public + 1)),
    )
    key.lint()
    return key.encode()
