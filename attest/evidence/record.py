"""The device record: what enrolment found out, signed with the plant's policy key (CDDL ``device-record.cddl``)."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Final

from attest import cbor, cose
from attest.evidence.errors import EnrolError
from attest.structures import DIGEST_BYTES, object_name, parse_ecc_public

CONTENT_TYPE: Final = "application/vnd.sits.device-record+cbor"
FORMAT: Final = 1
MAX_RECORD_BYTES: Final = 64 * 1024
KINDS: Final = ("hardware", "swtpm")
_TEXT_CHARS: Final = 128
_MAX_CHAIN: Final = 8
_MAX_CERTIFICATE_BYTES: Final = 8192
_NAME_BYTES: Final = 34
_NAME_BYTES_SHA384: Final = 50


@dataclass(frozen=True, slots=True)
class DeviceRecord:
    """An enrolled device: EK chain (DER, leaf first), AK name and public area, TPM kind, who enrolled it and when.

    ``replaces`` is the id of the record of the machine that this one took over from, empty for a first enrolment.
    """

    device_id: str
    tpm_kind: str
    ek_chain: tuple[bytes, ...]
    ek_name: bytes
    ak_name: bytes
    ak_public: bytes
    enrolled_ns: int
    enrolled_by: str
    manufacturer: str
    replaces: bytes = b""

    def encode(self) -> bytes:
        """The payload, deterministic CBOR."""
        fields: dict[int, object] = {
            1: FORMAT,
            2: self.device_id,
            3: self.tpm_kind,
            4: list(self.ek_chain),
            5: self.ek_name,
            6: self.ak_name,
            7: self.ak_public,
            8: self.enrolled_ns,
            9: self.enrolled_by,
            10: self.manufacturer,
        }
        if self.replaces:
            fields[11] = self.replaces
        return cbor.dumps(fields)

    @property
    def record_id(self) -> bytes:
        """SHA-256 of the payload: what evidence names."""
        return hashlib.sha256(self.encode()).digest()

    def sign(self, signer: cose.Signer) -> bytes:
        """The signed record file."""
        return cose.sign1(self.encode(), signer=signer, content_type=CONTENT_TYPE)


def parse_record(data: bytes) -> tuple[DeviceRecord, cose.Sign1]:
    """Parse a signed record; the caller verifies the envelope. Raises ``AttestError`` subclasses."""
    message = cose.parse_sign1(data, content_type=CONTENT_TYPE, max_bytes=MAX_RECORD_BYTES)
    return parse_payload(message.payload), message


def _ek_name(fields: cbor.Fields) -> bytes:
    """A name algorithm and its digest: SHA-256, or SHA-384 for an EK on P-384."""
    name = fields.octets(5, low=_NAME_BYTES, high=_NAME_BYTES_SHA384)
    if len(name) not in (_NAME_BYTES, _NAME_BYTES_SHA384):
        raise EnrolError("record", found=f"an EK name of {len(name)} bytes", expected="34 or 50")
    return name


def parse_payload(data: bytes) -> DeviceRecord:
    """Parse the payload. Raises ``CborError``, ``StructureError`` or ``EnrolError``."""
    fields = cbor.Fields(cbor.loads(data, max_bytes=MAX_RECORD_BYTES), "device record")
    fields.integer(1, low=FORMAT, high=FORMAT)
    device_id = fields.text(2, high=_TEXT_CHARS)
    kind = fields.text(3, choices=KINDS)
    chain = fields.array(4, low=1, high=_MAX_CHAIN)
    record = DeviceRecord(
        device_id=device_id,
        tpm_kind=kind,
        ek_chain=tuple(item for item in chain if isinstance(item, bytes) and len(item) <= _MAX_CERTIFICATE_BYTES),
        ek_name=_ek_name(fields),
        ak_name=fields.octets(6, size=_NAME_BYTES),
        ak_public=fields.octets(7, low=1, high=512),
        enrolled_ns=fields.integer(8),
        enrolled_by=fields.text(9, high=_TEXT_CHARS),
        manufacturer=fields.text(10, high=_TEXT_CHARS),
        replaces=fields.octets(11, size=DIGEST_BYTES) if fields.has(11) else b"",
    )
    fields.done()
    if record.ek_chain != chain:
        raise EnrolError("record", found="another certificate chain", expected="byte strings")
    parse_ecc_public(record.ak_public)
    if object_name(record.ak_public) != record.ak_name:
        raise EnrolError("record", found="an AK name of another public area", expected="the name of this one")
    return record
