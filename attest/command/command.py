"""The signed command: one COSE_Sign1 per decision (evidence rules §4, ``formats/command.cddl``).

The payload is a map of exactly the keys 1..15 in deterministic CBOR; the external additional data of the
signature is the gate's identifier, so that a command signed for one gate cannot be shown to another.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from attest import cbor, cose
from attest.command.enums import PROOF_BYTES, Mode, ProofKind, TimeQuality
from attest.command.errors import CommandError
from attest.errors import AttestError

CONTENT_TYPE: Final = "application/vnd.sits.command+cbor"
VERSION: Final = 1
CTX_BYTES: Final = 31  # always below the 254-bit and 255-bit group orders of the proof curves
DIGEST_BYTES: Final = 32
SIGNALS_MAX: Final = 1024  # the circuit file's limit on inputs and on outputs
VALUE_MIN: Final = -(2**31)  # a quantised value is an int32 at its widest (evidence rules §1)
VALUE_MAX: Final = 2**31 - 1
COUNTER_MAX: Final = 2**63 - 1  # epoch, sequence and times fit SQLite's and C's signed 64-bit integers
HEADER_BYTES_MAX: Final = 512  # two identifiers of 64, two digests, five integers and ten keys stay below 300
COMMAND_BYTES_MAX: Final = 16_384  # 1,024 + 1,024 values of five bytes, a 192-byte proof and the envelope
IDENTIFIER: Final = re.compile(r"[\x21-\x7e]{1,64}\Z")  # printable ASCII without space: safe in logs and notes

_KEYS: Final = tuple(range(1, 16))
_CTX_KEYS: Final = (1, 2, 3, 4, 5, 6, 7, 8, 9, 12)


@dataclass(frozen=True, slots=True)
class CommandHeader:
    """What a command is about: keys 1–9 and 12. Times in ns since the Unix epoch, digests SHA-256."""

    version: int
    device_id: str
    gate_id: str
    epoch: int
    sequence: int
    t_source_ns: int
    t_decided_ns: int
    module_digest: bytes
    deployment_digest: bytes
    mode: Mode

    def ctx(self) -> bytes:
        """The 31 bytes that bind a proof to this command and no other."""
        return hashlib.sha256(self.encode()).digest()[:CTX_BYTES]

    def encode(self) -> bytes:
        """Keys 1–9 and 12 as a map of their own: what ctx is the hash of. It holds neither inputs nor outputs."""
        return cbor.dumps(dict(zip(_CTX_KEYS, self._values(), strict=True)))

    def _values(self) -> tuple[object, ...]:
        return (
            self.version,
            self.device_id,
            self.gate_id,
            self.epoch,
            self.sequence,
            self.t_source_ns,
            self.t_decided_ns,
            self.module_digest,
            self.deployment_digest,
            int(self.mode),
        )


@dataclass(frozen=True, slots=True)
class Command:
    """One decision: header, quantised inputs and outputs (counts), proof or commitment, clock quality."""

    header: CommandHeader
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    proof_kind: ProofKind
    proof: bytes
    time_quality: TimeQuality


@dataclass(frozen=True, slots=True)
class ParsedCommand:
    """A well-formed command whose signature is checked by ``verify``; ``digest`` is SHA-256 of all bytes."""

    command: Command
    digest: bytes
    kid: bytes
    envelope: cose.Sign1

    def verify(self, public: bytes) -> None:
        """Check kid and signature with the gate's identifier as external data. Raises ``CommandError``."""
        try:
            cose.verify(self.envelope, public=public, external_aad=self.command.header.gate_id.encode())
        except cose.CoseError as error:
            raise CommandError("signature", found=error.found, expected=error.expected) from error


def sign_command(command: Command, key: cose.Signer) -> bytes:
    """Encode and sign: EdDSA by a session key, ES256 by a key of the TPM (a ``Signer`` with a point of 65 bytes).

    Raises ``CommandError`` (``malformed``) for a value the format cannot carry, and what the signer raises.
    """
    header = command.header
    payload = {
        1: header.version,
        2: header.device_id,
        3: header.gate_id,
        4: header.epoch,
        5: header.sequence,
        6: header.t_source_ns,
        7: header.t_decided_ns,
        8: header.module_digest,
        9: header.deployment_digest,
        10: command.inputs,
        11: command.outputs,
        12: int(header.mode),
        13: int(command.proof_kind),
        14: command.proof,
        15: int(command.time_quality),
    }
    _from_map(payload)
    return cose.sign1(
        cbor.dumps(payload),
        signer=key,
        content_type=CONTENT_TYPE,
        alg=cose.algorithm_of(key.public),
        external_aad=header.gate_id.encode(),
    )


