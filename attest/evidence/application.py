"""The application measurement: which module and deployment run, extended into a resettable PCR and reproduced here.

PCR 16 and 23 may be reset from locality 0 (PC Client Platform TPM Profile §4.6), so that a module can be swapped
without a reboot: reset, then extend once. Whoever controls the running system could do the same, so this says no more
than the quote's qualifying data; it lets other software on the machine bind secrets to what runs.
"""

from __future__ import annotations

import hashlib
from typing import Final

from attest.errors import AttestError
from attest.evidence.claims import parse_evidence
from attest.structures import DIGEST_BYTES, extend

APPLICATION_PCRS: Final = (16, 23)
PREFIX: Final = b"sits-application-v1"


def application_digest(*, module_digest: bytes, deployment_digest: bytes) -> bytes:
    """What is extended: SHA-256(``PREFIX`` ‖ module digest ‖ deployment digest)."""
    assert len(module_digest) == len(deployment_digest) == DIGEST_BYTES
    return hashlib.sha256(PREFIX + module_digest + deployment_digest).digest()


def quoted_application_pcr(data: bytes) -> int | None:
    """The application PCR that evidence shows, for readers without the deployment file: what is shown must be right."""
    try:
        evidence, _ = parse_evidence(data)
    except AttestError:
        return None
    return next((pcr for pcr in APPLICATION_PCRS if pcr in evidence.pcrs), None)


def application_value(*, module_digest: bytes, deployment_digest: bytes) -> bytes:
    """The PCR after a reset and that one extend, SHA-256 bank."""
    digest = application_digest(module_digest=module_digest, deployment_digest=deployment_digest)
    return extend(bytes(DIGEST_BYTES), digest)
