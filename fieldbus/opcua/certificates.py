"""Application instance certificates (OPC 10000-4, 6.1; OPC 10000-6, 6.2.2) and lists of trusted ones.

A certificate is trusted when the very certificate is in the list: plants exchange self-signed application
certificates by hand. Chains to an authority are not followed.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import ipaddress
import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fieldbus.opcua.errors import CertificateError

KEY_BITS = 2048
"""What Basic256Sha256 allows at least; 4096 triples the connect time for nothing a plant network needs."""

FILE_BYTES_MAX = 65_536
"""A certificate or key file larger than this is something else."""

TRUSTED_MAX = 256
"""Certificates in one trust list: read on each connection, so bounded."""

BACKDATE = dt.timedelta(hours=1)
"""New certificates begin this much earlier: a peer whose clock is behind must still accept them."""

_SUFFIXES = frozenset({".der", ".crt", ".cer", ".pem"})


@dataclass(frozen=True, slots=True)
class Identity:
    """A loaded certificate with the place of its private key; the key itself is not kept here."""

    certificate_path: Path
    key_path: Path
    certificate: x509.Certificate
    application_uri: str

    @property
    def der(self) -> bytes:
        """The certificate in DER."""
        return self.certificate.public_bytes(serialization.Encoding.DER)

    @property
    def thumbprint(self) -> str:
        """Lower-case hex SHA-256 of the DER certificate."""
        return hashlib.sha256(self.der).hexdigest()


def create_identity(
    directory: Path,
    name: str,
    *,
    application_uri: str,
    hosts: Sequence[str] = (),
    days: int = 730,
    not_before: dt.datetime | None = None,
) -> Identity:
    """Make RSA key and self-signed certificate: ``directory/name.der`` and ``name.key.pem`` (mode 0600).

    ``hosts``: DNS names or IP addresses of a server. Existing files are never overwritten. Raises
    CertificateError ``file-exists`` or ``file-unwritable``.
    """
    key = rsa.generate_private_key(public_exponent=65_537, key_size=KEY_BITS)
    key_path = directory / f"{name}.key.pem"
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    _write_new(key_path, pem, mode=0o600)
    return issue(
        key,
        key_path,
        directory / f"{name}.der",
        application_uri,
        hosts=hosts,
        days=days,
        not_before=not_before,
        name=name,
    )


def issue(
    key: rsa.RSAPrivateKey,
    key_path: Path,
    certificate_path: Path,
    application_uri: str,
    *,
    name: str,
    hosts: Sequence[str] = (),
    days: int = 730,
    not_before: dt.datetime | None = None,
) -> Identity:
    """A new self-signed certificate for a key that is already in ``key_path``; raises as ``create_identity``."""
    start = not_before if not_before is not None else dt.datetime.now(dt.UTC) - BACKDATE
    certificate = _build(key, name, application_uri, hosts, start, start + dt.timedelta(days=days))
    _write_new(certificate_path, certificate.public_bytes(serialization.Encoding.DER), mode=0o644)
    return Identity(certificate_path, key_path, certificate, application_uri)


def _build(
    key: rsa.RSAPrivateKey,
    name: str,
    application_uri: str,
    hosts: Sequence[str],
    start: dt.datetime,
    end: dt.datetime,
) -> x509.Certificate:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    names: list[x509.GeneralName] = [x509.UniformResourceIdentifier(application_uri)]
    names += [_general_name(host) for host in hosts]
    usage = x509.KeyUsage(
        digital_signature=True,
        content_commitment=True,
        key_encipherment=True,
        data_encipherment=True,
        key_agreement=False,
        key_cert_sign=True,  # self-signed: it signs itself, nothing else (path length is moot without CA)
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )
    purposes = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH])
    subject_key = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    authority_key = x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(subject_key)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(end)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(purposes, critical=False)
        .add_extension(subject_key, critical=False)
        .add_extension(authority_key, critical=False)
        .sign(key, hashes.SHA256())
    )


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _write_new(path: Path, data: bytes, *, mode: int) -> None:
    """Write a file that did not exist, with its final permissions from the first byte on."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
    except FileExistsError as error:
        raise CertificateError(
            "file-exists", found=str(path), expected="a new file", hint="remove the old one deliberately first"
        ) from error
    except OSError as error:
        raise CertificateError(
            "file-unwritable", found=f"{path}: {error.strerror}", expected="a writable folder"
        ) from error


