"""What the gate verifies evidence against: its own trust folder, and nothing the device says."""

from __future__ import annotations

from attest.evidence.none import verify_none
from attest.evidence.verdict import Verdict
from attest.evidence.verify import verify_evidence
from sitsedge.config import Deployment
from sitsedge.gate.epochs import EvidenceVerifier
from sitsedge.supervisor.keys import read_public
from sitsedge.supervisor.state import StateDir


def evidence_verifier(
    state: StateDir, deployment: Deployment, mode: str, *, module: bytes, deployed: bytes
) -> EvidenceVerifier:
    """Everything but evidence, nonce and time comes from the gate's own trust folder."""
    development = deployment.profile == "development"
    if mode == "none":

        def without(evidence: bytes, nonce: bytes, now_ns: int, last_reset: int | None) -> Verdict:
            return verify_none(
                evidence,
                nonce=nonce,
                expected_module=module,
                expected_deployment=deployed,
                development_profile=development,
            )

        return without
    record = (state.trust / "device-record.cbor").read_bytes()
    policy = (state.trust / "boot-policy.cose").read_bytes()
    public = read_public(state.trust / "policy.pub")

    def with_tpm(evidence: bytes, nonce: bytes, now_ns: int, last_reset: int | None) -> Verdict:
        return verify_evidence(
            evidence,
            nonce=nonce,
            record=record,
            policy=policy,
            policy_public=public,
            expected_module=module,
            expected_deployment=deployed,
            now_ns=now_ns,
            last_reset_count=last_reset,
        )

    return with_tpm
