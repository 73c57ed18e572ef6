"""Enrolment against a real simulated TPM, and against devices that lie."""

from __future__ import annotations

import dataclasses
import datetime
import hmac
import os
import secrets
import time
from pathlib import Path

import pycddl
import pytest
from cryptography import x509
from cryptography.hazmat.decrepit.ciphers.modes import CFB
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID, ObjectIdentifier

from attest import cbor, cose, structures
from attest.errors import AttestError
from attest.evidence import credential, ekcert, enrol
from attest.evidence.credential import kdfa
from attest.evidence.ek import EkPublic, parse_ek
from attest.evidence.errors import EnrolError
from attest.evidence.record import DeviceRecord, parse_payload, parse_record
from attest.structures import Ak, Ek
from attest.tpm import Swtpm, TpmDevice, TpmError
from tests.attest.evidence.forge import AK, NOW_NS, POLICY_SIGNER, RECORD, ak_public, ecc_key

CDDL = Path(__file__).resolve().parents[3] / "attest" / "evidence" / "device-record.cddl"
EK_USAGE = ObjectIdentifier("2.23.133.8.1")
WHO = {"device_id": "mill-1", "enrolled_by": "operator"}


def roots(simulator: Swtpm) -> list[bytes]:
    return [path.read_bytes() for path in simulator.ca_certificates()]


def now_ns() -> int:
    return time.time_ns()


def test_device_is_enrolled(swtpm: Swtpm, device: TpmDevice) -> None:
    signed = enrol.enrol_locally(device, policy_signer=POLICY_SIGNER, ca_roots=roots(swtpm), now_ns=now_ns(), **WHO)
    record, message = parse_record(signed)
    cose.verify(message, public=POLICY_SIGNER.public)
    assert record.ak_name == device.ak().name
    assert record.ak_public == device.ak().public
    assert (record.tpm_kind, record.device_id, record.enrolled_by) == ("swtpm", "mill-1", "operator")
    assert record.manufacturer == "id:00001014"
    assert len(record.ek_chain) == 3, "leaf, issuer, root"
    assert device.handles_in_use() == {"transient": 0, "loaded sessions": 0}
    pycddl.Schema(CDDL.read_text()).validate_cbor(message.payload)


def test_wrong_answer_is_refused(swtpm: Swtpm, device: TpmDevice) -> None:
    made, pending = enrol.challenge(enrol.request(device), ca_roots=roots(swtpm), now_ns=now_ns())
    right = enrol.answer(device, made)
    wrong = bytes([right[0] ^ 1]) + right[1:]
    with pytest.raises(EnrolError) as caught:
        pending.finish(wrong, policy_signer=POLICY_SIGNER, now_ns=now_ns(), **WHO)
    assert caught.value.code == "credential"
    assert pending.finish(right, policy_signer=POLICY_SIGNER, now_ns=now_ns(), **WHO)


def test_credential_for_another_ak_is_not_opened(swtpm: Swtpm, device: TpmDevice) -> None:
    honest = enrol.request(device)
    stolen = dataclasses.replace(honest, ak_public=ak_public(AK))
    made, _ = enrol.challenge(stolen, ca_roots=roots(swtpm), now_ns=now_ns())
    with pytest.raises(TpmError) as caught:
        enrol.answer(device, made)
    assert caught.value.code == "tpm-refused"


def test_credential_for_another_ek_is_not_opened(device: TpmDevice) -> None:
    ek = parse_ek(rsa_ek(rsa.generate_private_key(65537, 2048)))
    name = device.ak().name
    made = credential.make_credential(ek, ak_name=name, value=bytes(32), random=secrets.token_bytes)
    with pytest.raises(TpmError):
        device.activate(credential=made.blob, secret=made.secret)


def test_certificate_of_another_tpm_is_refused(swtpm: Swtpm, device: TpmDevice) -> None:
    honest = enrol.request(device)
    key = rsa.generate_private_key(65537, 2048).public_key().public_numbers()
    stolen = dataclasses.replace(honest, ek_public=structures.rsa_template(modulus=key.n.to_bytes(256, "big")))
    with pytest.raises(EnrolError) as caught:
        enrol.challenge(stolen, ca_roots=roots(swtpm), now_ns=now_ns())
    assert caught.value.code == "ek-mismatch"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"ek_certificates": ()}, "ek-certificate"),
        ({"ek_certificates": (b"no certificate",)}, "ek-certificate"),
        ({"ak_public": structures.ak_template(x=b"\1" * 32, y=b"\1" * 32)[:-1]}, "tpm-structure"),
        (
            {"ak_public": ak_public(AK).replace(structures.u32(structures.AK_ATTRIBUTES), bytes(4))},
            "ak-template",
        ),
    ],
    ids=["no-certificate", "garbage-certificate", "ak-truncated", "ak-not-restricted"],
)
def test_lying_request_is_refused(swtpm: Swtpm, device: TpmDevice, change: dict[str, object], code: str) -> None:
    wish = dataclasses.replace(enrol.request(device), **change)  # type: ignore[arg-type]
    with pytest.raises(AttestError) as caught:
        enrol.challenge(wish, ca_roots=roots(swtpm), now_ns=now_ns())
    assert caught.value.code == code


