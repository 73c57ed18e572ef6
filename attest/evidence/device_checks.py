"""The checks of the device: its record, whether that still counts, its TPM's kind and counters."""

from __future__ import annotations

from attest import cose
from attest.boot.policy import BootPolicy
from attest.errors import AttestError
from attest.evidence.claims import Evidence
from attest.evidence.record import DeviceRecord, parse_record
from attest.evidence.revocation import parse_list
from attest.evidence.seen import Seen
from attest.evidence.signature_check import check_signature
from attest.evidence.verdict import Checklist
from attest.structures import QuoteInfo


def check_record(
    checks: Checklist, data: bytes, policy_public: bytes, evidence: Evidence | None
) -> DeviceRecord | None:
    """4 and 5."""
    try:
        record, message = parse_record(data)
    except AttestError as error:
        checks.judge("record-signature", False, found=error.found, expected=error.expected)
        return None
    check_signature(checks, "record-signature", message, policy_public)
    if evidence is not None:
        record_id = record.record_id
        ok = evidence.record_id == record_id
        checks.judge("record-id", ok, found=evidence.record_id.hex(), expected=record_id.hex())
    return record


def check_revocation(
    checks: Checklist, data: bytes | None, policy_public: bytes, record: DeviceRecord | None, now_ns: int
) -> None:
    """6. A list that was given must be signed, current, and silent about this record."""
    name, expected = "record-revocation", "a current list of the plant's policy key that does not name the record"
    if data is None:
        checks.judge(name, True, found="no list kept by this verifier", expected="none demanded")
        return
    try:
        revocations, message = parse_list(data)
        cose.verify(message, public=policy_public)
    except AttestError as error:
        checks.judge(name, False, found=error.found, expected=expected)
        return
    if record is None:
        return
    entry = revocations.find(record.record_id, now_ns)
    if entry is not None:
        checks.judge(name, False, found=f"revoked: {entry.reason}", expected=expected)
    elif not revocations.current_at(now_ns):
        found = f"version {revocations.version}, due for renewal at {revocations.not_after_ns}; now {now_ns}"
        checks.judge(name, False, found=found, expected=expected)
    else:
        checks.judge(name, True, found=f"version {revocations.version} does not name it", expected=expected)


def check_tpm(
    checks: Checklist,
    evidence: Evidence | None,
    record: DeviceRecord | None,
    policy: BootPolicy | None,
    quote: QuoteInfo | None,
    seen: Seen,
) -> None:
    """19 and 20."""
    if evidence is not None and record is not None and policy is not None:
        ok = evidence.tpm_kind == record.tpm_kind and record.tpm_kind in policy.tpm_kinds
        expected = f"{record.tpm_kind} as enrolled, out of {', '.join(policy.tpm_kinds)}"
        checks.judge("tpm-kind", ok, found=evidence.tpm_kind, expected=expected)
    if evidence is not None and quote is not None:
        least = seen.reset_count
        same = (quote.reset_count, quote.restart_count) == (evidence.reset_count, evidence.restart_count)
        ok = same and (least is None or quote.reset_count >= least)
        found = f"{evidence.reset_count}/{evidence.restart_count}, quoted {quote.reset_count}/{quote.restart_count}"
        text = "none before" if least is None else f"at least {least} resets"
        checks.judge("reset-count", ok, found=found, expected=f"the same twice, {text}")
