"""Every alarm: what raises it, what ends it, and that nothing else raises it. One table, plus what needs time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from attest.command import ReadBack, Receipt
from sitsedge.server.alarms import ALARMS, Finding, Ne107
from sitsedge.server.judge import FRAMES_MIN, HOLD_S, NO_PROCESS, SILENT_S_MIN, WINDOW_S, Facts, Judge, Process
from sitsedge.server.news import News, Words

GATE: dict[str, Any] = {
    "mode": "AUTO", "accepted": 5, "plc_connected": True, "refused": {}, "alarms": {}, "verified": True,
    "attestation": {"phase": "attested", "reason": None}, "ceiling_reason": None,
    "proofs": {"policy": "deferred", "owed": 0},
}  # fmt: skip
LOOP: dict[str, Any] = {"cycles": 100, "refused": {}, "superseded": 0, "kernel_dropped": 0}
EXPECTED = ("gate", "sitsd", "bridge", "prover")


def running(**data: Any) -> Process:
    return Process(alive=True, age_s=0.1, state="running", data=data or {"ok": 1})


def facts(*, gate: Process | None = None, loop: Process | None = None, **more: Any) -> Facts:
    processes = {
        "gate": running(**GATE) if gate is None else gate,
        "sitsd": running(**LOOP) if loop is None else loop,
        "bridge": more.pop("bridge", running()),
        "prover": more.pop("prover", running()),
    }
    defaults: dict[str, Any] = {"news": News(), "certificates": {}, "ledger_fault": None, "period_s": 0.01}
    return Facts(processes=processes, **(defaults | more))


def active(findings: Mapping[str, Finding]) -> set[str]:
    return {name for name, finding in findings.items() if finding.active}


def judge() -> Judge:
    return Judge(EXPECTED, has_plc=True)


def test_nothing_is_wrong() -> None:
    findings = judge().look(facts(), 0.0)
    assert set(findings) == set(ALARMS)
    assert active(findings) == set()


def receipt(state: ReadBack) -> Receipt:
    return Receipt("g", 1, 1, bytes(32), (1,), (1,), (1,), state, True, 1, 1, 1)


def news(**known: Any) -> News:
    made = News()
    for name, value in known.items():
        setattr(made, name, value)
    return made


AT_ONCE = {
    "AttestationFailed": facts(gate=running(**GATE | {"attestation": {"phase": "failed", "reason": "boot-policy: x"}})),
    "AttestationOverdue": facts(gate=running(**GATE | {"attestation": {"phase": "overdue", "reason": "late"}})),
    "SecurityIncident": facts(gate=running(**GATE | {"incident": "security incident: proof-forged"})),
    "GateDown": facts(gate=Process(alive=False, age_s=9.0, state="running", data=GATE)),
    "LoopDown": facts(loop=Process(alive=True, age_s=9.0, state="running", data=LOOP)),
    "BridgeDown": facts(
        bridge=Process(
            alive=True, age_s=0.1, state="connecting", data={"stations": [{"name": "plc", "connected": False}]}
        )
    ),
    "ProverDown": facts(prover=NO_PROCESS),
    "NotApplied": facts(news=news(receipt=receipt(ReadBack.NOT_APPLIED), not_applied_ns=1)),
    "PlcUnreachable": facts(gate=running(**GATE | {"plc_connected": False})),
    "LaneWithdrawn": facts(gate=running(**GATE | {"verified": False, "verified_reason": "proof-deadline"})),
    "LedgerUnreadable": facts(ledger_fault="gate ledger: ledger-torn"),
    "CertificateExpiring": facts(certificates={"appliance": 5 * 86_400.0, "gate": 9e9}),
}


@pytest.mark.parametrize("name", AT_ONCE)
def test_seen_at_once_and_gone_with_its_reason(name: str) -> None:
    looks = judge()
    assert active(looks.look(AT_ONCE[name], 0.0)) == {name}
    assert active(looks.look(facts(), 0.5)) == set()


def test_a_failed_start_counts_as_not_attested() -> None:
    gate = running(**GATE | {"ceiling_reason": "attestation failed at start: boot-policy: PCR 4"})
    findings = judge().look(facts(gate=gate), 0.0)
    assert active(findings) == {"AttestationFailed"}
    assert "PCR 4" in findings["AttestationFailed"].message


COUNTED = {
    "ClockQuality": "time-quality",
    "InputLimits": "input-range",
    "OutputLimits": "output-limit",
}


@pytest.mark.parametrize("name", COUNTED)
@pytest.mark.parametrize("who", ["gate", "loop"])
def test_counted_refusals_raise_it_and_hold_it_a_while(name: str, who: str) -> None:
    code = COUNTED[name]
    words = news()
    words.words[code] = Words("tension = 40 kN", "-30 kN .. 30 kN", 1)

    def counted(count: int, cycles: int) -> Facts:
        data = {"refused": {code: count}}
        loop = LOOP | {"cycles": cycles} | (data if who == "loop" else {})
        return facts(gate=running(**GATE | (data if who == "gate" else {})), loop=running(**loop), news=words)

    looks = judge()
    assert active(looks.look(counted(4, 100), 0.0)) == set()  # what was before is history
    findings = looks.look(counted(5, 101), 0.5)
    assert active(findings) == {name}
    assert findings[name].message == f"{code}: tension = 40 kN, allowed -30 kN .. 30 kN"
    assert active(looks.look(counted(5, 102), 0.5 + HOLD_S)) == {name}
    assert active(looks.look(counted(5, 103), 0.6 + HOLD_S)) == set()


def test_a_process_that_started_again_counts_from_zero() -> None:
    looks = judge()
    looks.look(facts(loop=running(**LOOP | {"refused": {"input-range": 9}})), 0.0)
    assert active(looks.look(facts(loop=running(**LOOP | {"cycles": 3})), 0.5)) == set()
    again = facts(loop=running(**LOOP | {"cycles": 5, "refused": {"input-range": 1}}))
    assert active(looks.look(again, 1.0)) == {"InputLimits"}


def test_single_stale_frames_are_no_alarm_many_are() -> None:
    looks = judge()

    def after(cycles: int, stale: int) -> Facts:
        return facts(loop=running(**LOOP | {"cycles": cycles, "refused": {"stale-frame": stale}}))

    assert active(looks.look(after(100, 0), 0.0)) == set()
    assert active(looks.look(after(200, 1), 1.0)) == set()
    findings = looks.look(after(300, 30), 2.0)
    assert active(findings) == {"FramesLost"}
    assert findings["FramesLost"].message.startswith("15 % of the frames")
    assert active(looks.look(after(1500, 30), 2.0 + WINDOW_S)) == set()


def test_lost_frames_count_as_bad() -> None:
    looks = judge()
    looks.look(facts(), 0.0)
    dropped = running(**LOOP | {"cycles": 100 + FRAMES_MIN, "kernel_dropped": 10})
    assert active(looks.look(facts(loop=dropped), 1.0)) == {"FramesLost"}


def test_a_source_that_says_nothing() -> None:
    looks = judge()
    assert active(looks.look(facts(), 0.0)) == set()
    assert active(looks.look(facts(), SILENT_S_MIN)) == set()
    assert active(looks.look(facts(), SILENT_S_MIN + 0.1)) == {"SourceSilent"}
    assert active(looks.look(facts(loop=running(**LOOP | {"cycles": 101})), SILENT_S_MIN + 0.6)) == set()


def test_a_dead_loop_is_not_a_silent_source() -> None:
    looks = judge()
    looks.look(facts(), 0.0)
    dead = Process(alive=False, age_s=60.0, state="running", data=LOOP)
    assert active(looks.look(facts(loop=dead), 60.0)) == {"LoopDown"}


def test_heartbeat_lost_until_a_command_is_accepted_again() -> None:
    looks = judge()

    def at(now_s: float, *, lost: int, accepted: int, cycles: int) -> set[str]:
        gate = running(**GATE | {"alarms": {"heartbeat-lost": lost}, "accepted": accepted})
        return active(looks.look(facts(gate=gate, loop=running(**LOOP | {"cycles": cycles})), now_s))

    assert at(0.0, lost=0, accepted=5, cycles=1) == set()
    assert at(0.5, lost=1, accepted=5, cycles=2) == {"HeartbeatLost"}
    assert at(0.5 + 4 * HOLD_S, lost=1, accepted=5, cycles=3) == {"HeartbeatLost"}
    assert at(1.0 + 4 * HOLD_S, lost=1, accepted=6, cycles=4) == set()


def test_not_applied_says_nothing_where_the_gate_gave_auto_back() -> None:
    stopped = facts(
        gate=running(**GATE | {"mode": "OFF"}), news=news(receipt=receipt(ReadBack.NOT_APPLIED), not_applied_ns=1)
    )
    assert active(judge().look(stopped, 0.0)) == set()


def test_an_ended_certificate_is_a_failure() -> None:
    finding = judge().look(facts(certificates={"appliance": -1.0}), 0.0)["CertificateExpiring"]
    assert finding.active
    assert finding.ne107 is Ne107.FAILURE
    assert finding.severity is not None
    assert finding.severity > ALARMS["CertificateExpiring"].severity


def test_without_a_plc_nothing_can_fail_to_be_applied() -> None:
    looks = Judge(("gate", "sitsd"), has_plc=False)
    gate = running(**GATE | {"plc_connected": False, "mode": "SHADOW"})
    assert active(looks.look(facts(gate=gate, bridge=NO_PROCESS, prover=NO_PROCESS), 0.0)) == set()


def test_an_incident_says_what_was_found_while_the_gate_holds_it() -> None:
    told = news()
    told.words["security-incident"] = Words("proof-forged: the pairing does not hold", "a proof", 1)
    held = facts(gate=running(**GATE | {"incident": "security incident: proof-forged"}), news=told)
    assert "the pairing" in judge().look(held, 0.0)["SecurityIncident"].message
    gone = Process(alive=False, age_s=99.0, state="running", data=GATE | {"incident": "security incident: x"})
    assert active(judge().look(facts(gate=gone), 0.0)) >= {"SecurityIncident", "GateDown"}


ODD: tuple[Any, ...] = (None, True, -1, 1.5, float("nan"), "x", [], {}, [{}], {"x": None})


@pytest.mark.parametrize("key", [*GATE, *LOOP])
def test_odd_snapshots_give_findings_and_no_error(key: str) -> None:
    looks = judge()
    for now, value in enumerate(ODD):
        odd = facts(gate=running(**GATE | {key: value}), loop=running(**LOOP | {key: value}))
        assert set(looks.look(odd, float(now))) == set(ALARMS)