def test_other_ek_template_is_refused(swtpm: Swtpm, device: TpmDevice) -> None:
    honest = enrol.request(device)
    signing = honest.ek_public.replace(
        structures.u32(structures.EK_ATTRIBUTES), structures.u32(structures.EK_ATTRIBUTES | structures.SIGN)
    )
    with pytest.raises(EnrolError) as caught:
        enrol.challenge(dataclasses.replace(honest, ek_public=signing), ca_roots=roots(swtpm), now_ns=now_ns())
    assert caught.value.code == "ek-template"


def test_challenge_differs_each_time(swtpm: Swtpm, device: TpmDevice) -> None:
    wish = enrol.request(device)
    first, _ = enrol.challenge(wish, ca_roots=roots(swtpm), now_ns=now_ns())
    second, _ = enrol.challenge(wish, ca_roots=roots(swtpm), now_ns=now_ns())
    assert first != second


def test_value_too_long() -> None:
    ek = MAKER.public()
    with pytest.raises(EnrolError):
        credential.make_credential(ek, ak_name=bytes(34), value=bytes(33), random=os.urandom)


def rsa_ek(key: rsa.RSAPrivateKey) -> bytes:
    """TPMT_PUBLIC of an EK by template L-1."""
    return structures.rsa_template(modulus=key.public_key().public_numbers().n.to_bytes(256, "big"))


class Maker:
    """A TPM maker's CA for EK certificates that are wrong in one way each; the EK is 2048-bit RSA."""

    ek = rsa.generate_private_key(65537, 2048)
    key = ecc_key("maker")

    def root(self) -> x509.Certificate:
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "maker")])
        builder = self._builder(name, name, self.key.public_key(), 3650)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        return builder.sign(self.key, hashes.SHA256())

    def leaf(
        self, *, usage: ObjectIdentifier = EK_USAGE, san: bool = True, days: int = 365, key: object = None
    ) -> bytes:
        public = key if isinstance(key, ec.EllipticCurvePublicKey) else self.ek.public_key()
        builder = self._builder(self.root().subject, x509.Name([]), public, days)
        builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        if san:
            model = x509.Name([x509.NameAttribute(ObjectIdentifier("2.23.133.2.2"), "SLB9670")])
            names = x509.SubjectAlternativeName([x509.DirectoryName(model)])
            builder = builder.add_extension(names, critical=True)
        return builder.sign(self.key, hashes.SHA256()).public_bytes(Encoding.DER)

    def _builder(
        self,
        issuer: x509.Name,
        subject: x509.Name,
        public: rsa.RSAPublicKey | ec.EllipticCurvePublicKey,
        days: int,
    ) -> x509.CertificateBuilder:
        start = datetime.datetime.fromtimestamp(NOW_NS / 1e9, datetime.UTC)
        builder = x509.CertificateBuilder().issuer_name(issuer).subject_name(subject).public_key(public)
        builder = builder.serial_number(7).not_valid_before(start)
        return builder.not_valid_after(start + datetime.timedelta(days=days))

    def public(self) -> EkPublic:
        return parse_ek(rsa_ek(self.ek))

    def check(self, leaf: bytes, *, now: int = NOW_NS + 1, trust: list[bytes] | None = None) -> ekcert.EkIdentity:
        anchors = [self.root().public_bytes(Encoding.PEM)] if trust is None else trust
        return ekcert.check_ek(self.public(), [leaf], ca_roots=anchors, now_ns=now)


MAKER = Maker()


def test_hardware_certificate_is_recognised() -> None:
    identity = MAKER.check(MAKER.leaf())
    assert (identity.kind, identity.model, identity.manufacturer) == ("hardware", "SLB9670", "")


