"""Export and import in the snarkjs layout: ``proof.json``, ``public.json``, ``verification_key.json``.

Numbers are decimal strings, G1 points [x, y, "1"], G2 points [[x0, x1], [y0, y1], ["1", "0"]] with the real part
first, curve "bn128" (snarkjs' name for BN254) or "bls12381". ``vk_alphabeta_12`` is a cache of e(α, β) in that tool's
own tower; it is neither written nor read, verification does not use it. Imports are strict: a missing or wrong member,
a non-canonical number or a point off the curve raises :class:`LayoutError`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from attest import jsontext
from attest.proof.circuit import Curve
from attest.proof.errors import LayoutError, ProofRefused
from attest.proof.keys import PUBLIC_MAX, Proof, VerificationKey
from attest.proof.points import G1Point, G2Point
from attest.proof.signals import require_canonical

TEXT_CHARS_MAX: Final = 1 << 20
"""A key with the most public signals takes about 600 kB of JSON on BLS12-381."""
BRACKETS_MAX: Final = PUBLIC_MAX + 64
"""Opening brackets in the largest key; bounds the parser's recursion whatever the interpreter's limit is."""
_DIGITS_MAX: Final = 115
"""Decimal digits of a 381-bit number."""
CURVE_NAMES: Final = {"bn128": Curve.BN254, "bn254": Curve.BN254, "bls12381": Curve.BLS12_381}
"""What is read; the first name of each curve is what is written."""

Json = Any
"""Parsed JSON, untyped until the functions here have checked it."""


def _error(found: str, expected: str) -> LayoutError:
    return LayoutError("snarkjs-layout", found=found, expected=expected)


def _g1(point: G1Point) -> list[str]:
    return [str(point.x), str(point.y), "1"]


def _g2(point: G2Point) -> list[list[str]]:
    return [[str(c) for c in point.x], [str(c) for c in point.y], ["1", "0"]]


def _name(curve: Curve) -> str:
    return next(name for name, known in CURVE_NAMES.items() if known is curve)


def export_proof(proof: bytes, *, curve: Curve) -> str:
    """``proof.json`` of 128 or 192 proof bytes; raises :class:`ProofRefused` (``proof-point``)."""
    decoded = Proof.decode(proof, curve)
    body = {"pi_a": _g1(decoded.a), "pi_b": _g2(decoded.b), "pi_c": _g1(decoded.c)}
    return jsontext.dumps({**body, "protocol": "groth16", "curve": _name(curve)}, indent=1)


def export_public(signals: Sequence[int], *, curve: Curve) -> str:
    """``public.json``; raises :class:`ProofRefused` (``signal-range``)."""
    require_canonical(signals, curve=curve)
    return jsontext.dumps([str(signal) for signal in signals], indent=1)


def export_verification_key(verification_key: bytes, *, fixed_gamma: bool = False) -> str:
    """``verification_key.json``; raises :class:`ProofRefused` (``key-lint``)."""
    key = VerificationKey.decode(verification_key, fixed_gamma=fixed_gamma)
    body = {
        "protocol": "groth16",
        "curve": _name(key.curve),
        "nPublic": key.n_public,
        "vk_alpha_1": _g1(key.alpha),
        "vk_beta_2": _g2(key.beta),
        "vk_gamma_2": _g2(key.gamma),
        "vk_delta_2": _g2(key.delta),
        "IC": [_g1(point) for point in key.ic],
    }
    return jsontext.dumps(body, indent=1)


def _load(text: str) -> Json:
    if len(text) > TEXT_CHARS_MAX:
        raise _error(f"{len(text)} characters", f"at most {TEXT_CHARS_MAX}")
    brackets = text.count("[") + text.count("{")
    if brackets > BRACKETS_MAX:
        raise _error(f"{brackets} brackets", f"at most {BRACKETS_MAX}")
    try:
        return jsontext.loads(text)
    except (ValueError, RecursionError) as error:
        raise _error("text that is not JSON", "JSON") from error


def _members(value: Json, names: Sequence[str]) -> tuple[Curve, dict[str, Json]]:
    if not isinstance(value, dict):
        raise _error(type(value).__name__, "an object")
    missing = [name for name in (*names, "protocol", "curve") if name not in value]
    if missing:
        raise _error(f"no member {missing[0]!r}", ", ".join(names))
    protocol, name = value["protocol"], value["curve"]
    if protocol != "groth16" or not isinstance(name, str) or name not in CURVE_NAMES:
        raise _error(f"{protocol!r} over {name!r}"[:80], f"groth16 over {' or '.join(CURVE_NAMES)}")
    return CURVE_NAMES[name], value


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


def _parse_g1(value: Json, curve: Curve) -> G1Point:
    x, y, z = (_number(item) for item in _list(value, 3))
    if z != 1 or not curve.parameters.g1_on_curve(x, y):
        raise _error(f"({x}, {y}, {z})", "an affine point on the curve, z = 1")
    return G1Point(x, y)


def _parse_g2(value: Json, curve: Curve) -> G2Point:
    rows = [tuple(_number(item) for item in _list(row, 2)) for row in _list(value, 3)]
    x, y = (rows[0][0], rows[0][1]), (rows[1][0], rows[1][1])
    if rows[2] != (1, 0) or not curve.parameters.g2_on_curve(x, y):
        raise _error(f"{rows}", "an affine point on the twist, z = 1")
    return G2Point(x, y)


def import_proof(text: str) -> tuple[Curve, bytes]:
    """Curve and proof bytes of ``proof.json``; the subgroup is checked when the proof is verified."""
    curve, body = _members(_load(text), ("pi_a", "pi_b", "pi_c"))
    a, b, c = _parse_g1(body["pi_a"], curve), _parse_g2(body["pi_b"], curve), _parse_g1(body["pi_c"], curve)
    return curve, Proof(a, b, c, curve).encode()


def import_public(text: str, *, curve: Curve) -> list[int]:
    """The public signals of ``public.json``, each below r of ``curve``."""
    value = _load(text)
    if not isinstance(value, list) or len(value) > PUBLIC_MAX:
        raise _error(type(value).__name__, f"a list of at most {PUBLIC_MAX} decimal strings")
    signals = [_number(item) for item in value]
    try:
        require_canonical(signals, curve=curve)
    except ProofRefused as refusal:
        raise _error(refusal.found, refusal.expected) from refusal
    return signals


def import_verification_key(text: str, *, fixed_gamma: bool = False) -> bytes:
    """The binary key of ``verification_key.json``; raises :class:`ProofRefused` (``key-lint``) for a bad key.

    ``fixed_gamma`` as in :class:`~attest.proof.verifier.PyEccVerifier`: keys of snarkjs itself need it.
    """
    key = read_verification_key(text)
    key.lint(fixed_gamma=fixed_gamma)
    return key.encode()


def read_verification_key(text: str) -> VerificationKey:
    """The same without the lint: for a caller that holds the key against its pinned hash first."""
    names = ("nPublic", "vk_alpha_1", "vk_beta_2", "vk_gamma_2", "vk_delta_2", "IC")
    curve, body = _members(_load(text), names)
    n_public = body["nPublic"]
    if not isinstance(n_public, int) or isinstance(n_public, bool) or not 1 <= n_public <= PUBLIC_MAX:
        raise _error(repr(n_public)[:80], f"nPublic from 1 to {PUBLIC_MAX}")
    return VerificationKey(
        alpha=_parse_g1(body["vk_alpha_1"], curve),
        beta=_parse_g2(body["vk_beta_2"], curve),
        gamma=_parse_g2(body["vk_gamma_2"], curve),
        delta=_parse_g2(body["vk_delta_2"], curve),
        ic=tuple(_parse_g1(point, curve) for point in _list(body["IC"], n_public + 1)),
        curve=curve,
    )
