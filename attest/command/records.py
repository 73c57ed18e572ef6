"""What happened, signed by who saw it: one COSE_Sign1 per record, the content type names the record.

The payload is a map: key 1 is the version (1), keys 2, 3, … are the attributes in the order of ``FIELDS``
(``formats/records.cddl``). Gate records are signed by the gate's key, device records by the session key.
All times are ns since the Unix epoch by the signer's clock.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import ClassVar, Final, TypeAlias, cast

from attest import cbor, cose
from attest.command import fields as f
from attest.command.enums import Mode, ProofKind, ReadBack
from attest.command.errors import CommandError
from attest.errors import AttestError

VERSION: Final = 1
REFUSED_BYTES_MAX: Final = 2048  # enough for every command of the loop's format, bounded for an attacker's
RECORD_BYTES_MAX: Final = 65_536  # a receipt with three times 1,024 values stays below
NONCE_BYTES_MAX: Final = 64
PROOF_BYTES_MAX: Final = 192
_PREFIX: Final = "application/vnd.sits."
_SUFFIX: Final = "+cbor"


@dataclass(frozen=True, slots=True)
class Receipt:
    """One accepted command: what was accepted, written and read back (counts), and when.

    ``applied`` is empty and ``t_written_ns`` 0 where nothing was written; ``read_back`` is empty and
    ``t_read_back_ns`` 0 while nothing has been read back.
    """

    KIND: ClassVar[str] = "receipt"
    FIELDS: ClassVar[tuple[f.FieldSpec, ...]] = (
        f.identifier("gate_id"),
        f.counter("epoch", 1),
        f.counter("sequence", 1),
        f.digest("command_digest"),
        f.values("accepted"),
        f.values("applied"),
        f.values("read_back"),
        f.word_of("state", ReadBack),
        f.flag("proof_verified"),
        f.counter("t_accepted_ns"),
        f.counter("t_written_ns"),
        f.counter("t_read_back_ns"),
    )
    gate_id: str
    epoch: int
    sequence: int
    command_digest: bytes
    accepted: tuple[int, ...]
    applied: tuple[int, ...]
    read_back: tuple[int, ...]
    state: ReadBack
    proof_verified: bool
    t_accepted_ns: int
    t_written_ns: int
    t_read_back_ns: int


@dataclass(frozen=True, slots=True)
class Refusal:
    """One refused command; ``epoch`` and ``sequence`` are what it claimed, 0 where it could not be read.

    ``command_digest`` is over all refused bytes, ``refused`` holds the first 2 KiB of them.
    """

    KIND: ClassVar[str] = "refusal"
    FIELDS: ClassVar[tuple[f.FieldSpec, ...]] = (
        f.identifier("gate_id"),
        f.counter("epoch"),
        f.counter("sequence"),
        f.text("code", f.CODE_CHARACTERS_MAX),
        f.counter("check", 1),
        f.text("found"),
        f.text("expected"),
        f.digest("command_digest"),
        f.octets("refused", REFUSED_BYTES_MAX),
        f.counter("t_ns"),
    )
    gate_id: str
    epoch: int
    sequence: int
    code: str
    check: int
    found: str
    expected: str
    command_digest: bytes
    refused: bytes
    t_ns: int


@dataclass(frozen=True, slots=True)
class EpochOpened:
    """The gate verified evidence and opened an epoch: the only way a session key is introduced.

    ``vk_digest``, ``record_digest`` and ``policy_digest`` are SHA-256 of the files of the verification key, the
    signed device record and the signed boot policy that were used; empty where none was (no proof demanded,
    attestation mode ``none``). ``plant_outputs`` is what the plant had at that moment, ``None`` where the gate could
    not know. ``command_public`` is the point of the TPM's key that signs the commands, empty where
    the session key does.
    """

    KIND: ClassVar[str] = "epoch-opened"
    FIELDS: ClassVar[tuple[f.FieldSpec, ...]] = (
        f.identifier("gate_id"),
        f.identifier("device_id"),
        f.counter("epoch", 1),
        f.digest("evidence_digest"),
        f.octets("nonce", NONCE_BYTES_MAX),
        f.digest("session_public"),
        f.digest("module_digest"),
        f.digest("deployment_digest"),
        f.digest("rules_digest"),
        f.digest("vk_digest", optional=True),
        f.digest("record_digest", optional=True),
        f.digest("policy_digest", optional=True),
        f.counter("t_opened_ns"),
        f.counter("expires_ns"),
        f.octets("ak_name", 68),
        f.text("tpm_kind", 32),
        f.text("boot_policy"),
        f.counter("reset_count"),
        f.values("plant_outputs", optional=True),
        f.point("command_public"),
    )
    gate_id: str
    device_id: str
    epoch: int
    evidence_digest: bytes
    nonce: bytes
    session_public: bytes
    module_digest: bytes
    deployment_digest: bytes
    rules_digest: bytes
    vk_digest: bytes
    record_digest: bytes
    policy_digest: bytes
    t_opened_ns: int
    expires_ns: int
    ak_name: bytes
    tpm_kind: str
    boot_policy: str
    reset_count: int
    plant_outputs: tuple[int, ...] | None
    command_public: bytes = b""

    @property
    def command_key(self) -> bytes:
        """The public key that signs this epoch's commands."""
        return self.command_public or self.session_public


