"""One honest command, and every way a command can be wrong, by the name of the rule it breaks.

Keys are fixed and Ed25519 is deterministic, so that the vectors can be made again bit for bit.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import cbor2
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from attest import cbor, cose
from attest.command import (
    Command,
    CommandHeader,
    GateRules,
    InputRule,
    Mode,
    OpenEpoch,
    OutputRule,
    ProofKind,
    ProofPolicy,
    Relation,
    SessionKey,
    TimeQuality,
    sign_command,
)
from attest.command.command import CONTENT_TYPE
from attest.proof.circuit import Curve
from attest.proof.commitment import statement_commitment

MS = 1_000_000
T0 = 1_790_000_000_000_000_000
GATE, DEVICE = "gate-1", "TPM2:0x81000001"
MODULE, DEPLOYMENT = hashlib.sha256(b"module").digest(), hashlib.sha256(b"deployment").digest()


def key(name: str) -> SessionKey:
    return SessionKey(Ed25519PrivateKey.from_private_bytes(hashlib.sha256(name.encode()).digest()))


SESSION, STRANGER = key("session"), key("stranger")
PROOF = bytes(range(128))
HEADER = CommandHeader(
    version=1,
    device_id=DEVICE,
    gate_id=GATE,
    epoch=7,
    sequence=100,
    t_source_ns=T0 - 5 * MS,
    t_decided_ns=T0 - 2 * MS,
    module_digest=MODULE,
    deployment_digest=DEPLOYMENT,
    mode=Mode.AUTO,
)
HONEST = Command(HEADER, (10, -20, 30, 40, 50, 60, 70, 80), (5, -5), ProofKind.GROTH16_BN254, PROOF, TimeQuality.PTP_SW)
RULES = GateRules(
    gate_id=GATE,
    inputs=tuple(InputRule(f"x{i}", -1000, 1000, 1_000_000) for i in range(8)),
    outputs=(OutputRule("y0", -100, 100, 1_000_000, (-10, 10), 20), OutputRule("y1", -100, 100)),
    relations=(Relation("sum", ((0, 1),), ((0, 2), (1, -1)), 150),),
    source_age_ms_max=50,
    decision_age_ms_max=20,
    decide_ms_max=30,
    future_ms_max=2,
    time_quality_min=TimeQuality.NTP,
)
EPOCH = OpenEpoch(7, DEVICE, SESSION.public, MODULE, DEPLOYMENT, T0 + 3_600_000 * MS)
PAYLOAD: dict[int, Any] = cbor.loads(cose.parse_sign1(sign_command(HONEST, SESSION)).payload)  # type: ignore[assignment]


def envelope(payload: bytes, *, protected: bytes | None = None, unprotected: object = None) -> bytes:
    """A signed object around any payload bytes."""
    head = protected or cbor.dumps({1: cose.EDDSA, 3: CONTENT_TYPE, 4: SESSION.kid})
    signature = SESSION.sign(cbor.dumps(["Signature1", head, GATE.encode(), payload]))
    return b"\xd2" + cbor2.dumps([head, unprotected or {}, payload, signature])


def edited(drop: Sequence[int] = (), **changes: object) -> bytes:
    """The honest payload with keys (``k5``) replaced or dropped."""
    payload = {k: v for k, v in PAYLOAD.items() if k not in drop} | {int(n[1:]): v for n, v in changes.items()}
    return envelope(cbor.dumps(dict(sorted(payload.items()))))


def head(**changes: object) -> bytes:
    """The honest payload under another protected header."""
    fields: dict[object, object] = {1: cose.EDDSA, 3: CONTENT_TYPE, 4: SESSION.kid}
    fields |= {int(name[1:]): value for name, value in changes.items()}
    return envelope(cbor.dumps(PAYLOAD), protected=cbor.dumps(fields))


_WHOLE = sign_command(HONEST, SESSION)
_CANONICAL = cbor.dumps(PAYLOAD)
_SEQUENCE = b"\x05\x18\x64"  # key 5, 100 in one byte

MALFORMED: dict[str, bytes] = {
    "empty": b"",
    "truncated": _WHOLE[:-1],
    "trailing-byte": _WHOLE + b"\0",
    "untagged": _WHOLE[1:],
    "other-tag": b"\xd1" + _WHOLE[1:],
    "three-parts": b"\xd2\x83\x40\xa0\x40",
    "unprotected-header-filled": envelope(_CANONICAL, unprotected={4: b"k"}),
    "alg-missing": envelope(_CANONICAL, protected=cbor.dumps({3: CONTENT_TYPE, 4: SESSION.kid})),
    "alg-unknown": head(h1=-37),
    "content-type-of-another-record": head(h3="application/vnd.sits.receipt+cbor"),
    "content-type-number": head(h3=60),
    "kid-short": head(h4=SESSION.kid[:-1]),
    "critical-header": head(h2=[1]),
    "payload-empty": envelope(b""),
    "payload-array": envelope(cbor.dumps([1, 2])),
    "payload-null": b"\xd2" + cbor2.dumps([cbor.dumps({1: -8, 3: CONTENT_TYPE, 4: SESSION.kid}), {}, None, b"s" * 64]),
    "key-missing": edited(drop=[15]),
    "key-16": edited(k16=0),
    "key-text": envelope(cbor.dumps(PAYLOAD | {"x": 1})),
    "keys-out-of-order": envelope(cbor2.dumps(dict(reversed(PAYLOAD.items())))),
    "key-twice": envelope(_CANONICAL.replace(_SEQUENCE, _SEQUENCE * 2, 1)),
    "integer-in-long-form": envelope(_CANONICAL.replace(_SEQUENCE, b"\x05\x19\x00\x64", 1)),
    "map-of-indefinite-length": envelope(b"\xbf" + _CANONICAL[1:] + b"\xff"),
    "float": envelope(_CANONICAL.replace(_SEQUENCE, b"\x05\xf9\x56\x40", 1)),
    "version-0": edited(k1=0),
    "version-2": edited(k1=2),
    "version-true": edited(k1=True),
    "device-id-empty": edited(k2=""),
    "device-id-with-space": edited(k2="TPM2 1"),
    "device-id-with-newline": edited(k2="TPM2\n"),
    "device-id-too-long": edited(k2="x" * 65),
    "device-id-bytes": edited(k2=b"TPM2"),
    "epoch-0": edited(k4=0),
    "epoch-over-63-bits": edited(k4=2**63),
    "sequence-0": edited(k5=0),
    "sequence-negative": edited(k5=-1),
    "t-source-negative": edited(k6=-1),
    "t-decided-text": edited(k7="now"),
    "module-digest-31-bytes": edited(k8=MODULE[:-1]),
    "deployment-digest-text": edited(k9="ff" * 16),
    "inputs-empty": edited(k10=[]),
    "inputs-too-many": edited(k10=[0] * 1025),
    "input-over-32-bits": edited(k10=[2**31]),
    "input-true": edited(k10=[True]),
    "inputs-bytes": edited(k10=b"12345678"),
    "outputs-empty": edited(k11=[]),
    "output-under-32-bits": edited(k11=[-(2**31) - 1]),
    "mode-5": edited(k12=5),
    "mode-text": edited(k12="AUTO"),
    "proof-kind-4": edited(k13=4),
    "proof-127-bytes": edited(k14=PROOF[:-1]),
    "proof-of-the-other-curve": edited(k13=2),
    "proof-without-kind": edited(k13=0),
    "commitment-of-31-bytes": edited(k13=3, k14=bytes(31)),
    "time-quality-4": edited(k15=4),
    "oversized": edited(k14=bytes(20_000)),
    "nested-too-deep": edited(k10=[[[[[0]]]]]),
}


@dataclass(frozen=True)
class Case:
    """What ``judge`` is given: commands accepted before, then the one it must refuse with ``code``."""

    code: str
    command: Command = HONEST
    data: bytes | None = None
    before: tuple[Command, ...] = ()
    rules: GateRules = RULES
    epoch: OpenEpoch | None = EPOCH
    now_ns: int = T0
    mode: Mode = Mode.AUTO
    plant: tuple[int, ...] | None = (0, 0)
    failed_check: str | None = None
    explained: tuple[int, ...] | None = field(default=None)
    signer: SessionKey = SESSION
    withdrawn: str | None = None

    def bytes(self) -> bytes:
        return sign_command(self.command, self.signer) if self.data is None else self.data


def at(*, ms: int = 0, sequence: int = 100, **changes: object) -> Command:
    """The honest command ``ms`` later with another sequence; header fields and command fields by name."""
    names = set(HEADER.__slots__)
    header = replace(
        HEADER,
        sequence=sequence,
        t_source_ns=HEADER.t_source_ns + ms * MS,
        t_decided_ns=HEADER.t_decided_ns + ms * MS,
    )
    header = replace(header, **{name: value for name, value in changes.items() if name in names})  # type: ignore[arg-type]
    rest = {name: value for name, value in changes.items() if name not in names}
    return replace(HONEST, header=header, **rest)  # type: ignore[arg-type]


def inputs(**changes: int) -> tuple[int, ...]:
    values = list(HONEST.inputs)
    for name, value in changes.items():
        values[int(name[1:])] = value
    return tuple(values)


_EARLIER = at(ms=-10, sequence=99)
_DEFERRED = replace(RULES, proof_policy=ProofPolicy.DEFERRED)
VK = hashlib.sha256(b"verification key").digest()
KEYED = replace(EPOCH, vk_digest=VK)


def committed(command: Command = HONEST, **changes: object) -> Command:
    """``command`` with the commitment to its statement; ``changes`` are made after that."""
    ctx = command.header.ctx()
    commitment = statement_commitment(VK, command.inputs, command.outputs, ctx, curve=Curve.BN254)
    return replace(command, proof_kind=ProofKind.COMMITMENT, proof=commitment, **changes)  # type: ignore[arg-type]


JUDGE: dict[str, Case] = {
    "malformed-bytes": Case("malformed", data=b"\xd2\x80"),
    "malformed-seven-inputs": Case("malformed", at(inputs=HONEST.inputs[:7])),
    "malformed-three-outputs": Case("malformed", at(outputs=(1, 2, 3))),
    "gate-id-of-another-gate": Case("gate-id", at(gate_id="gate-2")),
    "device-id-of-another-device": Case("device-id", at(device_id="TPM2:0x81000002")),
    "epoch-unknown-none-open": Case("epoch-unknown", epoch=None),
    "epoch-unknown-earlier": Case("epoch-unknown", at(epoch=6)),
    "epoch-unknown-later": Case("epoch-unknown", at(epoch=8)),
    "epoch-expired": Case("epoch-expired", epoch=replace(EPOCH, expires_ns=T0)),
    "signature-of-a-stranger": Case("signature", signer=STRANGER),
    "signature-bit": Case("signature", data=_WHOLE[:-1] + bytes([_WHOLE[-1] ^ 1])),
    "signature-for-another-gate": Case(
        "signature", data=cose.sign1(_CANONICAL, signer=SESSION, content_type=CONTENT_TYPE, external_aad=b"gate-2")
    ),
    "signature-without-gate": Case("signature", data=cose.sign1(_CANONICAL, signer=SESSION, content_type=CONTENT_TYPE)),
    "signature-over-other-inputs": Case("signature", data=_WHOLE.replace(b"\x0a\x88\x0a", b"\x0a\x88\x0b", 1)),
    "replay-of-the-last": Case("replay", before=(HONEST,)),
    "replay-of-an-earlier": Case("replay", _EARLIER, before=(_EARLIER, HONEST)),
    "replay-same-sequence-new-content": Case("replay", at(outputs=(6, -5)), before=(HONEST,)),
    "reorder": Case("reorder", at(ms=-10, sequence=98), before=(at(ms=-15, sequence=97), HONEST)),
    "module-digest": Case("module-digest", at(module_digest=DEPLOYMENT)),
    "deployment-digest": Case("deployment-digest", at(deployment_digest=MODULE)),
    "mode-not-writing": Case("mode", at(mode=Mode.SHADOW), mode=Mode.SHADOW),
    "mode-off": Case("mode", at(mode=Mode.OFF), mode=Mode.OFF),
    "mode-the-gate-is-not-in": Case("mode", mode=Mode.SUPERVISED),
    "future-source": Case("future-source", at(ms=8)),
    "future-source-decided-before-sampled": Case("future-source", at(t_decided_ns=HEADER.t_source_ns - 1)),
    "stale-source": Case("stale-source", at(t_source_ns=T0 - 51 * MS)),
    "stale-source-decided-too-late": Case("stale-source", at(t_source_ns=T0 - 33 * MS)),
    "stale-source-older-than-the-last": Case(
        "stale-source", at(sequence=101, t_source_ns=HEADER.t_source_ns - 1), before=(HONEST,)
    ),
    "stale-decision": Case("stale-decision", at(t_source_ns=T0 - 22 * MS, t_decided_ns=T0 - 21 * MS)),
    "stale-decision-older-than-the-last": Case(
        "stale-decision", at(sequence=101, t_decided_ns=HEADER.t_decided_ns - 1), before=(HONEST,)
    ),
    "time-quality": Case("time-quality", at(time_quality=TimeQuality.FREE)),
    "input-range-above": Case("input-range", at(inputs=inputs(x7=1001))),
    "input-range-below": Case("input-range", at(inputs=inputs(x0=-1001))),
    "input-rate": Case("input-rate", at(inputs=inputs(x1=-8)), before=(_EARLIER,)),
    "input-rate-without-time": Case("input-rate", at(sequence=101, inputs=inputs(x1=-17)), before=(HONEST,)),
    "output-limit-above": Case("output-limit", at(outputs=(101, 0))),
    "output-limit-below": Case("output-limit", at(outputs=(0, -101))),
    "output-limit-supervised-band": Case(
        "output-limit", at(mode=Mode.SUPERVISED, outputs=(11, 0)), mode=Mode.SUPERVISED
    ),
    "output-rate": Case("output-rate", at(outputs=(16, -5)), before=(_EARLIER,)),
    "output-rate-without-time": Case("output-rate", at(sequence=101, outputs=(7, -5)), before=(HONEST,)),
    "output-rate-first-step": Case("output-rate", at(outputs=(21, 0))),
    "output-relation": Case("output-relation", at(outputs=(71, 0)), plant=None),
    "proof-missing": Case("proof-missing", at(proof_kind=ProofKind.NONE, proof=b"")),
    "proof-missing-commitment-due": Case("proof-missing", at(proof_kind=ProofKind.NONE, proof=b""), rules=_DEFERRED),
    "proof-kind-commitment": Case("proof-kind", at(proof_kind=ProofKind.COMMITMENT, proof=bytes(32))),
    "proof-kind-other-curve": Case("proof-kind", at(proof_kind=ProofKind.GROTH16_BLS12_381, proof=bytes(192))),
    "proof-kind-commitment-without-key": Case("proof-kind", committed(), rules=_DEFERRED),
    "proof-statement-commitment-to-other-outputs": Case(
        "proof-statement", committed(outputs=(6, -5)), rules=_DEFERRED, epoch=KEYED
    ),
    "proof-statement-commitment-to-other-inputs": Case(
        "proof-statement", committed(inputs=(11, *HONEST.inputs[1:])), rules=_DEFERRED, epoch=KEYED
    ),
    "proof-statement-commitment-of-another-command": Case(
        "proof-statement", committed(header=replace(HEADER, sequence=101)), rules=_DEFERRED, epoch=KEYED
    ),
    "proof-statement-commitment-under-another-key": Case(
        "proof-statement", committed(), rules=_DEFERRED, epoch=replace(EPOCH, vk_digest=MODULE)
    ),
    "proof-statement-commitment-to-what-the-model-does-not-say": Case(
        "proof-statement", committed(), rules=_DEFERRED, epoch=KEYED, explained=(6, -5)
    ),
    "proof-backlog": Case(
        "proof-backlog", committed(), rules=_DEFERRED, epoch=KEYED, explained=(5, -5), withdrawn="proof-deadline"
    ),
    "proof-signals-count": Case("proof-signals", failed_check="signal-count"),
    "proof-signals-range": Case("proof-signals", failed_check="signal-range"),
    "proof-point": Case("proof-point", failed_check="proof-point"),
    "proof-moved": Case("proof-moved", before=(_EARLIER,), failed_check="proof-pairing", explained=(5, -5)),
    "proof-statement": Case("proof-statement", failed_check="proof-pairing", explained=(6, -5)),
    "proof-forged": Case("proof-forged", failed_check="proof-pairing", explained=(5, -5)),
    "proof-forged-unexplained": Case("proof-forged", failed_check="proof-pairing"),
}