def load_identity(
    certificate_path: Path, key_path: Path, *, now: dt.datetime | None = None, quick: bool = False
) -> Identity:
    """Load and check a certificate and its key (DER or PEM; the key without a password).

    ``quick``: the key is checked as :func:`parse_key` says there.

    Raises CertificateError ``file-unreadable``, ``certificate-format``, ``key-format``, ``key-permissions``
    (readable by others), ``key-mismatch``, ``key-weak``, ``certificate-uri``, ``certificate-expired`` or
    ``certificate-not-yet-valid``.
    """
    certificate = load_certificate(certificate_path)
    key = parse_key(read_key(key_path), label=str(key_path), quick=quick)
    if key.key_size < KEY_BITS:
        raise CertificateError("key-weak", found=f"{key.key_size} bits", expected=f"at least {KEY_BITS}")
    if key.public_key() != certificate.public_key():
        raise CertificateError(
            "key-mismatch",
            found=f"{key_path} is another certificate's key",
            expected=f"the key of {certificate_path}",
        )
    check_validity(certificate, label=str(certificate_path), now=now)
    uris = application_uris(certificate)
    if len(uris) != 1:
        raise CertificateError(
            "certificate-uri",
            found=f"{len(uris)} URIs in {certificate_path}",
            expected="one application URI in the subject alternative name",
        )
    return Identity(certificate_path, key_path, certificate, uris[0])


def load_certificate(path: Path) -> x509.Certificate:
    """One certificate from a DER or PEM file; raises ``file-unreadable`` or ``certificate-format``."""
    data = _read(path)
    try:
        if data.lstrip().startswith(b"-----BEGIN"):
            return x509.load_pem_x509_certificate(data)
        return x509.load_der_x509_certificate(data)
    except ValueError as error:
        raise CertificateError(
            "certificate-format", found=f"{path} is none", expected="an X.509 certificate in DER or PEM"
        ) from error


def read_key(path: Path) -> bytes:
    """The bytes of a key file that only its owner can read. Raises ``file-unreadable``, ``key-permissions``."""
    data = _read(path)
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & 0o077:
        raise CertificateError(
            "key-permissions",
            found=f"{path} with mode {mode:04o}",
            expected="0600: readable by its owner only",
            hint=f"chmod 600 {path}",
        )
    return data


def parse_key(data: bytes, *, label: str, quick: bool = False) -> rsa.RSAPrivateKey:
    """An RSA key, PEM or DER. Raises ``key-format``.

    It is checked as a whole, primes included, which holds up the whole process for 30 ms and more; ``quick``, for
    while other connections run, checks that it signs what its own public key verifies: a key damaged since the whole
    check makes wrong signatures, and none of them leaves this function.
    """
    try:
        if data.lstrip().startswith(b"-----BEGIN"):
            key = serialization.load_pem_private_key(data, password=None, unsafe_skip_rsa_key_validation=quick)
        else:
            key = serialization.load_der_private_key(data, password=None, unsafe_skip_rsa_key_validation=quick)
    except (ValueError, TypeError) as error:
        raise CertificateError(
            "key-format", found=f"{label} is none", expected="an unencrypted private key in PEM or DER"
        ) from error
    if not isinstance(key, rsa.RSAPrivateKey):
        raise CertificateError("key-format", found="no RSA key", expected="RSA, as Basic256Sha256 demands")
    if quick:
        try:
            signature = key.sign(_PROBE, padding.PKCS1v15(), hashes.SHA256())
            key.public_key().verify(signature, _PROBE, padding.PKCS1v15(), hashes.SHA256())
        except (InvalidSignature, ValueError) as error:
            raise CertificateError("key-format", found=f"{label} is damaged", expected="a working key") from error
    return key


_PROBE = b"does this key work?"


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise CertificateError(
            "file-unreadable", found=f"{path}: {error.strerror}", expected="a readable file"
        ) from error
    if len(data) > FILE_BYTES_MAX:
        raise CertificateError(
            "certificate-format", found=f"{path}: over {FILE_BYTES_MAX} bytes", expected="a certificate or key"
        )
    return data