@dataclass(frozen=True, slots=True)
class EpochRefused:
    """Evidence that did not verify: the first failed check. ``session_public`` is empty if unreadable."""

    KIND: ClassVar[str] = "epoch-refused"
    FIELDS: ClassVar[tuple[f.FieldSpec, ...]] = (
        f.identifier("gate_id"),
        f.digest("evidence_digest"),
        f.octets("nonce", NONCE_BYTES_MAX),
        f.digest("session_public", optional=True),
        f.text("code", f.CODE_CHARACTERS_MAX),
        f.counter("check"),
        f.text("found"),
        f.text("expected"),
        f.counter("t_ns"),
    )
    gate_id: str
    evidence_digest: bytes
    nonce: bytes
    session_public: bytes
    code: str
    check: int
    found: str
    expected: str
    t_ns: int


@dataclass(frozen=True, slots=True)
class EpochClosed:
    """The gate ended an epoch: expiry, a newer epoch, a stop, an incident."""

    KIND: ClassVar[str] = "epoch-closed"
    FIELDS: ClassVar[tuple[f.FieldSpec, ...]] = (
        f.identifier("gate_id"),
        f.counter("epoch", 1),
        f.text("reason"),
        f.counter("t_ns"),
    )
    gate_id: str
    epoch: int
    reason: str
    t_ns: int


@dataclass(frozen=True, slots=True)
class ModeChange:
    """The gate's mode changed; going up names who approved (AUTO: two)."""

    KIND: ClassVar[str] = "mode-change"
    FIELDS: ClassVar[tuple[f.FieldSpec, ...]] = (
        f.identifier("gate_id"),
        f.number_of("old", Mode),
        f.number_of("new", Mode),
        f.names("approvers"),
        f.text("reason"),
        f.counter("t_ns"),
    )
    gate_id: str
    old: Mode
    new: Mode
    approvers: tuple[str, ...]
    reason: str
    t_ns: int


@dataclass(frozen=True, slots=True)
class Alarm:
    """Something a person should see; ``party`` is the gate's or the device's identifier, 0 means no epoch."""

    KIND: ClassVar[str] = "alarm"
    FIELDS: ClassVar[tuple[f.FieldSpec, ...]] = (
        f.identifier("party"),
        f.counter("epoch"),
        f.counter("sequence"),
        f.text("code", f.CODE_CHARACTERS_MAX),
        f.text("found"),
        f.text("expected"),
        f.counter("t_ns"),
    )
    party: str
    epoch: int
    sequence: int
    code: str
    found: str
    expected: str
    t_ns: int


