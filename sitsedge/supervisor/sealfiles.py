"""The files of attestation mode ``tpm2-resident``: whose approvals of boot states count, and the approvals."""

from __future__ import annotations

from attest.evidence.record import parse_record
from attest.policies import sealing_policy
from attest.tpm.approval import MAX_FILE_BYTES, Approval, parse_approvals
from attest.tpm.authority import load_authority_point
from attest.tpm.errors import SealError
from sitsedge.supervisor.state import StateDir

RESIDENT = "tpm2-resident"
MODES = ("tpm2", RESIDENT, "none")
AUTHORITY_KEY, AUTHORITY_PUBLIC, APPROVALS = "seal-authority.key", "seal-authority.pub", "seal-approvals.cbor"


def seal_authority(state: StateDir) -> bytes:
    """x ‖ y of the key whose approvals count. Raises ``SealError`` (``seal-key-file``, ``seal-authority``)."""
    return load_authority_point(state.trust / AUTHORITY_PUBLIC)


def read_approvals(state: StateDir) -> tuple[Approval, ...]:
    """The signed approvals of this device. Raises ``SealError`` (``seal-file``) or ``CborError``."""
    path = state.trust / APPROVALS
    try:
        with path.open("rb") as file:
            return parse_approvals(file.read(MAX_FILE_BYTES + 1))
    except OSError as error:
        raise SealError(
            "seal-file",
            found=f"{path.name}: {error.strerror}",
            expected="approvals of this machine's boot states",
            hint="sitsctl attest seal target, then seal approve with the people who hold the authority's key",
        ) from error


def signer_policy(state: StateDir) -> bytes:
    """The policy that the command key of the enrolled device must carry: what a gate demands of evidence."""
    record, _ = parse_record((state.trust / "device-record.cbor").read_bytes())
    return sealing_policy(seal_authority(state), record.ak_name)
