"""The files of attestation mode ``tpm2-resident``: whose approvals of boot states count, and the approvals."""

from __future__ import annotations

from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key

from attest.evidence.record import parse_record
from attest.tpm.approval import MAX_FILE_BYTES, Approval, authority_point, parse_approvals, sealing_policy
from sitsedge.supervisor.keys import KEY_BYTES_MAX, KeyFileError
from sitsedge.supervisor.state import StateDir

RESIDENT = "tpm2-resident"
MODES = ("tpm2", RESIDENT, "none")
AUTHORITY_KEY, AUTHORITY_PUBLIC, APPROVALS = "seal-authority.key", "seal-authority.pub", "seal-approvals.cbor"


def seal_authority(state: StateDir) -> bytes:
    """x ‖ y of the key whose approvals count. Raises :class:`KeyFileError`, or ``SealError`` for another curve."""
    path = state.trust / AUTHORITY_PUBLIC
    try:
        key = load_pem_public_key(path.read_bytes()[:KEY_BYTES_MAX])
    except (OSError, ValueError) as error:
        found = f"{path.name}: {getattr(error, 'strerror', None) or 'no PEM public key'}"
        hint = "install the P-256 public key of the people who approve boot states"
        raise KeyFileError("key-file", found=found, expected="a PEM public key", hint=hint) from error
    if not isinstance(key, ec.EllipticCurvePublicKey):
        raise KeyFileError("key-file", found=f"{path.name}: {type(key).__name__}", expected="a P-256 public key")
    return authority_point(key)


def read_approvals(state: StateDir) -> tuple[Approval, ...]:
    """The signed approvals of this device. Raises :class:`KeyFileError` where there are none, ``AttestError``."""
    path = state.trust / APPROVALS
    try:
        with path.open("rb") as file:
            return parse_approvals(file.read(MAX_FILE_BYTES + 1))
    except OSError as error:
        raise KeyFileError(
            "key-file",
            found=f"{path.name}: {error.strerror}",
            expected="approvals of this machine's boot states",
            hint="sitsctl attest seal target, then seal approve with the person who holds the authority's key",
        ) from error


def signer_policy(state: StateDir) -> bytes:
    """The policy that the command key of the enrolled device must carry: what a gate demands of evidence."""
    record, _ = parse_record((state.trust / "device-record.cbor").read_bytes())
    return sealing_policy(seal_authority(state), record.ak_name)


def read_authority(path: Path) -> ec.EllipticCurvePrivateKey:
    """A P-256 private key in a PEM file. Raises :class:`KeyFileError`."""
    try:
        key = load_pem_private_key(path.read_bytes()[:KEY_BYTES_MAX], password=None)
    except (OSError, ValueError, TypeError) as error:
        found = f"{path.name}: {getattr(error, 'strerror', None) or 'no unencrypted PEM private key'}"
        raise KeyFileError("key-file", found=found, expected="a P-256 private key") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP256R1):
        raise KeyFileError("key-file", found=f"{path.name}: another key", expected="a P-256 private key")
    return key
