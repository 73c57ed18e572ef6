"""The checks of the boot: logs that explain the quoted PCRs, and the plant's policy over them."""

from __future__ import annotations

from attest import cose
from attest.boot import banks, eventlog, ima
from attest.boot.eventlog import EventLog
from attest.boot.policy import BootPolicy, BootState, parse_policy
from attest.errors import AttestError
from attest.evidence.application import APPLICATION_PCRS, application_value
from attest.evidence.claims import Evidence
from attest.evidence.quote_checks import numbers
from attest.evidence.seen import Seen
from attest.evidence.signature_check import check_signature
from attest.evidence.verdict import Checklist
from attest.structures import DIGEST_BYTES

PolicyFile = tuple[BootPolicy | None, cose.Sign1 | AttestError]


def read_policy(data: bytes) -> PolicyFile:
    """The policy and its envelope; the error where there is none."""
    try:
        return parse_policy(data)
    except AttestError as error:
        return None, error


def check_log(checks: Checklist, evidence: Evidence, *, elsewhere: frozenset[int]) -> EventLog | None:
    """12. ``elsewhere`` are the PCRs that other checks explain."""
    try:
        log = eventlog.parse(evidence.event_log)
    except AttestError as error:
        checks.judge("event-log-replay", False, found=error.found, expected=error.expected)
        return None
    replayed = log.replay()
    claimed = {pcr: replayed.get(pcr, log.initial(pcr)) for pcr in evidence.pcrs if pcr not in elsewhere}
    wrong = next((pcr for pcr in sorted(claimed) if claimed[pcr] != evidence.pcrs[pcr]), None)
    misdescribed = log.misdescribed()
    if misdescribed is not None:
        found = f"an event that claims to be {misdescribed.describe()}"
        checks.judge("event-log-replay", False, found=found, expected="the text that was extended")
    elif wrong is None:
        text = f"{len(log.events)} events that replay to PCRs {numbers(claimed)}"
        checks.judge("event-log-replay", True, found=text, expected="the PCR values shown")
    else:
        found = f"PCR {wrong} = {claimed[wrong].hex()} from the log"
        checks.judge("event-log-replay", False, found=found, expected=evidence.pcrs[wrong].hex())
    return log


def check_ima(checks: Checklist, evidence: Evidence) -> None:
    """14. The list must be the one of this boot, and as long as PCR 10 says."""
    name, value = "ima-log", evidence.pcrs.get(ima.PCR_IMA)
    expected = "a list whose first entries replay to PCR 10, begun after PCR 0..9 as quoted"
    if evidence.ima_log is None or value is None:
        neither = evidence.ima_log is None and value is None
        found = "neither quoted nor sent" if neither else f"{'no list' if value is not None else 'a list alone'}"
        checks.judge(name, neither, found=found, expected="PCR 10 and its list, or neither")
        return
    try:
        log = ima.parse(evidence.ima_log)
    except AttestError as error:
        checks.judge(name, False, found=error.found, expected=error.expected)
        return
    match = ima.match(log, value)
    if match is None:
        found = f"{len(log.entries)} entries, no prefix of which replays to {value.hex()}"
        checks.judge(name, False, found=found, expected=expected)
        return
    fault = ima.aggregate_fault(log, match.entries, {banks.SHA256: evidence.pcrs})
    text = f"{match.entries} of {len(log.entries)} entries vouched for"
    checks.judge(name, fault is None, found=fault or text, expected=expected)


def check_application(
    checks: Checklist, evidence: Evidence, pcr: int | None, *, module: bytes, deployment: bytes
) -> None:
    """14. Against the verifier's own module and deployment, not the evidence's."""
    if pcr is None:
        checks.judge("application-measurement", True, found="none demanded", expected="none demanded")
        return
    expected = f"PCR {pcr} quoted, holding this module and deployment"
    value = evidence.pcrs.get(pcr)
    if value is None or pcr not in APPLICATION_PCRS or len(module) != DIGEST_BYTES or len(deployment) != DIGEST_BYTES:
        checks.judge("application-measurement", False, found=f"no value of PCR {pcr}", expected=expected)
        return
    wanted = application_value(module_digest=module, deployment_digest=deployment)
    expected = f"PCR {pcr} = {wanted.hex()}"
    checks.judge("application-measurement", value == wanted, found=f"PCR {pcr} = {value.hex()}", expected=expected)


def check_policy(checks: Checklist, file: PolicyFile, *, public: bytes, now_ns: int, seen: Seen) -> None:
    """15 to 17."""
    policy, message = file
    if isinstance(message, AttestError) or policy is None:
        found = message.found if isinstance(message, AttestError) else "nothing"
        checks.judge("boot-policy-signature", False, found=found, expected="a boot policy that can be read")
        return
    check_signature(checks, "boot-policy-signature", message, public)
    expected = f"{policy.not_before_ns} <= now < {policy.not_after_ns} (nanoseconds)"
    checks.judge("boot-policy-validity", policy.valid_at(now_ns), found=str(now_ns), expected=expected)
    least = seen.policy_version
    expected = "any version, none was accepted before" if least is None else f"version {least} or later"
    ok = least is None or policy.version >= least
    checks.judge("boot-policy-version", ok, found=f"version {policy.version}", expected=expected)


def check_state(
    checks: Checklist, evidence: Evidence | None, policy: BootPolicy | None, log: EventLog | None
) -> BootState | None:
    """18. The allowed state this machine is in."""
    if evidence is None or policy is None or log is None:
        return None
    match = policy.match(evidence.pcrs, log)
    if isinstance(match, BootState):
        checks.judge("boot-policy", True, found=f"state {match.label!r}", expected=f"a state of {policy.name!r}")
        return match
    because = f" because {match.event}" if match.event else ""
    found = f"PCR {match.pcr} = {match.found}{because}"
    expected = f"PCR {match.pcr} = {match.expected} (state {match.state!r} of {policy.name!r})"
    checks.judge("boot-policy", False, found=found, expected=expected)
    return None
