"""Verify attestation evidence with nothing but its bytes, the device record and the boot policy.

No device is touched and nothing raises: every check is listed with what was found and expected, and one that could
not be made counts as failed. The checks, in the order of the code:

 1. ``format``                 COSE_Sign1 and claims parse, canonical, every claim of its type and size
 2. ``signature``              the object is signed by the session key it names
 3. ``nonce``                  the nonce is the one we sent
 4. ``record-signature``       the device record is signed by the policy key
 5. ``record-id``              the evidence names this record
 6. ``ak-name``                the AK is the enrolled one, and a restricted key fixed to its TPM
 7. ``quote-signature``        the quote is signed by that AK (ECDSA P-256, SHA-256)
 8. ``quote-magic``            the signed structure was made inside a TPM (TPM_GENERATED) and is a quote
 9. ``quote-qualifying``       the quote vouches for SHA-256("sits-epoch-v1"‖nonce‖session key‖module‖deployment)
10. ``pcr-selection``          the quote covers exactly the PCRs the evidence shows, and all that the policy needs
11. ``quote-pcr-digest``       the PCR values shown are the quoted ones
12. ``event-log-replay``       the event log parses, replays to those values, and our events say what was extended
13. ``boot-policy-signature``  the boot policy is signed by the policy key
14. ``boot-policy-validity``   the policy is valid now
15. ``boot-policy``            the PCR values are an allowed state (else: which PCR, which event)
16. ``tpm-kind``               the kind is the enrolled one and allowed by the policy
17. ``reset-count``            the TPM's reset count is the quoted one and did not go back
18. ``module-digest``          the module is the expected one
19. ``deployment-digest``      the deployment is the expected one

The nonce and the qualifying data are judged against *our* nonce: an old quote in new evidence fails check 9.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

from attest import cose, structures
from attest.boot import eventlog
from attest.boot.eventlog import EventLog
from attest.boot.policy import BootPolicy, BootState, parse_policy
from attest.errors import AttestError
from attest.evidence.claims import Evidence, parse_evidence, qualifying_data
from attest.evidence.record import DeviceRecord, parse_record
from attest.evidence.verdict import Check, Checklist, Verdict
from attest.structures import AK_ATTRIBUTES, GENERATED, QuoteInfo, StructureError

__all__ = ["CHECKS", "Check", "Verdict", "verify_evidence"]

CHECKS: Final = (
    "format",
    "signature",
    "nonce",
    "record-signature",
    "record-id",
    "ak-name",
    "quote-signature",
    "quote-magic",
    "quote-qualifying",
    "pcr-selection",
    "quote-pcr-digest",
    "event-log-replay",
    "boot-policy-signature",
    "boot-policy-validity",
    "boot-policy",
    "tpm-kind",
    "reset-count",
    "module-digest",
    "deployment-digest",
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
    last_reset_count: int | None,
) -> Verdict:
    """Judge ``data`` (evidence as it arrived) by all checks of this module.

    ``record`` and ``policy`` are the signed files, ``policy_public`` the plant's policy key (Ed25519, 32 bytes) from
    the verifier's own trust store. ``last_reset_count`` is that of the last accepted evidence of this device, None
    for the first. ``now_ns`` is the verifier's clock.
    """
    checks = Checklist(CHECKS)
    evidence = _check_envelope(checks, data, nonce)  # 1 to 3
    enrolled = _check_record(checks, record, policy_public, evidence)  # 4, 5
    allowed, policy_message = _parse_policy(policy)
    quote = _check_quote(checks, evidence, enrolled, nonce)  # 6 to 9
    if evidence is not None and quote is not None:
        _check_pcrs(checks, evidence, quote, allowed)  # 10, 11
    log = None if evidence is None else _check_log(checks, evidence)  # 12
    _check_policy(checks, allowed, policy_message, policy_public, now_ns)  # 13, 14
    parts = _Parts(evidence, enrolled, allowed, quote, log)
    state = _check_state(checks, parts)  # 15
    _check_device(checks, parts, last_reset_count)  # 16, 17
    _check_software(checks, evidence, expected_module, expected_deployment)  # 18, 19
    return _verdict(checks, parts, state)


def _check_envelope(checks: Checklist, data: bytes, nonce: bytes) -> Evidence | None:
    try:
        evidence, message = parse_evidence(data)
    except AttestError as error:
        checks.judge("format", False, found=error.found, expected=error.expected)
        return None
    checks.judge("format", True, found=f"{len(data)} bytes of evidence", expected="evidence")
    _check_signature(checks, "signature", message, evidence.session_public)
    checks.judge("nonce", evidence.nonce == nonce, found=evidence.nonce.hex(), expected=nonce.hex())
    return evidence


def _check_signature(checks: Checklist, name: str, message: cose.Sign1, public: bytes) -> None:
    expected = f"one by key {cose.key_id(public).hex()}"
    try:
        cose.verify(message, public=public)
    except cose.CoseError as error:
        checks.judge(name, False, found=error.found, expected=expected)
    else:
        checks.judge(name, True, found="a signature that verifies", expected=expected)


def _check_record(
    checks: Checklist, data: bytes, policy_public: bytes, evidence: Evidence | None
) -> DeviceRecord | None:
    try:
        record, message = parse_record(data)
    except AttestError as error:
        checks.judge("record-signature", False, found=error.found, expected=error.expected)
        return None
    _check_signature(checks, "record-signature", message, policy_public)
    if evidence is not None:
        record_id = record.record_id
        ok = evidence.record_id == record_id
        checks.judge("record-id", ok, found=evidence.record_id.hex(), expected=record_id.hex())
    return record


def _parse_policy(data: bytes) -> tuple[BootPolicy | None, cose.Sign1 | AttestError]:
    try:
        return parse_policy(data)
    except AttestError as error:
        return None, error


def _check_quote(
    checks: Checklist, evidence: Evidence | None, record: DeviceRecord | None, nonce: bytes
) -> QuoteInfo | None:
    if evidence is None:
        return None
    name = structures.object_name(evidence.ak_public)
    try:
        ak = structures.parse_ecc_public(evidence.ak_public)
    except StructureError as error:
        checks.judge("ak-name", False, found=error.found, expected=error.expected)
    else:
        if record is not None:
            ok = evidence.ak_public == record.ak_public and ak.attributes == AK_ATTRIBUTES
            found = f"{name.hex()} (attributes 0x{ak.attributes:08x})"
            expected = f"{record.ak_name.hex()} (attributes 0x{AK_ATTRIBUTES:08x})"
            checks.judge("ak-name", ok, found=found, expected=expected)
        fault = _quote_signature_fault(ak.point, evidence)
        checks.judge("quote-signature", fault is None, found=fault or "verifies", expected=f"one by AK {name.hex()}")
    magic = structures.quote_magic(evidence.quote_attest)
    try:
        quote = structures.parse_quote(evidence.quote_attest)
    except StructureError as error:
        checks.judge("quote-magic", False, found=error.found, expected="a quote")
        return None
    checks.judge("quote-magic", magic == GENERATED, found=f"0x{magic:08x}", expected=f"0x{GENERATED:08x}")
    expected_data = qualifying_data(
        nonce=nonce,
        session_public=evidence.session_public,
        module_digest=evidence.module_digest,
        deployment_digest=evidence.deployment_digest,
    )
    ok = quote.extra_data == expected_data
    checks.judge("quote-qualifying", ok, found=quote.extra_data.hex() or "nothing", expected=expected_data.hex())
    return quote


def _quote_signature_fault(point: bytes, evidence: Evidence) -> str | None:
    try:
        r, s = structures.parse_ecdsa_signature(evidence.quote_signature)
        key = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), point)
        key.verify(encode_dss_signature(r, s), evidence.quote_attest, ec.ECDSA(hashes.SHA256()))
    except StructureError as error:
        return error.found
    except InvalidSignature:
        return "a signature that does not verify"
    except ValueError:
        return "an AK that is no point of P-256"
    return None


def _check_pcrs(checks: Checklist, evidence: Evidence, quote: QuoteInfo, policy: BootPolicy | None) -> None:
    shown = tuple(sorted(evidence.pcrs))
    if policy is not None:
        needed = policy.pcrs
        ok = quote.pcrs == shown and set(needed) <= set(quote.pcrs)
        found = f"quoted {_numbers(quote.pcrs)}, shown {_numbers(shown)}"
        checks.judge("pcr-selection", ok, found=found, expected=f"the same, with at least {_numbers(needed)}")
    digest = structures.composite_digest(evidence.pcrs)
    ok = quote.pcr_digest == digest
    checks.judge("quote-pcr-digest", ok, found=digest.hex(), expected=f"{quote.pcr_digest.hex()} as quoted")


def _check_log(checks: Checklist, evidence: Evidence) -> EventLog | None:
    try:
        log = eventlog.parse(evidence.event_log)
    except AttestError as error:
        checks.judge("event-log-replay", False, found=error.found, expected=error.expected)
        return None
    replayed = log.replay()
    claimed = {pcr: replayed.get(pcr, log.initial(pcr)) for pcr in evidence.pcrs}
    wrong = next((pcr for pcr in sorted(claimed) if claimed[pcr] != evidence.pcrs[pcr]), None)
    misdescribed = log.misdescribed()
    if misdescribed is not None:
        found = f"an event that claims to be {misdescribed.describe()}"
        checks.judge("event-log-replay", False, found=found, expected="the text that was extended")
    elif wrong is None:
        text = f"{len(log.events)} events that replay to PCRs {_numbers(claimed)}"
        checks.judge("event-log-replay", True, found=text, expected="the PCR values shown")
    else:
        found = f"PCR {wrong} = {claimed[wrong].hex()} from the log"
        checks.judge("event-log-replay", False, found=found, expected=evidence.pcrs[wrong].hex())
    return log


def _check_policy(
    checks: Checklist, policy: BootPolicy | None, message: cose.Sign1 | AttestError, public: bytes, now_ns: int
) -> None:
    if isinstance(message, AttestError) or policy is None:
        found = message.found if isinstance(message, AttestError) else "nothing"
        checks.judge("boot-policy-signature", False, found=found, expected="a boot policy that can be read")
        return
    _check_signature(checks, "boot-policy-signature", message, public)
    expected = f"{policy.not_before_ns} <= now < {policy.not_after_ns} (nanoseconds)"
    checks.judge("boot-policy-validity", policy.valid_at(now_ns), found=str(now_ns), expected=expected)


def _check_state(checks: Checklist, parts: _Parts) -> BootState | None:
    if parts.evidence is None or parts.policy is None or parts.log is None:
        return None
    match = parts.policy.match(parts.evidence.pcrs, parts.log)
    if isinstance(match, BootState):
        checks.judge("boot-policy", True, found=f"state {match.label!r}", expected=f"a state of {parts.policy.name!r}")
        return match
    because = f" because {match.event}" if match.event else ""
    found = f"PCR {match.pcr} = {match.found}{because}"
    expected = f"PCR {match.pcr} = {match.expected} (state {match.state!r} of {parts.policy.name!r})"
    checks.judge("boot-policy", False, found=found, expected=expected)
    return None


def _check_device(checks: Checklist, parts: _Parts, last_reset_count: int | None) -> None:
    evidence, record, policy, quote = parts.evidence, parts.record, parts.policy, parts.quote
    if evidence is not None and record is not None and policy is not None:
        ok = evidence.tpm_kind == record.tpm_kind and record.tpm_kind in policy.tpm_kinds
        expected = f"{record.tpm_kind} as enrolled, out of {', '.join(policy.tpm_kinds)}"
        checks.judge("tpm-kind", ok, found=evidence.tpm_kind, expected=expected)
    if evidence is not None and quote is not None:
        same = (quote.reset_count, quote.restart_count) == (evidence.reset_count, evidence.restart_count)
        ok = same and (last_reset_count is None or quote.reset_count >= last_reset_count)
        found = f"{evidence.reset_count}/{evidence.restart_count}, quoted {quote.reset_count}/{quote.restart_count}"
        least = "none before" if last_reset_count is None else f"at least {last_reset_count} resets"
        checks.judge("reset-count", ok, found=found, expected=f"the same twice, {least}")


def _check_software(checks: Checklist, evidence: Evidence | None, module: bytes, deployment: bytes) -> None:
    if evidence is None:
        return
    ok = evidence.module_digest == module
    checks.judge("module-digest", ok, found=evidence.module_digest.hex(), expected=module.hex())
    ok = evidence.deployment_digest == deployment
    checks.judge("deployment-digest", ok, found=evidence.deployment_digest.hex(), expected=deployment.hex())


def _verdict(checks: Checklist, parts: _Parts, state: BootState | None) -> Verdict:
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
    )


def _numbers(pcrs: Iterable[int]) -> str:
    return ",".join(str(pcr) for pcr in sorted(pcrs))