def parse_command(data: bytes, gate_id: str | None) -> ParsedCommand:
    """Parse ``data`` strictly, without checking the signature.

    ``gate_id`` is the reader's own identifier; ``None`` (an auditor, a viewer) takes the command's word.
    Raises ``CommandError`` with ``malformed`` or ``gate-id``.
    """
    try:
        envelope = cose.parse_sign1(data, content_type=CONTENT_TYPE, max_bytes=COMMAND_BYTES_MAX)
        payload = cbor.loads(envelope.payload, max_depth=2, max_items=2 * SIGNALS_MAX + 64)
    except AttestError as error:
        raise CommandError("malformed", found=error.found, expected=error.expected) from error
    if not isinstance(payload, dict):
        raise CommandError("malformed", found="a payload of another type", expected="a map")
    command = _from_map(payload)
    if gate_id is not None and command.header.gate_id != gate_id:
        raise CommandError("gate-id", found=command.header.gate_id, expected=gate_id)
    return ParsedCommand(command, hashlib.sha256(data).digest(), envelope.kid, envelope)


def parse_header(data: bytes) -> CommandHeader:
    """The header of :meth:`CommandHeader.encode`, strictly. Raises ``CommandError`` (``malformed``)."""
    try:
        payload = cbor.loads(data, max_bytes=HEADER_BYTES_MAX, max_depth=1, max_items=2 * len(_CTX_KEYS) + 1)
    except AttestError as error:
        raise CommandError("malformed", found=error.found, expected=error.expected) from error
    if not isinstance(payload, dict) or tuple(payload) != _CTX_KEYS:
        raise CommandError("malformed", found="another header", expected="a map of the keys 1..9 and 12")
    return _header(tuple(payload.values()))


def _header(values: tuple[object, ...]) -> CommandHeader:
    """From the values of keys 1..9 and 12."""
    return CommandHeader(
        _integer(1, values[0], VERSION, VERSION),
        _identifier(2, values[1]),
        _identifier(3, values[2]),
        _integer(4, values[3], 1, COUNTER_MAX),
        _integer(5, values[4], 1, COUNTER_MAX),
        _integer(6, values[5], 0, COUNTER_MAX),
        _integer(7, values[6], 0, COUNTER_MAX),
        _octets(8, values[7], DIGEST_BYTES),
        _octets(9, values[8], DIGEST_BYTES),
        Mode(_integer(12, values[9], Mode.OFF, Mode.AUTO)),
    )


def _from_map(payload: Mapping[Any, object]) -> Command:
    if tuple(payload) != _KEYS:
        raise CommandError("malformed", found=f"keys {sorted(map(str, payload))[:20]}", expected="1..15")
    values = tuple(payload.values())
    header = _header((*values[:9], values[11]))
    kind = ProofKind(_integer(13, values[12], ProofKind.NONE, ProofKind.COMMITMENT))
    return Command(
        header,
        _integers(10, values[9]),
        _integers(11, values[10]),
        kind,
        _octets(14, values[13], PROOF_BYTES[kind]),
        TimeQuality(_integer(15, values[14], TimeQuality.FREE, TimeQuality.PTP_HW)),
    )


def _integer(key: int, value: object, low: int, high: int) -> int:
    # bool is an int to Python but not to CBOR; IntEnum members are reduced by the caller
    if type(value) is not int or not low <= value <= high:
        raise _malformed(key, value, f"an integer in {low}..{high}")
    return value


def _identifier(key: int, value: object) -> str:
    if type(value) is not str or IDENTIFIER.match(value) is None:
        raise _malformed(key, value, "1..64 printable ASCII characters without space")
    return value


def _octets(key: int, value: object, size: int) -> bytes:
    if type(value) is not bytes or len(value) != size:
        raise _malformed(key, value, f"a byte string of {size}")
    return value


def _integers(key: int, value: object) -> tuple[int, ...]:
    if type(value) is not tuple or not 1 <= len(value) <= SIGNALS_MAX:
        raise _malformed(key, value, f"1..{SIGNALS_MAX} integers")
    for item in value:
        if type(item) is not int or not VALUE_MIN <= item <= VALUE_MAX:
            raise _malformed(key, item, "integers of 32 bits")
    return value


def _malformed(key: int, value: object, expected: str) -> CommandError:
    if isinstance(value, bytes | tuple):
        found = f"{type(value).__name__} of {len(value)}"
    else:
        found = f"{type(value).__name__} {str(value)[:40]!r}"
    return CommandError("malformed", found=f"key {key}: {found}", expected=expected)
