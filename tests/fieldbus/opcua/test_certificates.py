"""Certificates and trust lists: every way a file can be wrong has its own code."""

from __future__ import annotations

import datetime as dt
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

from fieldbus.opcua import CertificateError, Identity, TrustList, create_identity, load_certificate, load_identity
from fieldbus.opcua.certificates import FILE_BYTES_MAX, TRUSTED_MAX, application_uris


def load(identity: Identity, **changes: Path) -> Identity:
    return load_identity(
        changes.get("certificate_path", identity.certificate_path), changes.get("key_path", identity.key_path)
    )


def test_a_created_identity_loads_and_is_what_opc_ua_asks_for(plant: dict[str, Identity]) -> None:
    created = plant["plc"]
    loaded = load(created)
    assert loaded == created
    assert loaded.application_uri == "urn:tests:plc"
    certificate = loaded.certificate
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["localhost"]
    assert [str(ip) for ip in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1"]
    usage = certificate.extensions.get_extension_for_class(x509.KeyUsage).value
    assert usage.digital_signature
    assert usage.content_commitment
    assert usage.key_encipherment
    assert usage.data_encipherment
    assert not certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    key = certificate.public_key()
    assert isinstance(key, rsa.RSAPublicKey)
    assert key.key_size == 2048
    assert stat.S_IMODE(created.key_path.stat().st_mode) == 0o600
    assert certificate.not_valid_before_utc < dt.datetime.now(dt.UTC)


def test_files_are_never_overwritten(folder: Path) -> None:
    before = (folder / "plc.key.pem").read_bytes()
    with pytest.raises(CertificateError) as caught:
        create_identity(folder, "plc", application_uri="urn:tests:again")
    assert caught.value.code == "file-exists"
    assert (folder / "plc.key.pem").read_bytes() == before


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CertificateError) as caught:
        create_identity(tmp_path / "file" / "pki", "x", application_uri="urn:tests:x")
    assert caught.value.code in ("file-unwritable", "file-exists")


def self_signed(key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey, uris: list[str]) -> bytes:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "odd")])
    now = dt.datetime.now(dt.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
    )
    if uris:
        alternatives = x509.SubjectAlternativeName([x509.UniformResourceIdentifier(uri) for uri in uris])
        builder = builder.add_extension(alternatives, critical=False)
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.DER)


def private_pem(key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey, password: bytes | None = None) -> bytes:
    protection: serialization.KeySerializationEncryption = (
        serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
    )
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, protection)


def put(path: Path, data: bytes, mode: int = 0o600) -> Path:
    path.write_bytes(data)
    path.chmod(mode)
    return path


def own_key(folder: Path) -> rsa.RSAPrivateKey:
    key = serialization.load_pem_private_key((folder / "gate.key.pem").read_bytes(), None)
    assert isinstance(key, rsa.RSAPrivateKey)
    return key


def break_key_missing(folder: Path) -> None:
    (folder / "gate.key.pem").unlink()


def break_certificate_garbage(folder: Path) -> None:
    put(folder / "gate.der", b"\x30\x82nothing")


def break_certificate_pem_garbage(folder: Path) -> None:
    put(folder / "gate.der", b"-----BEGIN CERTIFICATE-----\nnothing\n-----END CERTIFICATE-----\n")


def break_certificate_huge(folder: Path) -> None:
    put(folder / "gate.der", bytes(FILE_BYTES_MAX + 1))


def break_key_garbage(folder: Path) -> None:
    put(folder / "gate.key.pem", b"nothing")


def break_key_with_password(folder: Path) -> None:
    put(folder / "gate.key.pem", private_pem(own_key(folder), b"secret"))


