"""A device made of software that can lie in every named way; its honest form passes all checks.

Keys are fixed so that vectors made from it can be made again. Nothing here talks to a TPM.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

from attest import structures
from attest.boot.eventlog import EventLog, text_event
from attest.boot.policy import make_policy, reference_state
from attest.cose import Ed25519Signer
from attest.evidence.claims import CommandKey, Evidence, qualifying_data
from attest.evidence.record import DeviceRecord
from attest.evidence.seen import Seen
from attest.evidence.verdict import Verdict
from attest.evidence.verify import verify_evidence
from attest.structures import tpm2b, u16, u32

PCRS = (0, 11, 13)
NOW_NS = 1_800_000_000_000_000_000
YEAR_NS = 365 * 86_400 * 1_000_000_000


def digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def signer(name: str) -> Ed25519Signer:
    return Ed25519Signer(Ed25519PrivateKey.from_private_bytes(digest(name)))


def ecc_key(name: str) -> ec.EllipticCurvePrivateKey:
    return ec.derive_private_key(int.from_bytes(digest(name), "big") >> 1, ec.SECP256R1())


def ak_public(key: ec.EllipticCurvePrivateKey) -> bytes:
    numbers = key.public_key().public_numbers()
    return structures.ak_template(x=numbers.x.to_bytes(32, "big"), y=numbers.y.to_bytes(32, "big"))


def tpm_sign(key: ec.EllipticCurvePrivateKey, message: bytes) -> bytes:
    """TPMT_SIGNATURE over ``message``."""
    r, s = decode_dss_signature(key.sign(message, ec.ECDSA(hashes.SHA256(), deterministic_signing=True)))
    head = u16(structures.ALG_ECDSA) + u16(structures.ALG_SHA256)
    return head + tpm2b(r.to_bytes(32, "big")) + tpm2b(s.to_bytes(32, "big"))


LOG = EventLog((text_event(11, "sits:kernel 6.1"), text_event(13, "sits:component attest 1")))
POLICY_SIGNER = signer("policy")
SESSION = signer("session")
AK = ecc_key("ak")
RECORD = DeviceRecord(
    device_id="mill-1",
    tpm_kind="swtpm",
    ek_chain=(b"certificate",),
    ek_name=b"\0\x0b" + digest("ek"),
    ak_name=structures.object_name(ak_public(AK)),
    ak_public=ak_public(AK),
    enrolled_ns=NOW_NS,
    enrolled_by="operator",
    manufacturer="id:00001014",
)
POLICY = make_policy(
    name="mill",
    version=1,
    states=[reference_state("reference", log=LOG, values={p: LOG.value(p) for p in PCRS}, pcrs=PCRS)],
    not_before_ns=NOW_NS - YEAR_NS,
    not_after_ns=NOW_NS + YEAR_NS,
    tpm_kinds=["swtpm"],
)


SEEN = Seen(reset_count=7, policy_version=1)


@dataclass(frozen=True)
class Quoted:
    """The fields of a TPMS_ATTEST of type quote."""

    magic: int = structures.GENERATED
    kind: int = structures.ST_ATTEST_QUOTE
    signer: bytes = b"\0\x0b" + bytes(32)
    extra: bytes = b""
    clock_ms: int = 1000
    reset_count: int = 7
    restart_count: int = 1
    safe: int = 1
    firmware: int = 1
    banks: int = 1
    bank: int = structures.ALG_SHA256
    select: bytes = structures.pcr_selection(PCRS)
    pcr_digest: bytes = b""
    trailing: bytes = b""

    def encode(self) -> bytes:
        head = u32(self.magic) + u16(self.kind) + tpm2b(self.signer) + tpm2b(self.extra)
        clock = self.clock_ms.to_bytes(8, "big") + u32(self.reset_count) + u32(self.restart_count)
        rest = bytes([self.safe]) + self.firmware.to_bytes(8, "big") + u32(self.banks) + u16(self.bank)
        selection = bytes([len(self.select)]) + self.select
        return head + clock + rest + selection + tpm2b(self.pcr_digest) + self.trailing


@dataclass(frozen=True)
class Case:
    """One call of the verifier; ``quoted`` and ``claims`` override what an honest device would say."""

    nonce: bytes = digest("nonce")
    quote_nonce: bytes | None = None
    module: bytes = digest("module")
    deployment: bytes = digest("deployment")
    log: EventLog = LOG
    values: Mapping[int, bytes] | None = None
    quoted: Mapping[str, Any] = field(default_factory=dict)
    claims: Mapping[str, Any] = field(default_factory=dict)
    ak: ec.EllipticCurvePrivateKey = AK
    session: Ed25519Signer = SESSION
    envelope: Ed25519Signer | None = None
    record: bytes = RECORD.sign(POLICY_SIGNER)
    record_id: bytes = RECORD.record_id
    policy: bytes = POLICY.sign(POLICY_SIGNER)
    policy_public: bytes = POLICY_SIGNER.public
    expected_nonce: bytes = digest("nonce")
    expected_module: bytes = digest("module")
    expected_deployment: bytes = digest("deployment")
    now_ns: int = NOW_NS
    seen: Seen = SEEN
    revocations: bytes | None = None
    application_pcr: int | None = None
    signer_policy: bytes | None = None
    raw: bytes | None = None

    def evidence(self) -> bytes:
        if self.raw is not None:
            return self.raw
        values = dict(self.values) if self.values is not None else {pcr: self.log.value(pcr) for pcr in PCRS}
        quoted = Quoted(
            extra=qualifying_data(
                nonce=self.quote_nonce or self.nonce,
                session_public=self.session.public,
                module_digest=self.module,
                deployment_digest=self.deployment,
            ),
            pcr_digest=structures.composite_digest(values),
        )
        attest = replace(quoted, **self.quoted).encode()
        claims = Evidence(
            nonce=self.nonce,
            session_public=self.session.public,
            module_digest=self.module,
            deployment_digest=self.deployment,
            ak_public=ak_public(self.ak),
            record_id=self.record_id,
            quote_attest=attest,
            quote_signature=tpm_sign(self.ak, attest),
            pcrs=values,
            event_log=self.log.encode(),
            reset_count=7,
            restart_count=1,
            tpm_kind="swtpm",
        )
        return replace(claims, **self.claims).sign(self.envelope or self.session)

    def arguments(self) -> dict[str, Any]:
        demanded = {} if self.signer_policy is None else {"signer_policy": self.signer_policy}
        return demanded | {
            "nonce": self.expected_nonce,
            "record": self.record,
            "policy": self.policy,
            "policy_public": self.policy_public,
            "expected_module": self.expected_module,
            "expected_deployment": self.expected_deployment,
            "now_ns": self.now_ns,
            "seen": self.seen,
            "revocations": self.revocations,
            "application_pcr": self.application_pcr,
        }

    def verdict(self) -> Verdict:
        return verify_evidence(self.evidence(), **self.arguments())


def command_key(
    *,
    key: ec.EllipticCurvePrivateKey | None = None,
    ak: ec.EllipticCurvePrivateKey = AK,
    policy: bytes = digest("sealing policy"),
    attributes: int = structures.COMMAND_KEY_ATTRIBUTES,
    nonce: bytes = digest("nonce"),
    magic: int = structures.GENERATED,
    named: bytes | None = None,
) -> CommandKey:
    """A command key and its certificate, honest unless told otherwise."""
    public = structures.ak_template(x=_half(key, 0), y=_half(key, 1))
    start = len(u16(0) * 2)
    public = public[:start] + u32(attributes) + tpm2b(policy) + public[start + 4 + 2 + 32 :]
    extra = qualifying_data(
        nonce=nonce,
        session_public=SESSION.public,
        module_digest=digest("module"),
        deployment_digest=digest("deployment"),
    )
    head = u32(magic) + u16(structures.ST_ATTEST_CREATION) + tpm2b(b"\0\x0b" + bytes(32)) + tpm2b(extra)
    clock = (1000).to_bytes(8, "big") + u32(7) + u32(1) + b"\1" + (1).to_bytes(8, "big")
    name = structures.object_name(public) if named is None else named
    attest = head + clock + tpm2b(name) + tpm2b(digest("creation"))
    return CommandKey(public, attest, tpm_sign(ak, attest))


def _half(key: ec.EllipticCurvePrivateKey | None, which: int) -> bytes:
    numbers = (key or ecc_key("command key")).public_key().public_numbers()
    return (numbers.x, numbers.y)[which].to_bytes(32, "big")


def ima_entry(path: str, content: str) -> bytes:
    """One ima-ng entry of a measurement list, as a little-endian kernel writes it."""

    def sized(data: bytes) -> bytes:
        return len(data).to_bytes(4, "little") + data

    template = sized(b"sha256:\0" + digest(content)) + sized(path.encode() + b"\0")
    listed = hashlib.sha1(template, usedforsecurity=False).digest()
    return (10).to_bytes(4, "little") + listed + sized(b"ima-ng") + sized(template)


def ima_case(entries: Sequence[bytes], *, vouched: int | None = None, **changes: Any) -> Case:
    """A device that quotes PCR 0..13 but 12, with a boot aggregate over PCR 0..9 and ``vouched`` entries in PCR 10."""
    values = {pcr: LOG.value(pcr) for pcr in (*range(10), 11, 13)}
    aggregate = hashlib.sha256(b"".join(values[pcr] for pcr in range(10))).digest()
    template = b"sha256:\0" + aggregate
    first = ima_entry("boot_aggregate", "").replace(b"sha256:\0" + digest(""), template)
    first = first[:4] + hashlib.sha1(first[38:], usedforsecurity=False).digest() + first[24:]
    listed = [first, *entries]
    values[10] = bytes(32)
    for entry in listed[:vouched]:
        values[10] = structures.extend(values[10], hashlib.sha256(entry[38:]).digest())
    claims = {"ima_log": b"".join(listed)} | changes.pop("claims", {})
    return Case(values=values, quoted={"select": structures.pcr_selection(values)}, claims=claims, **changes)


HONEST_DIGESTS = (digest("module"), digest("deployment"))
