"""COSE_Sign1: our profile, a second library's opinion, and what is refused."""

from __future__ import annotations

import base64

import cbor2
import cwt
import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st

from attest import cbor, cose
from attest.cose import CoseError, Ed25519Signer, parse_sign1, sign1, verify
from attest.errors import AttestError

KEY = Ed25519Signer.generate()
TYPE = "application/vnd.sits.test+cbor"
MESSAGE = sign1(b"payload", signer=KEY, content_type=TYPE, external_aad=b"gate")
P = 2**255 - 19
D = -121665 * pow(121666, -1, P) % P


class EcdsaSigner:
    def __init__(self) -> None:
        self._private = ec.generate_private_key(ec.SECP256R1())
        self.public = self._private.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)

    def sign(self, data: bytes, /) -> bytes:
        r, s = decode_dss_signature(self._private.sign(data, ec.ECDSA(hashes.SHA256())))
        return r.to_bytes(32, "big") + s.to_bytes(32, "big")


@given(st.binary(max_size=100), st.binary(max_size=20))
def test_signed_objects_verify(payload: bytes, aad: bytes) -> None:
    message = parse_sign1(sign1(payload, signer=KEY, content_type=TYPE, external_aad=aad), content_type=TYPE)
    assert message.payload == payload
    assert message.kid == cose.key_id(KEY.public)
    verify(message, public=KEY.public, external_aad=aad)
    with pytest.raises(CoseError) as caught:
        verify(message, public=KEY.public, external_aad=aad + b"x")
    assert caught.value.code == "cose-signature"


def test_es256() -> None:
    key = EcdsaSigner()
    message = parse_sign1(sign1(b"payload", signer=key, content_type=TYPE, alg=cose.ES256))
    verify(message, public=key.public)
    with pytest.raises(CoseError) as caught:
        verify(message, public=key.public, external_aad=b"other")
    assert caught.value.code == "cose-signature"


def test_second_library_verifies_ours() -> None:
    public = cwt.COSEKey.new({1: 1, 2: cose.key_id(KEY.public), 3: cose.EDDSA, -1: 6, -2: KEY.public})
    message = sign1(b"payload", signer=KEY, content_type=TYPE)
    assert cwt.COSE.new().decode(message, public) == b"payload"
    aad = cwt.COSE.new().decode_with_headers(MESSAGE, public, external_aad=b"gate")
    assert aad[2] == b"payload"
    assert cbor2.loads(MESSAGE).tag == 18


def test_we_verify_the_second_librarys() -> None:
    private = Ed25519PrivateKey.generate()
    jwk = {
        "kty": "OKP",
        "crv": "Ed25519",
        "alg": "EdDSA",
        "kid": "k",
        "x": _base64url(private.public_key().public_bytes_raw()),
    }
    key = cwt.COSEKey.from_jwk(jwk | {"d": _base64url(private.private_bytes_raw())})
    kid = cose.key_id(private.public_key().public_bytes_raw())
    message = cwt.COSE.new().encode_and_sign(
        b"payload", key, protected={1: cose.EDDSA, 3: TYPE, 4: kid}, unprotected={}, external_aad=b"gate"
    )
    parsed = parse_sign1(message, content_type=TYPE)
    verify(parsed, public=private.public_key().public_bytes_raw(), external_aad=b"gate")


def _parts(*, tag: int = 0xD2, protected: object = None, unprotected: object = None, **changes: object) -> bytes:
    header = {1: -8, 3: TYPE, 4: bytes(32)} if protected is None else protected
    encoded = header if isinstance(header, bytes) else cbor.dumps(header)
    parts = [
        encoded,
        {} if unprotected is None else unprotected,
        changes.get("payload", b"p"),
        changes.get("signature", bytes(64)),
    ]
    return bytes([tag]) + cbor.dumps(parts)


REFUSED = {
    "empty": (b"", "cose-format"),
    "untagged": (MESSAGE[1:], "cose-format"),
    "other-tag": (_parts(tag=0xD1), "cose-format"),
    "no-array": (b"\xd2\xa0", "cose-format"),
    "three-parts": (b"\xd2" + cbor.dumps([b"", {}, b""]), "cose-format"),
    "detached-payload": (_parts(payload=None), "cose-format"),
    "unprotected-header": (_parts(unprotected={4: b"k"}), "cose-format"),
    "signature-size": (_parts(signature=bytes(63)), "cose-format"),
    "alg-unknown": (_parts(protected={1: -37, 3: TYPE, 4: bytes(32)}), "cose-alg"),
    "alg-missing": (_parts(protected={3: TYPE, 4: bytes(32)}), "cbor-field"),
    "kid-size": (_parts(protected={1: -8, 3: TYPE, 4: bytes(31)}), "cbor-field"),
    "content-type-number": (_parts(protected={1: -8, 3: 60, 4: bytes(32)}), "cbor-field"),
    "critical-header": (_parts(protected={1: -8, 2: [3], 3: TYPE, 4: bytes(32)}), "cbor-limit"),
    "extra-header": (_parts(protected={1: -8, 3: TYPE, 4: bytes(32), 5: b"iv"}), "cbor-field"),
    "protected-empty": (_parts(protected=b""), "cbor-truncated"),
    "protected-not-canonical": (_parts(protected=bytes.fromhex("a11801") + b"\x27"), "cbor-not-canonical"),
    "trailing": (MESSAGE + b"\0", "cbor-trailing"),
    "truncated": (MESSAGE[:-1], "cbor-truncated"),
}


