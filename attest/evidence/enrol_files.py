"""The messages of enrolment as files (CDDL ``enrol.cddl``), for a verifier on another machine or no network at all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from attest import cbor
from attest.evidence.credential import SECRET_BYTES, Credential
from attest.evidence.ek import EK_KINDS
from attest.evidence.ekcert import EkIdentity
from attest.evidence.enrol import Pending, Request
from attest.evidence.errors import EnrolError
from attest.structures import DIGEST_BYTES

REQUEST: Final = "sits-enrol-request-1"
CHALLENGE: Final = "sits-enrol-challenge-1"
ANSWER: Final = "sits-enrol-answer-1"
PENDING: Final = "sits-enrol-pending-1"
MAX_FILE_BYTES: Final = 64 * 1024
_MAX_PUBLIC: Final = 512
_MAX_CERTIFICATES: Final = 8
_MAX_CERTIFICATE: Final = 8192
_MAX_CREDENTIAL: Final = 1024
_TEXT: Final = 128
_SAID_BY: Final = {REQUEST: "the device", CHALLENGE: "the verifier", ANSWER: "the device", PENDING: "the verifier"}


def encode_request(request: Request) -> bytes:
    """The first file, device to verifier."""
    return cbor.dumps(_request_map(request))


def parse_request(data: bytes) -> Request:
    """Raises ``EnrolError`` (``enrol-file``) or ``CborError``."""
    fields = _fields(data, REQUEST)
    request = _request(fields)
    fields.done()
    return request


def encode_challenge(credential: Credential) -> bytes:
    """The second file, verifier to device."""
    return cbor.dumps({0: CHALLENGE, 1: credential.blob, 2: credential.secret, 3: credential.ek})


def parse_challenge(data: bytes) -> Credential:
    """Raises ``EnrolError`` (``enrol-file``) or ``CborError``."""
    fields = _fields(data, CHALLENGE)
    kind = fields.text(3, choices=EK_KINDS)
    credential = Credential(
        blob=fields.octets(1, low=1, high=_MAX_CREDENTIAL),
        secret=fields.octets(2, low=1, high=_MAX_CREDENTIAL),
        ek=next(known for known in EK_KINDS if known == kind),
    )
    fields.done()
    return credential


def encode_answer(answer: bytes) -> bytes:
    """The third file, device to verifier."""
    return cbor.dumps({0: ANSWER, 1: answer})


def parse_answer(data: bytes) -> bytes:
    """Raises ``EnrolError`` (``enrol-file``) or ``CborError``."""
    fields = _fields(data, ANSWER)
    answer = fields.octets(1, size=SECRET_BYTES)
    fields.done()
    return answer


def encode_pending(pending: Pending) -> bytes:
    """What the verifier keeps for itself; not secret, but whoever changes it decides which device is enrolled."""
    identity = pending.identity
    return cbor.dumps(
        {
            0: PENDING,
            1: _request_map(pending.request),
            2: identity.manufacturer,
            3: identity.model,
            4: list(identity.chain),
            5: pending.answer_sha256,
        }
    )


def parse_pending(data: bytes) -> Pending:
    """Raises ``EnrolError`` (``enrol-file``) or ``CborError``."""
    fields = _fields(data, PENDING)
    inner = fields.map(1)
    inner.text(0, choices=(REQUEST,))
    request = _request(inner)
    inner.done()
    pending = Pending(
        request=request,
        identity=EkIdentity(
            manufacturer=_text(fields, 2),
            model=_text(fields, 3),
            chain=_certificates(fields, 4, low=1),
        ),
        answer_sha256=fields.octets(5, size=DIGEST_BYTES),
    )
    fields.done()
    return pending


def _request_map(request: Request) -> Mapping[int, object]:
    return {0: REQUEST, 1: request.ek_public, 2: list(request.ek_certificates), 3: request.ak_public}


def _request(fields: cbor.Fields) -> Request:
    return Request(
        ek_public=fields.octets(1, low=1, high=_MAX_PUBLIC),
        ek_certificates=_certificates(fields, 2, low=0),
        ak_public=fields.octets(3, low=1, high=_MAX_PUBLIC),
    )


def _certificates(fields: cbor.Fields, key: int, *, low: int) -> tuple[bytes, ...]:
    items = fields.array(key, low=low, high=_MAX_CERTIFICATES)
    certificates = tuple(item for item in items if isinstance(item, bytes) and 1 <= len(item) <= _MAX_CERTIFICATE)
    if len(certificates) != len(items):
        raise EnrolError("enrol-file", found="another certificate", expected=f"DER of at most {_MAX_CERTIFICATE} bytes")
    return certificates


def _text(fields: cbor.Fields, key: int) -> str:
    value = fields.take(key)
    if not isinstance(value, str) or len(value) > _TEXT:
        raise EnrolError("enrol-file", found="another text", expected=f"at most {_TEXT} characters")
    return value


def _fields(data: bytes, name: str) -> cbor.Fields:
    fields = cbor.Fields(cbor.loads(data, max_bytes=MAX_FILE_BYTES, max_depth=4), "enrolment file")
    found = fields.take(0) if fields.has(0) else None
    if found != name:
        said = repr(found) if isinstance(found, str) and found in _SAID_BY else "another file"
        raise EnrolError("enrol-file", found=said, expected=f"{name!r}, made by {_SAID_BY[name]}")
    return fields