def test_ek_certificate_rules() -> None:
    day = 86_400 * 10**9
    client_usage = ObjectIdentifier("1.3.6.1.5.5.7.3.2")
    refused = {
        "usage": lambda: MAKER.check(MAKER.leaf(usage=client_usage)),
        "no alternative name": lambda: MAKER.check(MAKER.leaf(san=False)),
        "expired": lambda: MAKER.check(MAKER.leaf(days=1), now=NOW_NS + 2 * day),
        "not yet valid": lambda: MAKER.check(MAKER.leaf(), now=NOW_NS - day),
    }
    for rule, call in refused.items():
        with pytest.raises(EnrolError) as caught:
            call()
        assert caught.value.code == "ek-certificate", rule


def test_trust_store_without_a_root() -> None:
    for trust in ([], [MAKER.leaf()]):
        with pytest.raises(EnrolError) as caught:
            MAKER.check(MAKER.leaf(), trust=trust)
        assert caught.value.code == "ca-roots"


def test_root_of_another_maker(swtpm: Swtpm) -> None:
    with pytest.raises(EnrolError) as caught:
        MAKER.check(MAKER.leaf(), trust=roots(swtpm))
    assert caught.value.code == "ek-certificate"
    assert caught.value.hint


def test_certificate_of_a_key_of_another_kind() -> None:
    with pytest.raises(EnrolError) as caught:
        MAKER.check(MAKER.leaf(key=AK.public_key()))
    assert caught.value.code == "ek-mismatch"


def test_leaf_that_plays_its_own_issuer_is_refused() -> None:
    with pytest.raises(EnrolError):
        ekcert.check_ek(
            MAKER.public(),
            [MAKER.leaf(), MAKER.leaf()],
            ca_roots=[MAKER.root().public_bytes(Encoding.DER).replace(b"maker", b"baker")],
            now_ns=NOW_NS + 1,
        )


def test_record_reads_back() -> None:
    parsed, message = parse_record(RECORD.sign(POLICY_SIGNER))
    assert parsed == RECORD
    assert parsed.record_id == RECORD.record_id
    pycddl.Schema(CDDL.read_text()).validate_cbor(message.payload)


RECORD_RULES = {
    "format": {1: 2},
    "device-id-empty": {2: ""},
    "kind": {3: "vtpm"},
    "chain-empty": {4: []},
    "chain-no-bytes": {4: ["x"]},
    "chain-too-long": {4: [b""] * 9},
    "certificate-too-large": {4: [bytes(8193)]},
    "ek-name-size": {5: bytes(33)},
    "ak-name-of-another-key": {6: bytes(34)},
    "ak-unreadable": {7: b"\0"},
    "time-negative": {8: -1},
    "unknown-key": {11: 1},
}


@pytest.mark.parametrize("rule", RECORD_RULES)
def test_record_refused(rule: str) -> None:
    payload = cbor.loads(RECORD.encode())
    assert isinstance(payload, dict)
    with pytest.raises(AttestError):
        parse_payload(cbor.dumps({**payload, **RECORD_RULES[rule]}))


class RecordedTpm:
    """An enrolling device in memory: it decrypts the credential by the standard's formulas, without a TPM."""

    def __init__(self) -> None:
        numbers = Maker.ek.public_key().public_numbers()
        self._ek = structures.rsa_template(modulus=numbers.n.to_bytes(256, "big"))

    def ek(self, kind: str = "rsa2048", /) -> Ek:
        return Ek(self._ek, (MAKER.leaf(),))

    def ak(self) -> Ak:
        public = ak_public(AK)
        return Ak(0x81000001, structures.object_name(public), public)

    def activate(self, *, credential: bytes, secret: bytes, ek: str = "rsa2048") -> bytes:
        oaep = padding.OAEP(padding.MGF1(hashes.SHA256()), hashes.SHA256(), b"IDENTITY\0")
        seed = Maker.ek.decrypt(secret, oaep)
        integrity, identity = credential[2:34], credential[34:]
        name = self.ak().name
        key = kdfa(seed, label=b"INTEGRITY", context=b"", bits=256)
        assert hmac.digest(key, identity + name, "sha256") == integrity
        cipher = Cipher(algorithms.AES(kdfa(seed, label=b"STORAGE", context=name, bits=128)), CFB(bytes(16)))
        plain = cipher.decryptor().update(identity)
        return plain[2 : 2 + int.from_bytes(plain[:2], "big")]


def test_hardware_device_is_enrolled_as_such() -> None:
    signed = enrol.enrol_locally(
        RecordedTpm(),
        policy_signer=POLICY_SIGNER,
        ca_roots=[MAKER.root().public_bytes(Encoding.PEM)],
        now_ns=NOW_NS + 1,
        **WHO,
    )
    record, _ = parse_record(signed)
    assert isinstance(record, DeviceRecord)
    assert (record.tpm_kind, record.manufacturer) == ("hardware", "unknown")