@pytest.mark.parametrize("rule", REFUSED)
def test_refused_by_rule(rule: str) -> None:
    data, code = REFUSED[rule]
    with pytest.raises(AttestError) as caught:
        parse_sign1(data)
    assert caught.value.code == code


def test_content_type_and_size_are_checked() -> None:
    with pytest.raises(CoseError) as caught:
        parse_sign1(MESSAGE, content_type="application/other")
    assert caught.value.code == "cose-content-type"
    with pytest.raises(CoseError):
        parse_sign1(MESSAGE, max_bytes=len(MESSAGE) - 1)


def test_other_key_is_refused_by_kid() -> None:
    with pytest.raises(CoseError) as caught:
        verify(parse_sign1(MESSAGE), public=Ed25519Signer.generate().public, external_aad=b"gate")
    assert caught.value.code == "cose-kid"


@given(st.integers(0, len(MESSAGE) - 1), st.integers(1, 255))
def test_any_changed_byte_is_refused(position: int, change: int) -> None:
    mutated = bytearray(MESSAGE)
    mutated[position] ^= change
    with pytest.raises(AttestError):
        verify(parse_sign1(bytes(mutated)), public=KEY.public, external_aad=b"gate")


@given(st.binary(max_size=200))
def test_any_bytes_give_a_message_or_a_typed_error(data: bytes) -> None:
    for candidate in (data, b"\xd2" + data):
        with pytest.raises(AttestError):
            verify(parse_sign1(candidate), public=KEY.public)


def _small_order_points() -> set[bytes]:
    """Encodings of the points of edwards25519 whose order divides 8, found by arithmetic."""
    found: set[bytes] = set()
    # Order 1, 2, 4: y in {1, -1, 0}; order 8: x² = -y² and the curve equation give D·y⁴ + 2·y² − 1 = 0.
    ys = {0, 1, P - 1}
    for sign in (1, -1):
        square = (-1 + sign * _root(1 + D)) * pow(D, -1, P) % P
        root = _root(square)
        if root * root % P == square:
            ys |= {root, P - root}
    for y in ys:
        for alias in {y, y + P} if y + P < 2**255 else {y}:
            for high in (0, 1 << 255):
                found.add((alias | high).to_bytes(32, "little"))
    return found


def _root(a: int) -> int:
    candidate = pow(a, (P + 3) // 8, P)
    return candidate if candidate * candidate % P == a % P else candidate * pow(2, (P - 1) // 4, P) % P


def test_keys_of_small_order_are_refused() -> None:
    points = _small_order_points()
    assert len(points) == 14
    for public in points:
        with pytest.raises(CoseError) as caught:
            verify(parse_sign1(MESSAGE), public=public)
        assert caught.value.code == "cose-key"


class Broken:
    def __init__(self, public: bytes, signature: bytes) -> None:
        self.public, self._signature = public, signature

    def sign(self, _data: bytes, /) -> bytes:
        return self._signature


def test_signing_checks_its_arguments() -> None:
    for signer, alg, content_type in [
        (Broken(bytes(31), bytes(64)), cose.EDDSA, TYPE),
        (Broken(KEY.public, bytes(63)), cose.EDDSA, TYPE),
        (KEY, cose.ES256, TYPE),
        (KEY, -37, TYPE),
        (KEY, cose.EDDSA, ""),
        (KEY, cose.EDDSA, "x" * 129),
    ]:
        with pytest.raises(CoseError):
            sign1(b"", signer=signer, content_type=content_type, alg=alg)


def test_point_off_the_curve_is_no_key() -> None:
    key = EcdsaSigner()
    off = key.public[:-1] + bytes([key.public[-1] ^ 1])
    message = parse_sign1(sign1(b"", signer=Broken(off, bytes(64)), content_type=TYPE, alg=cose.ES256))
    with pytest.raises(CoseError) as caught:
        verify(message, public=off)
    assert caught.value.code == "cose-key"


def _base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
