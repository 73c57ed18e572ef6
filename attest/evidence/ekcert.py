"""The EK certificate: does it chain to a TPM maker we trust, and does it belong to this EK?

TCG EK Credential Profile 2.x: extended key usage tcg-kp-EKCertificate, and TPM manufacturer, model and version in a
directoryName of the subject alternative name.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509 import ObjectIdentifier, verification

from attest.evidence.ek import EkPublic
from attest.evidence.errors import EnrolError

_EK_USAGE: Final = ObjectIdentifier("2.23.133.8.1")
_MANUFACTURER: Final = ObjectIdentifier("2.23.133.2.1")
_MODEL: Final = ObjectIdentifier("2.23.133.2.2")
_MAX_CHAIN: Final = 4  # leaf, two intermediates, root; nobody ships more
_MAX_CERTIFICATES: Final = 64
_SIMULATED_MODEL: Final = "swtpm"


@dataclass(frozen=True, slots=True)
class EkIdentity:
    """What the certificate says about the TPM, and the chain (DER, leaf first) that vouches for it."""

    manufacturer: str
    model: str
    chain: tuple[bytes, ...]

    @property
    def kind(self) -> str:
        """``swtpm`` for a simulated TPM's certificate, else ``hardware``."""
        return "swtpm" if self.model == _SIMULATED_MODEL else "hardware"


def check_ek(ek: EkPublic, certificates: Sequence[bytes], *, ca_roots: Sequence[bytes], now_ns: int) -> EkIdentity:
    """Verify the chain at ``now_ns`` and that the leaf certifies ``ek``.

    ``certificates``: DER, leaf first, as the device sends them. ``ca_roots``: PEM or DER of the trust store;
    self-signed ones are anchors, others serve as intermediates. Raises ``EnrolError``.
    """
    if not certificates:
        raise EnrolError(
            "ek-certificate",
            found="no EK certificate in the TPM",
            expected="one at NV 0x01c00002 (RSA), 0x01c0000a (P-256) or 0x01c00016 (P-384)",
            hint="some makers publish them on the web: put it into the TPM first",
        )
    chain = [_load(der) for der in certificates[:_MAX_CERTIFICATES]]
    trusted = [_load(data) for data in ca_roots[:_MAX_CERTIFICATES]]
    anchors = [certificate for certificate in trusted if certificate.subject == certificate.issuer]
    if not anchors:
        raise EnrolError("ca-roots", found="no root certificate", expected="the TPM maker's root in the trust store")
    intermediates = chain[1:] + [certificate for certificate in trusted if certificate not in anchors]
    verified = _verify(chain[0], intermediates, anchors, now_ns)
    if _spki(chain[0].public_key()) != _spki(ek.key):
        raise EnrolError("ek-mismatch", found="a certificate of another key", expected="a certificate of this EK")
    names = _names(chain[0])
    return EkIdentity(
        manufacturer=names.get(_MANUFACTURER, ""),
        model=names.get(_MODEL, ""),
        chain=tuple(_der(certificate) for certificate in verified),
    )


def _verify(
    leaf: x509.Certificate, intermediates: list[x509.Certificate], anchors: list[x509.Certificate], now_ns: int
) -> list[x509.Certificate]:
    usage = verification.ExtensionPolicy.permit_all().require_present(
        x509.ExtendedKeyUsage, verification.Criticality.AGNOSTIC, _require_ek_usage
    )
    leaf_policy = usage.require_present(x509.SubjectAlternativeName, verification.Criticality.AGNOSTIC, None)
    ca_policy = verification.ExtensionPolicy.permit_all().require_present(
        x509.BasicConstraints, verification.Criticality.AGNOSTIC, _require_ca
    )
    now = datetime.datetime.fromtimestamp(now_ns / 1e9, datetime.UTC)
    builder = verification.PolicyBuilder().store(verification.Store(anchors)).time(now).max_chain_depth(_MAX_CHAIN)
    verifier = builder.extension_policies(ee_policy=leaf_policy, ca_policy=ca_policy).build_client_verifier()
    try:
        return list(verifier.verify(leaf, intermediates).chain)
    except (verification.VerificationError, UnsupportedAlgorithm, ValueError) as error:
        raise EnrolError(
            "ek-certificate",
            found=f"a chain that does not verify ({str(error)[:160]})",
            expected="a chain to a root of the trust store",
            hint="put the TPM maker's root and intermediate certificates into the trust store",
        ) from error


def _require_ek_usage(
    _policy: verification.Policy, _certificate: x509.Certificate, usage: x509.ExtendedKeyUsage
) -> None:
    if _EK_USAGE not in usage:
        raise ValueError("extended key usage without tcg-kp-EKCertificate")


def _require_ca(_policy: verification.Policy, _certificate: x509.Certificate, basic: x509.BasicConstraints) -> None:
    if not basic.ca:
        raise ValueError("an issuer that is no CA")


def _names(leaf: x509.Certificate) -> dict[ObjectIdentifier, str]:
    alternative = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    found: dict[ObjectIdentifier, str] = {}
    for name in alternative.get_values_for_type(x509.DirectoryName):
        found.update({attribute.oid: str(attribute.value) for attribute in name})
    return found


def _load(data: bytes) -> x509.Certificate:
    try:
        if data.lstrip().startswith(b"-----BEGIN"):
            return x509.load_pem_x509_certificate(data)
        return x509.load_der_x509_certificate(data)
    except ValueError as error:
        raise EnrolError("ek-certificate", found="bytes that are no certificate", expected="X.509") from error


def _spki(key: CertificatePublicKeyTypes) -> bytes:
    """A public key as certificates carry it: equal bytes are equal keys (curves are named, never spelt out)."""
    encoded: bytes = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return encoded


def _der(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(Encoding.DER)
