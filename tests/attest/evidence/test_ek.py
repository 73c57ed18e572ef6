"""Endorsement keys of all three templates: parsed strictly, challenged, and opened by a real simulated TPM."""

from __future__ import annotations

import datetime
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID, ObjectIdentifier

from attest import cose, structures
from attest.errors import AttestError
from attest.evidence import enrol, enrol_files
from attest.evidence.credential import make_credential
from attest.evidence.ek import EkKind, parse_ek
from attest.evidence.errors import EnrolError
from attest.evidence.record import parse_record
from attest.structures import EK_POLICY_B_SHA384, Ak, Ek, StructureError, tpm2b, u16
from attest.tpm import Swtpm, TpmDevice, TpmError
from attest.tpm.templates import EK
from tests.attest.evidence.forge import POLICY_SIGNER

KINDS: tuple[EkKind, ...] = ("rsa2048", "p256", "p384")
CURVES: dict[str, ec.EllipticCurve] = {"p256": ec.SECP256R1(), "p384": ec.SECP384R1()}


def ek_public(kind: EkKind) -> bytes:
    """TPMT_PUBLIC of a new key by the template the device side uses."""
    fixed = EK[kind].template.fixed
    if kind == "rsa2048":
        return fixed + rsa.generate_private_key(65537, 2048).public_key().public_numbers().n.to_bytes(256, "big")
    numbers = ec.generate_private_key(CURVES[kind]).public_key().public_numbers()
    size = CURVES[kind].key_size // 8
    return fixed + tpm2b(numbers.x.to_bytes(size, "big")) + tpm2b(numbers.y.to_bytes(size, "big"))


@pytest.mark.parametrize("kind", KINDS)
def test_templates_of_device_and_verifier_agree(kind: EkKind) -> None:
    public = ek_public(kind)
    parsed = parse_ek(public)
    assert (parsed.kind, parsed.hash_name, parsed.aes_bits) == {
        "rsa2048": ("rsa2048", "sha256", 128),
        "p256": ("p256", "sha256", 128),
        "p384": ("p384", "sha384", 256),
    }[kind]
    assert len(parsed.name) == (50 if kind == "p384" else 34)
    assert EK["p384"].template.fixed.count(EK_POLICY_B_SHA384) == 1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("at", range(2, 130))
def test_another_template_is_refused(kind: EkKind, at: int) -> None:
    """Any changed byte before the key itself: type, hash, attributes, policy, wrapping, curve."""
    public = bytearray(ek_public(kind))
    if at >= len(EK[kind].template.fixed):
        return
    public[at] ^= 1
    with pytest.raises(AttestError) as caught:
        parse_ek(bytes(public))
    assert caught.value.code in ("tpm-structure", "ek-template")


@pytest.mark.parametrize("kind", ["p256", "p384"])
def test_a_point_off_the_curve_is_refused(kind: EkKind) -> None:
    public = bytearray(ek_public(kind))
    public[-1] ^= 1
    with pytest.raises(StructureError, match="not on the curve"):
        parse_ek(bytes(public))
    with pytest.raises(StructureError):
        parse_ek(bytes(public) + b"\0")
    with pytest.raises(StructureError):
        parse_ek(u16(structures.ALG_ECC) + u16(0x0004) + bytes(100))