def check_validity(certificate: x509.Certificate, *, label: str, now: dt.datetime | None = None) -> None:
    """Raise ``certificate-expired`` or ``certificate-not-yet-valid`` unless ``now`` (UTC) is inside its term."""
    now = now if now is not None else dt.datetime.now(dt.UTC)
    if now > certificate.not_valid_after_utc:
        raise CertificateError(
            "certificate-expired",
            found=f"{label} ended {certificate.not_valid_after_utc:%Y-%m-%d %H:%M} UTC",
            expected="a valid certificate",
            hint="make a new one and let the peer trust it; check this machine's date as well",
        )
    if now < certificate.not_valid_before_utc:
        raise CertificateError(
            "certificate-not-yet-valid",
            found=f"{label} begins {certificate.not_valid_before_utc:%Y-%m-%d %H:%M} UTC",
            expected="a valid certificate",
            hint="check this machine's date",
        )


@dataclass(frozen=True, slots=True)
class CertificateTerm:
    """How long a certificate lasts, as plain values for a snapshot. ``days_left`` is negative once it has ended."""

    label: str
    thumbprint: str
    not_after_ns: int
    days_left: int


def term(certificate: x509.Certificate, *, label: str, now: dt.datetime | None = None) -> CertificateTerm:
    """The term of ``certificate``; days are whole ones, rounded down."""
    now = now if now is not None else dt.datetime.now(dt.UTC)
    end = certificate.not_valid_after_utc
    thumbprint = certificate.fingerprint(hashes.SHA256()).hex()
    return CertificateTerm(label, thumbprint, int(end.timestamp()) * 1_000_000_000, (end - now).days)


def application_uris(certificate: x509.Certificate) -> list[str]:
    """URIs in the subject alternative name; empty where there is none."""
    try:
        extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except (x509.ExtensionNotFound, ValueError):
        return []
    return extension.value.get_values_for_type(x509.UniformResourceIdentifier)


class TrustList:
    """A folder of trusted certificates (``*.der|.crt|.cer|.pem``), read anew each time: changes count at once."""

    __slots__ = ("_directory",)

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    @property
    def directory(self) -> Path:
        """The folder."""
        return self._directory

    def fingerprints(self) -> tuple[frozenset[bytes], list[CertificateError]]:
        """SHA-256 of every certificate in the list, and the errors of files that are none.

        Raises CertificateError where the list as a whole cannot be read (see :meth:`files`).
        """
        known: set[bytes] = set()
        unusable: list[CertificateError] = []
        for path in self.files():
            try:
                known.add(load_certificate(path).fingerprint(hashes.SHA256()))
            except CertificateError as error:
                unusable.append(error)
        return frozenset(known), unusable

    def files(self) -> list[Path]:
        """The files of the list by name. Raises CertificateError ``file-unreadable``, ``trust-list-too-long``."""
        try:
            paths = sorted(path for path in self._directory.iterdir() if path.suffix.lower() in _SUFFIXES)
        except OSError as error:
            raise CertificateError(
                "file-unreadable",
                found=f"{self._directory}: {error.strerror}",
                expected="a folder of trusted certificates",
            ) from error
        if len(paths) > TRUSTED_MAX:
            raise CertificateError(
                "trust-list-too-long", found=f"{len(paths)} files", expected=f"at most {TRUSTED_MAX}"
            )
        return paths

    def check(self, certificate: x509.Certificate, *, label: str, now: dt.datetime | None = None) -> None:
        """Raise ``untrusted-certificate`` unless listed, then as ``check_validity``.

        A file that is no certificate keeps nobody out who is listed in another; whoever is not found meets its error.
        """
        fingerprint = certificate.fingerprint(hashes.SHA256())
        if not self._lists(fingerprint):
            raise CertificateError(
                "untrusted-certificate",
                found=f"{label}, SHA-256 {fingerprint.hex()}",
                expected=f"a certificate in {self._directory}",
                hint="compare the fingerprint with the peer's, then copy its certificate there",
            )
        check_validity(certificate, label=label, now=now)

    def _lists(self, fingerprint: bytes) -> bool:
        unusable: CertificateError | None = None
        for path in self.files():
            try:
                if load_certificate(path).fingerprint(hashes.SHA256()) == fingerprint:
                    return True
            except CertificateError as error:
                unusable = error
        if unusable is not None:
            raise unusable
        return False

    def add(self, certificate: x509.Certificate) -> Path:
        """Put a certificate into the list, named by its fingerprint; adding it twice changes nothing."""
        path = self._directory / f"{certificate.fingerprint(hashes.SHA256()).hex()[:32]}.der"
        if not path.exists():
            _write_new(path, certificate.public_bytes(serialization.Encoding.DER), mode=0o644)
        return path
