"""One condition against OPC 10000-9: what makes an event, what a person may do, and what outlives a restart."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sitsedge.server.alarms import ALARMS, Finding, Ne107, worst
from sitsedge.server.condition import EVENT_IDS_MAX, Answer, Condition
from sitsedge.server.memory import BYTES_MAX, Memory

ON, OFF = Finding(active=True, message="tension = 40 kN"), Finding(active=False)
SPEC = ALARMS["InputLimits"]


def raised() -> Condition:
    condition = Condition(SPEC)
    assert condition.judge(ON, 1)
    return condition


def test_quiet_at_first() -> None:
    condition = Condition(SPEC)
    assert not condition.retain
    assert not condition.judge(OFF, 1)
    assert condition.event_id == b""


def test_active_asks_to_be_acknowledged() -> None:
    condition = raised()
    assert (condition.active, condition.acked, condition.confirmed, condition.retain) == (True, False, True, True)
    assert condition.severity == SPEC.severity
    assert condition.message == ON.message


def test_values_that_change_are_no_events() -> None:
    condition = raised()
    before = condition.event_id
    assert not condition.judge(Finding(active=True, message="tension = 41 kN"), 2)
    assert (condition.message, condition.event_id) == ("tension = 41 kN", before)


def test_a_new_severity_is_an_event() -> None:
    condition = raised()
    assert condition.judge(Finding(active=True, severity=999), 2)
    assert (condition.last_severity, condition.severity) == (SPEC.severity, 999)


def test_gone_but_not_acknowledged_stays_of_interest() -> None:
    condition = raised()
    assert condition.judge(OFF, 2)
    assert not condition.active
    assert condition.retain
    assert condition.acknowledge(condition.event_id, "", "anna", 3) is Answer.GOOD
    assert condition.confirm(condition.event_id, "", "anna", 4) is Answer.GOOD
    assert not condition.retain


def test_acknowledge_names_an_event_of_this_activation() -> None:
    condition = raised()
    old = condition.event_id
    condition.judge(OFF, 2)
    condition.judge(ON, 3)
    assert condition.acknowledge(old, "", "anna", 4) is Answer.EVENT_ID_UNKNOWN
    assert condition.acknowledge(b"", "", "anna", 4) is Answer.EVENT_ID_UNKNOWN
    assert condition.acknowledge(condition.event_id, "seen", "anna", 4) is Answer.GOOD
    assert (condition.comment, condition.user, condition.t_acked_ns) == ("seen", "anna", 4)


def test_acknowledged_once() -> None:
    condition = raised()
    assert condition.acknowledge(condition.event_id, "", "anna", 2) is Answer.GOOD
    assert condition.acknowledge(condition.event_id, "", "boris", 3) is Answer.ALREADY_ACKED
    assert condition.user == "anna"


def test_confirmed_after_acknowledged_and_once() -> None:
    condition = raised()
    assert condition.confirm(condition.event_id, "", "anna", 2) is Answer.NOT_ACKED
    condition.acknowledge(condition.event_id, "", "anna", 3)
    assert condition.confirm(condition.event_id, "", "anna", 4) is Answer.GOOD
    assert condition.confirm(condition.event_id, "", "anna", 5) is Answer.ALREADY_CONFIRMED


def test_an_empty_comment_leaves_the_one_before() -> None:
    condition = raised()
    assert condition.add_comment(condition.event_id, "called maintenance", "anna", 2) is Answer.GOOD
    condition.acknowledge(condition.event_id, "", "boris", 3)
    assert (condition.comment, condition.user) == ("called maintenance", "boris")
    assert condition.add_comment(b"x", "no", "eve", 4) is Answer.EVENT_ID_UNKNOWN
    assert condition.comment == "called maintenance"


@given(st.lists(st.sampled_from(["on", "off", "ack", "confirm", "comment", "worse"]), max_size=60))
@settings(max_examples=50, deadline=None)
def test_state_and_retain_agree_whatever_happens(steps: list[str]) -> None:
    condition = Condition(SPEC)
    for now, step in enumerate(steps, start=1):
        before, known = condition.event_id, condition.event_ids[-1:]
        changed = True
        if step in ("on", "off", "worse"):
            changed = condition.judge({"on": ON, "off": OFF, "worse": Finding(active=True, severity=now)}[step], now)
        else:
            act = {"ack": condition.acknowledge, "confirm": condition.confirm, "comment": condition.add_comment}[step]
            changed = act(*known or [b""], "", "anna", now) is Answer.GOOD
        assert changed == (condition.event_id != before)
        assert condition.retain == (condition.active or not condition.acked or not condition.confirmed)
        assert condition.acked or condition.confirmed  # never both open
        assert len(condition.event_ids) <= EVENT_IDS_MAX
        again = Condition.from_data(SPEC, json.loads(json.dumps(condition.to_data())))
        assert again == condition


def test_what_was_acknowledged_outlives_a_restart(tmp_path: Path) -> None:
    memory = Memory(positions={"gate": 7}, epoch_index=3)
    condition = memory.conditions["InputLimits"]
    condition.judge(ON, 1)
    condition.acknowledge(condition.event_id, "seen", "anna", 2)
    memory.save(tmp_path / "memory.json")
    again = Memory.load(tmp_path / "memory.json")
    assert again == memory
    assert again.conditions["InputLimits"].comment == "seen"


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", "{}", "null", '{"version": 2}', "\xff",
        '{"version": 1, "positions": {"gate": -1}, "epoch_index": null, "conditions": {}}',
        '{"version": 1, "positions": {}, "epoch_index": true, "conditions": {}}',
        '{"version": 1, "positions": [], "epoch_index": null, "conditions": {"GateDown": 1}}',
        '{"version": 1, "positions": {}, "epoch_index": null, "conditions": {"GateDown": {}}}',
        "[" * 5000, "1" * (BYTES_MAX + 1),
    ],
)  # fmt: skip
def test_a_memory_that_cannot_be_read_is_an_empty_one(text: str, tmp_path: Path) -> None:
    (tmp_path / "memory.json").write_text(text, encoding="latin-1")
    assert Memory.load(tmp_path / "memory.json") == Memory()


def test_health_is_the_worst_of_what_is_active() -> None:
    assert worst({}) is Ne107.NORMAL
    assert worst({"ClockQuality": ON, "AttestationOverdue": ON, "GateDown": OFF}) is Ne107.OFF_SPEC
    assert worst({"ClockQuality": ON, "GateDown": ON}) is Ne107.FAILURE
    ended = Finding(active=True, ne107=Ne107.FAILURE)
    assert worst({"CertificateExpiring": ended}) is Ne107.FAILURE