@dataclass
class WithCertificate:
    """A real TPM whose maker's CA is this test's: only the EK of one kind has a certificate."""

    device: TpmDevice
    kind: EkKind

    def __post_init__(self) -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.asked: list[str] = []

    def ek(self, kind: EkKind = "rsa2048", /) -> Ek:
        self.asked.append(kind)
        found = self.device.ek(kind)
        return Ek(found.public, (self._leaf(found.public),) if kind == self.kind else ())

    def ak(self) -> Ak:
        return self.device.ak()

    def activate(self, *, credential: bytes, secret: bytes, ek: EkKind = "rsa2048") -> bytes:
        assert ek == self.kind
        return self.device.activate(credential=credential, secret=secret, ek=ek)

    def root(self) -> bytes:
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "maker")])
        basic = x509.BasicConstraints(ca=True, path_length=None)
        builder = self._builder(name, name, self.key.public_key()).add_extension(basic, critical=True)
        return builder.sign(self.key, hashes.SHA256()).public_bytes(Encoding.DER)

    def _leaf(self, public: bytes) -> bytes:
        issuer = x509.load_der_x509_certificate(self.root()).subject
        builder = self._builder(issuer, x509.Name([]), parse_ek(public).key)
        usage = x509.ExtendedKeyUsage([ObjectIdentifier("2.23.133.8.1")])
        maker = x509.Name([x509.NameAttribute(ObjectIdentifier("2.23.133.2.1"), "id:00000000")])
        names = x509.SubjectAlternativeName([x509.DirectoryName(maker)])
        builder = builder.add_extension(usage, critical=False).add_extension(names, critical=True)
        return builder.sign(self.key, hashes.SHA256()).public_bytes(Encoding.DER)

    def _builder(
        self, issuer: x509.Name, subject: x509.Name, public: rsa.RSAPublicKey | ec.EllipticCurvePublicKey
    ) -> x509.CertificateBuilder:
        start = datetime.datetime.now(datetime.UTC) - datetime.timedelta(hours=1)
        builder = x509.CertificateBuilder().issuer_name(issuer).subject_name(subject).public_key(public)
        builder = builder.serial_number(7).not_valid_before(start)
        return builder.not_valid_after(start + datetime.timedelta(days=2))


@pytest.mark.parametrize("kind", KINDS)
def test_a_device_is_enrolled_by_whichever_key_has_a_certificate(device: TpmDevice, kind: EkKind) -> None:
    tpm = WithCertificate(device, kind)
    wish = enrol.request(tpm)
    assert tpm.asked == list(KINDS[: KINDS.index(kind) + 1])
    made, pending = enrol.challenge(wish, ca_roots=[tpm.root()], now_ns=time.time_ns())
    sent = enrol_files.parse_challenge(enrol_files.encode_challenge(made))
    assert sent.ek == kind
    answer = enrol.answer(tpm, sent)
    signed = pending.finish(
        answer, device_id="mill-1", policy_signer=POLICY_SIGNER, enrolled_by="operator", now_ns=time.time_ns()
    )
    record, message = parse_record(signed)
    cose.verify(message, public=POLICY_SIGNER.public)
    assert record.ek_name == parse_ek(device.ek(kind).public).name


@dataclass
class WithoutCurves(WithCertificate):
    """A TPM that knows neither curve, or is gone when it is asked for one."""

    code: str = "tpm-refused"

    def ek(self, kind: EkKind = "rsa2048", /) -> Ek:
        if kind != "rsa2048":
            raise TpmError(self.code, found="TPM_RC_CURVE", expected="success")
        return Ek(self.device.ek().public, ())


def test_a_curve_the_tpm_does_not_know_is_passed_over(device: TpmDevice) -> None:
    assert enrol.request(WithoutCurves(device, "rsa2048")).ek_certificates == ()
    with pytest.raises(TpmError, match="tpm-lost"):
        enrol.request(WithoutCurves(device, "rsa2048", code="tpm-lost"))


@pytest.mark.parametrize("kind", KINDS)
def test_a_challenge_is_fresh_and_bound(kind: EkKind) -> None:
    ek = parse_ek(ek_public(kind))
    first, second = (make_credential(ek, ak_name=bytes(34), value=bytes(32), random=os.urandom) for _ in range(2))
    assert first.secret != second.secret
    assert first.blob != second.blob
    same: Callable[[int], bytes] = lambda size: b"\7" * size  # noqa: E731
    if kind != "rsa2048":  # OAEP draws its own randomness
        assert make_credential(ek, ak_name=bytes(34), value=b"v", random=same) == make_credential(
            ek, ak_name=bytes(34), value=b"v", random=same
        )


def test_a_request_without_any_certificate_is_refused(swtpm: Swtpm, device: TpmDevice, tmp_path: Path) -> None:
    wish = enrol.Request(device.ek().public, (), device.ak().public)
    roots = [path.read_bytes() for path in swtpm.ca_certificates()]
    with pytest.raises(EnrolError) as caught:
        enrol.challenge(wish, ca_roots=roots, now_ns=time.time_ns())
    assert caught.value.code == "ek-certificate"
    assert "0x01c0000a" in caught.value.expected