@dataclass(frozen=True, slots=True)
class Witness:
    """The gate saw this checkpoint of the device's ledger and found it consistent with the one before."""

    KIND: ClassVar[str] = "witness"
    FIELDS: ClassVar[tuple[f.FieldSpec, ...]] = (
        f.identifier("gate_id"),
        f.text("origin", 128),
        f.counter("size"),
        f.digest("root"),
        f.counter("t_ns"),
    )
    gate_id: str
    origin: str
    size: int
    root: bytes
    t_ns: int


@dataclass(frozen=True, slots=True)
class CycleRefused:
    """Device record: ``count`` cycles ended without a sent command for one reason.

    ``sequence`` names the one command that was signed but not sent, 0 where none was signed.
    """

    KIND: ClassVar[str] = "cycle-refused"
    FIELDS: ClassVar[tuple[f.FieldSpec, ...]] = (
        f.identifier("device_id"),
        f.counter("epoch"),
        f.counter("sequence"),
        f.text("code", f.CODE_CHARACTERS_MAX),
        f.text("found"),
        f.text("expected"),
        f.counter("count", 1),
        f.counter("t_ns"),
    )
    device_id: str
    epoch: int
    sequence: int
    code: str
    found: str
    expected: str
    count: int
    t_ns: int


@dataclass(frozen=True, slots=True)
class LateProof:
    """Device record: the proof of the statement that an earlier command committed to.

    ``epoch`` and ``sequence`` are that command's; the signer is the session key of the epoch the proof was made in, a
    later one where the device was restarted. ``proof_kind`` names the curve.
    """

    KIND: ClassVar[str] = "proof"
    FIELDS: ClassVar[tuple[f.FieldSpec, ...]] = (
        f.identifier("device_id"),
        f.counter("epoch", 1),
        f.counter("sequence", 1),
        f.digest("command_digest"),
        f.number_of("proof_kind", ProofKind),
        f.octets("proof", PROOF_BYTES_MAX),
        f.counter("t_ns"),
    )
    device_id: str
    epoch: int
    sequence: int
    command_digest: bytes
    proof_kind: ProofKind
    proof: bytes
    t_ns: int


@dataclass(frozen=True, slots=True)
class ProofReceipt:
    """Gate record: the proof that an accepted command owed has come and verifies.

    ``proof_digest`` is SHA-256 of the proof's bytes. ``late`` says that the deadline had passed: it still shows that
    the outputs were the model's, but the plant ran without knowing.
    """

    KIND: ClassVar[str] = "proof-receipt"
    FIELDS: ClassVar[tuple[f.FieldSpec, ...]] = (
        f.identifier("gate_id"),
        f.counter("epoch", 1),
        f.counter("sequence", 1),
        f.digest("command_digest"),
        f.digest("proof_digest"),
        f.flag("late"),
        f.counter("t_ns"),
    )
    gate_id: str
    epoch: int
    sequence: int
    command_digest: bytes
    proof_digest: bytes
    late: bool
    t_ns: int


@dataclass(frozen=True, slots=True)
class ProofStatus:
    """Gate record: whether the gate stands by "verified" for what it accepts, from now on.

    ``code`` is why: ``proof-deadline``, ``proof-backlog`` (withdrawn), ``cleared`` (every owed proof came) or
    ``approved`` (people approved a writing mode again: what was owed until then is written off and stays unproven).
    ``owed`` is the number of proofs owed.
    """

    KIND: ClassVar[str] = "proof-status"
    FIELDS: ClassVar[tuple[f.FieldSpec, ...]] = (
        f.identifier("gate_id"),
        f.flag("verified"),
        f.text("code", f.CODE_CHARACTERS_MAX),
        f.counter("owed"),
        f.text("found"),
        f.text("expected"),
        f.counter("t_ns"),
    )
    gate_id: str
    verified: bool
    code: str
    owed: int
    found: str
    expected: str
    t_ns: int