def break_key_is_elliptic(folder: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    put(folder / "gate.key.pem", private_pem(key))
    put(folder / "gate.der", self_signed(key, ["urn:tests:gate"]))


def break_key_open_to_others(folder: Path) -> None:
    (folder / "gate.key.pem").chmod(0o640)


def break_key_of_another(folder: Path) -> None:
    put(folder / "gate.key.pem", (folder / "bridge.key.pem").read_bytes())


def break_key_short(folder: Path) -> None:
    key = rsa.generate_private_key(public_exponent=65_537, key_size=1024)
    put(folder / "gate.key.pem", private_pem(key))
    put(folder / "gate.der", self_signed(key, ["urn:tests:gate"]))


def break_no_uri(folder: Path) -> None:
    put(folder / "gate.der", self_signed(own_key(folder), []))


def break_two_uris(folder: Path) -> None:
    put(folder / "gate.der", self_signed(own_key(folder), ["urn:a", "urn:b"]))


@pytest.mark.parametrize(
    ("damage", "code"),
    [
        (break_key_missing, "file-unreadable"),
        (break_certificate_garbage, "certificate-format"),
        (break_certificate_pem_garbage, "certificate-format"),
        (break_certificate_huge, "certificate-format"),
        (break_key_garbage, "key-format"),
        (break_key_with_password, "key-format"),
        (break_key_is_elliptic, "key-format"),
        (break_key_open_to_others, "key-permissions"),
        (break_key_of_another, "key-mismatch"),
        (break_key_short, "key-weak"),
        (break_no_uri, "certificate-uri"),
        (break_two_uris, "certificate-uri"),
    ],
)
def test_a_damaged_identity_is_refused_by_name(folder: Path, damage: Callable[[Path], None], code: str) -> None:
    damage(folder)
    with pytest.raises(CertificateError) as caught:
        load_identity(folder / "gate.der", folder / "gate.key.pem")
    assert caught.value.code == code
    assert "PRIVATE" not in str(caught.value)


def test_the_term_is_checked_at_both_ends(plant: dict[str, Identity]) -> None:
    gate = plant["gate"]
    start, end = gate.certificate.not_valid_before_utc, gate.certificate.not_valid_after_utc
    second = dt.timedelta(seconds=1)
    for now in (start, end):
        assert load_identity(gate.certificate_path, gate.key_path, now=now) == gate
    for now, code in ((start - second, "certificate-not-yet-valid"), (end + second, "certificate-expired")):
        with pytest.raises(CertificateError) as caught:
            load_identity(gate.certificate_path, gate.key_path, now=now)
        assert caught.value.code == code


def test_pem_certificates_load_too(plant: dict[str, Identity], tmp_path: Path) -> None:
    gate = plant["gate"]
    pem = put(tmp_path / "gate.pem", gate.certificate.public_bytes(serialization.Encoding.PEM))
    assert load_certificate(pem) == gate.certificate
    assert application_uris(gate.certificate) == ["urn:tests:gate"]


def test_a_trust_list_trusts_what_is_in_it_now(plant: dict[str, Identity], tmp_path: Path) -> None:
    trusted = TrustList(tmp_path / "trusted")
    gate, stranger = plant["gate"].certificate, plant["stranger"].certificate
    path = trusted.add(gate)
    assert trusted.add(gate) == path
    trusted.check(gate, label="gate")
    with pytest.raises(CertificateError) as caught:
        trusted.check(stranger, label="stranger")
    assert caught.value.code == "untrusted-certificate"
    assert plant["stranger"].thumbprint in caught.value.found
    path.unlink()
    with pytest.raises(CertificateError, match="untrusted-certificate"):
        trusted.check(gate, label="gate")


def test_a_certificate_with_the_same_names_and_another_key_is_not_trusted(
    plant: dict[str, Identity], tmp_path: Path
) -> None:
    trusted = TrustList(tmp_path / "trusted")
    trusted.add(plant["gate"].certificate)
    twin = create_identity(tmp_path, "gate", application_uri="urn:tests:gate", hosts=["127.0.0.1", "localhost"])
    with pytest.raises(CertificateError, match="untrusted-certificate"):
        trusted.check(twin.certificate, label="twin")


def test_trust_lists_are_bounded_and_strict(plant: dict[str, Identity], tmp_path: Path) -> None:
    with pytest.raises(CertificateError, match="file-unreadable"):
        TrustList(tmp_path / "nosuch").fingerprints()
    put(tmp_path / "broken.der", b"nothing")
    (tmp_path / "README.txt").write_text("not a certificate, not read")
    with pytest.raises(CertificateError, match="certificate-format"):
        TrustList(tmp_path).check(plant["gate"].certificate, label="gate")
    TrustList(tmp_path).add(plant["gate"].certificate)
    TrustList(tmp_path).check(plant["gate"].certificate, label="gate")  # listed, whatever lies beside it
    with pytest.raises(CertificateError, match="certificate-format"):
        TrustList(tmp_path).check(plant["stranger"].certificate, label="stranger")
    for number in range(TRUSTED_MAX + 1):
        put(tmp_path / f"{number}.der", b"")
    with pytest.raises(CertificateError, match="trust-list-too-long"):
        TrustList(tmp_path).fingerprints()
