"""Attestation evidence: enrol a device, make evidence for an epoch, verify it without a device."""

from attest.evidence.builder import build
from attest.evidence.claims import qualifying_data

__all__ = ["build", "qualifying_data"]
