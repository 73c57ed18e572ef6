"""Verify attestation evidence with nothing but its bytes, the device record and the boot policy.

No device is touched and nothing raises: every check is listed with what was found and expected, and one that could
not be made counts as failed. The checks, in the order of the code:

 1. ``format``                   COSE_Sign1 and claims parse, canonical, every claim of its type and size
 2. ``signature``                the object is signed by the session key it names
 3. ``nonce``                    the nonce is the one we sent
 4. ``record-signature``         the device record is signed by the policy key
 5. ``record-id``                the evidence names this record
 6. ``record-revocation``        where the verifier keeps a revocation list: it is signed, current and silent about it
 7. ``ak-name``                  the AK is the enrolled one, and a restricted key fixed to its TPM
 8. ``quote-signature``          the quote is signed by that AK (ECDSA P-256, SHA-256)
 9. ``quote-magic``              the signed structure was made inside a TPM (TPM_GENERATED) and is a quote
10. ``quote-qualifying``         the quote vouches for SHA-256("sits-epoch-v1"‖nonce‖session key‖module‖deployment)
11. ``pcr-selection``            the quote covers exactly the PCRs the evidence shows, and all that the policy needs
12. ``quote-pcr-digest``         the PCR values shown are the quoted ones
13. ``event-log-replay``         the event log parses, replays to those values, and our events say what was extended
14. ``ima-log``                  where PCR 10 is quoted: a prefix of the IMA log replays to it
15. ``application-measurement``  where demanded: the chosen PCR holds this module and deployment
16. ``boot-policy-signature``    the boot policy is signed by the policy key
17. ``boot-policy-validity``     the policy is valid now
18. ``boot-policy-version``      the policy is no older than the last one that was accepted
19. ``boot-policy``              the PCR values are an allowed state (else: which PCR, which event)
20. ``tpm-kind``                 the kind is the enrolled one and allowed by the policy
21. ``reset-count``              the TPM's reset count is the quoted one and did not go back
22. ``module-digest``            the module is the expected one
23. ``deployment-digest``        the deployment is the expected one
24. ``command-key``              where demanded: the commands' key is of this TPM, under the sealing policy

The nonce and the qualifying data are judged against *our* nonce: an old quote in new evidence fails check 10.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from attest.boot.eventlog import EventLog
from attest.boot.ima import PCR_IMA
from attest.boot.policy import BootPolicy, BootState
from attest.errors import AttestError
from attest.evidence.boot_checks import (
    check_application,
    check_ima,
    check_log,
    check_policy,
    check_state,
    read_policy,
)
from attest.evidence.claims import Evidence, parse_evidence
from attest.evidence.command_key_check import check_command_key
from attest.evidence.device_checks import check_record, check_revocation, check_tpm
from attest.evidence.quote_checks import check_pcrs, check_quote
from attest.evidence.record import DeviceRecord
from attest.evidence.seen import NOTHING_SEEN, Seen
from attest.evidence.signature_check import check_signature
from attest.evidence.verdict import Check, Checklist, Verdict
from attest.structures import QuoteInfo

__all__ = ["CHECKS", "NOTHING_SEEN", "Check", "Seen", "Verdict", "verify_evidence"]

CHECKS: Final = (
    "format",
    "signature",
    "nonce",
    "record-signature",
    "record-id",
    "record-revocation",
    "ak-name",
    "quote-signature",
    "quote-magic",
    "quote-qualifying",
    "pcr-selection",
    "quote-pcr-digest",
    "event-log-replay",
    "ima-log",
    "application-measurement",
    "boot-policy-signature",
    "boot-policy-validity",
    "boot-policy-version",
    "boot-policy",
    "tpm-kind",
    "reset-count",
    "module-digest",
    "deployment-digest",
    "command-key",
)
_SKIPPED: Final = "an object that can be read"


@dataclass(frozen=True, slots=True)
class _Parts:
    """Everything that could be parsed; None where it could not."""

    evidence: Evidence | None
    record: DeviceRecord | None
    policy: BootPolicy | None
    quote: QuoteInfo | None
    log: EventLog | None


def verify_evidence(
    data: bytes,
    *,
    nonce: bytes,
    record: bytes,
    policy: bytes,
    policy_public: bytes,
    expected_module: bytes,
    expected_deployment: bytes,
    now_ns: int,
    seen: Seen,
    revocations: bytes | None = None,
    application_pcr: int | None = None,
    signer_policy: bytes | None = None,
) -> Verdict:
    """Judge ``data`` (evidence as it arrived) by all checks of this module.

    ``record``, ``policy`` and ``revocations`` are the signed files, ``policy_public`` the plant's policy key (Ed25519,
    32 bytes) from the verifier's own trust store. ``seen`` is what was last accepted of this device. ``now_ns`` is the
    verifier's clock. Without ``revocations`` no list is demanded, without ``application_pcr`` no application PCR.
    ``signer_policy`` (``attest.policies.sealing_policy``) demands a command key of the TPM under that policy.
    """
    checks = Checklist(CHECKS)
    evidence = _check_envelope(checks, data, nonce)
    enrolled = check_record(checks, record, policy_public, evidence)
    check_revocation(checks, revocations, policy_public, enrolled, now_ns)
    file = read_policy(policy)
    quote = check_quote(checks, evidence, enrolled, nonce)
    if evidence is not None and quote is not None:
        check_pcrs(checks, evidence, quote, file[0])
    log = None
    if evidence is not None:
        log = check_log(checks, evidence, elsewhere=_elsewhere(evidence, application_pcr))
        check_ima(checks, evidence)
        check_application(checks, evidence, application_pcr, module=expected_module, deployment=expected_deployment)
    check_policy(checks, file, public=policy_public, now_ns=now_ns, seen=seen)
    parts = _Parts(evidence, enrolled, file[0], quote, log)
    state = check_state(checks, evidence, parts.policy, log)
    check_tpm(checks, evidence, enrolled, parts.policy, quote, seen)
    _check_software(checks, evidence, expected_module, expected_deployment)
    command_public = check_command_key(checks, evidence, nonce, signer_policy)
    return _verdict(checks, parts, state, command_public)


def _elsewhere(evidence: Evidence, application_pcr: int | None) -> frozenset[int]:
    """PCRs that the boot event log need not explain: IMA's where its log is there, the application's where demanded."""
    chosen = set() if application_pcr is None else {application_pcr}
    return frozenset(chosen if evidence.ima_log is None else chosen | {PCR_IMA})


def _check_envelope(checks: Checklist, data: bytes, nonce: bytes) -> Evidence | None:
    try:
        evidence, message = parse_evidence(data)
    except AttestError as error:
        checks.judge("format", False, found=error.found, expected=error.expected)
        return None
    checks.judge("format", True, found=f"{len(data)} bytes of evidence", expected="evidence")
    check_signature(checks, "signature", message, evidence.session_public)
    checks.judge("nonce", evidence.nonce == nonce, found=evidence.nonce.hex(), expected=nonce.hex())
    return evidence


def _check_software(checks: Checklist, evidence: Evidence | None, module: bytes, deployment: bytes) -> None:
    if evidence is None:
        return
    ok = evidence.module_digest == module
    checks.judge("module-digest", ok, found=evidence.module_digest.hex(), expected=module.hex())
    ok = evidence.deployment_digest == deployment
    checks.judge("deployment-digest", ok, found=evidence.deployment_digest.hex(), expected=deployment.hex())


def _verdict(checks: Checklist, parts: _Parts, state: BootState | None, command_public: bytes) -> Verdict:
    verdict = Verdict(checks.checks(_SKIPPED))
    if not verdict.ok:
        return verdict
    evidence, record, policy = parts.evidence, parts.record, parts.policy
    assert evidence is not None
    assert record is not None
    assert policy is not None
    assert state is not None
    return Verdict(
        checks=verdict.checks,
        session_public=evidence.session_public,
        reset_count=evidence.reset_count,
        restart_count=evidence.restart_count,
        tpm_kind=evidence.tpm_kind,
        policy_name=policy.name,
        policy_version=policy.version,
        boot_state=state.label,
        device_id=record.device_id,
        ak_name=record.ak_name,
        command_public=command_public,
    )
