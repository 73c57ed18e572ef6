"""Write the verifier's vectors: ``python -m tests.attest.proof.make_vectors``. Running it again changes nothing.

One file per curve and rule, named after the rule it breaks. The keys' secrets are seeded numbers (``trapdoor.py``), so
these keys are worth nothing; the formats and every check's name are fixed by them.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from attest.proof import Curve, key_hash
from attest.proof.keys import Proof, VerificationKey
from attest.proof.signals import to_signals
from tests.attest.proof.bad_points import (
    bad_proofs,
    g1_outside_subgroup,
    g2_outside_subgroup,
    infinity,
    negated,
    opposite_g1,
    opposite_g2,
    point_places,
    with_g2,
)
from tests.attest.proof.trapdoor import Trapdoor

VECTORS = Path(__file__).with_name("vectors")
INPUTS, OUTPUTS, CTX = (3, -5), (13,), bytes(range(1, 32))
N_PUBLIC = len(INPUTS) + len(OUTPUTS) + 1


@dataclass(frozen=True, slots=True)
class Case:
    """One key, statement and proof; ``code`` is the failed check, ``None`` where the proof verifies."""

    comment: str
    code: str | None
    curve: Curve
    key: bytes
    signals: tuple[int, ...]
    proof: bytes
    pinned: bytes | None = None
    fixed_gamma: bool = False

    def to_json(self) -> dict[str, Any]:
        pinned = key_hash(self.key) if self.pinned is None else self.pinned
        return {
            "schema": "sits-verify-1",
            "comment": self.comment,
            "result": "valid" if self.code is None else "invalid",
            "code": self.code,
            "curve": self.curve.text,
            "key": self.key.hex(),
            "vk_sha256": pinned.hex(),
            "fixed_gamma": self.fixed_gamma,
            "signals": [str(signal) for signal in self.signals],
            "proof": self.proof.hex(),
        }


def keys(curve: Curve, trapdoor: Trapdoor, honest: bytes) -> dict[str, bytes]:
    """Keys the lint refuses, by the rule they break."""
    it, key = curve.parameters, trapdoor.key()
    places = point_places(honest)

    def put(place: str, data: bytes) -> bytes:
        at, size = places[place]
        assert len(data) == size
        return honest[:at] + data + honest[at + size :]

    made = {
        "key-magic": b"SITSVK02" + honest[8:],
        "key-curve-unknown": honest[:8] + b"\x03" + honest[9:],
        "key-curve-of-the-other": honest[:8] + bytes([3 - curve]) + honest[9:],
        "key-truncated": honest[:-1],
        "key-trailing-byte": honest + b"\0",
        "key-count-zero": honest[:9] + bytes(4) + honest[13:],
        "key-count-huge": honest[:9] + b"\xff" * 4 + honest[13:],
        "key-gamma-is-delta": replace(key, delta=key.gamma).encode(),
        "key-gamma-is-minus-delta": replace(key, delta=opposite_g2(curve, key.gamma)).encode(),
        "key-alpha-generator": put("alpha", it.g1_compress(it.g1_generator)),
        "key-ic-minus-generator": put("ic1", it.g1_compress(opposite_g1(curve, it.g1_generator))),
        "key-ic-equal": put("ic1", it.g1_compress(key.ic[0])),
        "key-ic-opposite": put("ic1", it.g1_compress(opposite_g1(curve, key.ic[0]))),
        "key-alpha-not-canonical": put(
            "alpha", (it.p | it.smaller << 8 * (it.g1_bytes - 1)).to_bytes(it.g1_bytes, "big")
        ),
    }
    for name in ("beta", "gamma", "delta"):
        made[f"key-{name}-generator"] = with_g2(honest, name, it.g2_generator)
        made[f"key-{name}-outside-subgroup"] = with_g2(honest, name, g2_outside_subgroup(curve))
    for place, (_, size) in places.items():
        made[f"key-{place}-infinity"] = put(place, infinity(curve, size))
    if curve is Curve.BLS12_381:
        for place in ("alpha", "ic1"):
            made[f"key-{place}-outside-subgroup"] = put(place, it.g1_compress(g1_outside_subgroup(curve)))
    return made


def cases(curve: Curve) -> dict[str, Case]:
    trapdoor = Trapdoor.make(curve, N_PUBLIC, seed=20)
    key = trapdoor.key().encode()
    signals = tuple(to_signals(INPUTS, OUTPUTS, CTX, n_public=N_PUBLIC, curve=curve))
    proof = trapdoor.prove(signals)
    valid = Case("", None, curve, key, signals, proof)
    made = {"valid": valid, "valid-malleated": replace(valid, proof=negated(proof, curve))}

    fixed = replace(trapdoor, gamma=1)
    foreign = replace(valid, key=fixed.key().encode(), proof=fixed.prove(signals), fixed_gamma=True)
    made["valid-fixed-gamma"] = foreign
    made["key-fixed-gamma-not-asked-for"] = replace(foreign, code="key-lint", fixed_gamma=False)
    minus = VerificationKey.decode(foreign.key, fixed_gamma=True)
    opposite = replace(minus, gamma=opposite_g2(curve, minus.gamma)).encode()
    made["key-fixed-gamma-is-minus-generator"] = replace(foreign, code="key-lint", key=opposite)
    both = replace(minus, delta=minus.gamma).encode()
    made["key-fixed-gamma-is-delta"] = replace(foreign, code="key-lint", key=both)

    made["key-hash-of-another-key"] = replace(valid, code="key-hash", pinned=bytes(32))
    for name, broken in keys(curve, trapdoor, key).items():
        made[name] = replace(valid, code="key-lint", key=broken)
    made |= _statements(valid, trapdoor)
    for name, bad in bad_proofs(proof, curve).items():
        made[f"point-{name}"] = replace(valid, code="proof-point", proof=bad)
    return {name: replace(case, comment=name.replace("-", " ")) for name, case in made.items()}


def _statements(valid: Case, trapdoor: Trapdoor) -> dict[str, Case]:
    """Wrong counts, aliases and false statements."""
    r, x = valid.curve.parameters.r, valid.signals
    other = trapdoor.prove((1, 2, 3, 4), seed=3)
    one, two = (Proof.decode(data, valid.curve) for data in (valid.proof, other))
    alter: dict[str, Callable[[], Case]] = {
        "count-one-less": lambda: replace(valid, code="signal-count", signals=x[:-1]),
        "count-one-more": lambda: replace(valid, code="signal-count", signals=(*x, 0)),
        "count-none": lambda: replace(valid, code="signal-count", signals=()),
        "range-alias-x-plus-r": lambda: replace(valid, code="signal-range", signals=(x[0] + r, *x[1:])),
        "range-ctx-plus-r": lambda: replace(valid, code="signal-range", signals=(*x[:-1], x[-1] + r)),
        "range-is-r": lambda: replace(valid, code="signal-range", signals=(r, *x[1:])),
        "range-negative": lambda: replace(valid, code="signal-range", signals=(x[0] - r, *x[1:])),
        "pairing-largest-signal": lambda: replace(valid, code="proof-pairing", signals=(r - 1, *x[1:])),
        "pairing-output-plus-one": lambda: replace(valid, code="proof-pairing", signals=(*x[:2], x[2] + 1, x[3])),
        "pairing-inputs-swapped": lambda: replace(valid, code="proof-pairing", signals=(x[1], x[0], *x[2:])),
        "pairing-moved-to-another-ctx": lambda: replace(valid, code="proof-pairing", signals=(*x[:-1], x[-1] ^ 1)),
        "pairing-another-statement": lambda: replace(valid, code="proof-pairing", proof=other),
        "pairing-c-of-another-proof": lambda: replace(
            valid, code="proof-pairing", proof=replace(one, c=two.c).encode()
        ),
        "pairing-c-negated": lambda: replace(
            valid, code="proof-pairing", proof=replace(one, c=opposite_g1(valid.curve, one.c)).encode()
        ),
    }
    return {name: make() for name, make in alter.items()}


def everything() -> dict[str, str]:
    """File contents by path below ``vectors``."""
    return {
        f"{curve.text}/{name}.json": json.dumps(case.to_json(), indent=1) + "\n"
        for curve in Curve
        for name, case in cases(curve).items()
    }


def main() -> None:
    for name, text in everything().items():
        path = VECTORS / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