@dataclass(frozen=True, slots=True)
class LedgerClosed:
    """The owner of a ledger closed it in order, with ``size`` records before this one."""

    KIND: ClassVar[str] = "ledger-closed"
    FIELDS: ClassVar[tuple[f.FieldSpec, ...]] = (
        f.text("origin", 128),
        f.counter("size"),
        f.text("reason"),
        f.counter("t_ns"),
    )
    origin: str
    size: int
    reason: str
    t_ns: int


GateRecord: TypeAlias = Receipt | Refusal | EpochOpened | EpochRefused | EpochClosed | ModeChange | Witness
DeviceRecord: TypeAlias = CycleRefused | LateProof
Record: TypeAlias = GateRecord | ProofReceipt | ProofStatus | DeviceRecord | Alarm | LedgerClosed

RECORDS: Final[dict[str, type[Record]]] = {
    content_type: record
    for record in (
        Receipt,
        Refusal,
        EpochOpened,
        EpochRefused,
        EpochClosed,
        ModeChange,
        Alarm,
        Witness,
        CycleRefused,
        LateProof,
        ProofReceipt,
        ProofStatus,
        LedgerClosed,
    )
    for content_type in (f"{_PREFIX}{record.KIND}{_SUFFIX}",)
}


@dataclass(frozen=True, slots=True)
class ParsedRecord:
    """A well-formed record whose signature is checked by ``verify``; ``digest`` is SHA-256 of all bytes."""

    record: Record
    digest: bytes
    kid: bytes
    envelope: cose.Sign1

    def verify(self, public: bytes) -> None:
        """Check kid and signature. Raises ``CommandError`` (``signature``)."""
        try:
            cose.verify(self.envelope, public=public)
        except cose.CoseError as error:
            raise CommandError("signature", found=error.found, expected=error.expected) from error


def sign_record(record: Record, signer: cose.Signer) -> bytes:
    """Encode and sign; raises ``CommandError`` (``malformed``) for a value the format cannot carry."""
    payload = {1: VERSION} | {
        key: spec.write(value)
        for key, spec in enumerate(record.FIELDS, start=2)
        if (value := getattr(record, spec.name)) or not spec.omitted
    }
    try:
        _read(type(record), cbor.Fields(cast(cbor.CborValue, payload), record.KIND))
        encoded = cbor.dumps(payload)
    except AttestError as error:
        raise CommandError("malformed", found=error.found, expected=error.expected) from error
    return cose.sign1(encoded, signer=signer, content_type=f"{_PREFIX}{record.KIND}{_SUFFIX}")


def parse_record(data: bytes) -> ParsedRecord:
    """Parse any record strictly. Raises ``CommandError`` with ``malformed`` or ``unknown-record``."""
    try:
        envelope = cose.parse_sign1(data, max_bytes=RECORD_BYTES_MAX)
        kind = RECORDS.get(envelope.content_type)
        if kind is None:
            raise CommandError("unknown-record", found=envelope.content_type, expected="a record type")
        if envelope.alg != cose.EDDSA:
            raise CommandError("malformed", found=f"algorithm {envelope.alg}", expected="-8 (EdDSA)")
        value = cbor.loads(envelope.payload, max_depth=2, max_items=8192)
        record = _read(kind, cbor.Fields(value, kind.KIND))
    except CommandError:
        raise
    except AttestError as error:
        raise CommandError("malformed", found=error.found, expected=error.expected) from error
    return ParsedRecord(record, hashlib.sha256(data).digest(), envelope.kid, envelope)


def _read(kind: type[Record], fields: cbor.Fields) -> Record:
    fields.integer(1, low=VERSION, high=VERSION)
    record = kind(**{spec.name: spec.read(fields, key) for key, spec in enumerate(kind.FIELDS, start=2)})
    fields.done()
    return record


def line(message: str) -> str:
    """``message`` cut to what a record's text field holds; never empty."""
    return message[: f.TEXT_CHARACTERS_MAX] or "(nothing)"
