"""What can go wrong while enrolling a device or making evidence. A verifier never raises: it gives a verdict."""

from __future__ import annotations

from attest.errors import AttestError


class EvidenceError(AttestError):
    """Evidence that cannot be read or made. Codes ``evidence-format``, ``evidence-race``, ``evidence-kind``,
    ``ima-list``."""


class EnrolError(AttestError):
    """A device that is not enrolled.

    Codes: ``ek-certificate``, ``ek-mismatch``, ``ek-template``, ``ak-template``, ``ca-roots``, ``credential``,
    ``record``, ``revocation-list``, ``enrol-file``, ``paper``.
    """
