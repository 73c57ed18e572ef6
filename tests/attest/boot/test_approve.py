"""Making policies from reference boots: update windows, versions that only ascend, PCRs by value or by event."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from attest.boot.approve import VERSION_MAX, approve_boot, next_policy, quoted_values
from attest.boot.errors import PolicyError, PolicyVersionError
from attest.boot.eventlog import Event, EventLog, parse, text_event
from attest.boot.policy import BootPolicy, BootState, Mismatch
from tests.attest.boot import made

LOG = parse(made.logs()["sha256"])
OTHER = EventLog((*LOG.events, text_event(13, "sits:component attest sha256:01")))


def values(log: EventLog = LOG) -> dict[int, bytes]:
    return {pcr: log.value(pcr) for pcr in range(24)}


def approve(label: str = "one", log: EventLog = LOG, **options: Any) -> BootState:
    return approve_boot(label, **{"log": log, "values": values(log), "pcrs": (0, 7, 13), **options})


def following(state: BootState | None = None, **options: Any) -> BootPolicy:
    fields = {"name": "mill", "not_before_ns": 0, "not_after_ns": 9, "tpm_kinds": ["hardware"], **options}
    return next_policy(state=state or approve(), **fields)


def test_the_first_policy_has_version_1() -> None:
    policy = following()
    assert (policy.version, [state.label for state in policy.states]) == (1, ["one"])
    assert policy.match(values(), LOG) == policy.states[0]


def test_an_update_window_allows_both_states_until_the_old_one_is_dropped() -> None:
    first = following()
    window = following(approve("two", OTHER), previous=first)
    assert (window.version, [state.label for state in window.states]) == (2, ["two", "one"])
    assert isinstance(window.match(values(), LOG), BootState)
    assert isinstance(window.match(values(OTHER), OTHER), BootState)
    closed = following(approve("two", OTHER), previous=window, drop=("one",))
    assert closed.version == 3
    assert isinstance(closed.match(values(), LOG), Mismatch)


def test_a_state_of_the_same_label_is_replaced() -> None:
    again = following(approve("one", OTHER), previous=following())
    assert [state.label for state in again.states] == ["one"]
    assert again.states[0].pcrs[13] == OTHER.value(13)


@pytest.mark.parametrize("version", [0, 1, 4, 5, VERSION_MAX + 1])
def test_a_version_that_is_not_higher_is_refused(version: int) -> None:
    previous = dataclasses.replace(following(), version=5)
    with pytest.raises(PolicyVersionError) as caught:
        following(previous=previous, version=version)
    assert caught.value.code == "boot-policy-version"
    with pytest.raises(PolicyVersionError):
        following(floor=5, version=version)
    assert following(previous=previous, floor=7).version == 8
    assert following(previous=previous, version=6).version == 6


def test_another_name_is_refused() -> None:
    with pytest.raises(PolicyError):
        following(previous=following(), name="other")


def test_an_unknown_label_to_drop_is_refused() -> None:
    with pytest.raises(PolicyError):
        following(previous=following(), drop=("nothing",))


def test_states_about_other_pcrs_are_refused_with_a_hint() -> None:
    with pytest.raises(PolicyError) as caught:
        following(approve("two", pcrs=(0, 7)), previous=following())
    assert "drop" in caught.value.hint
    assert following(approve("two", pcrs=(0, 7)), previous=following(), drop=("one",)).pcrs == (0, 7)


def test_pcrs_may_be_judged_by_their_events() -> None:
    state = approve(log=OTHER, pcrs=(0, 7), by_event=(13, 11))
    assert (set(state.pcrs), set(state.allowed_events)) == ({0, 7}, {11, 13})
    assert set(state.reference) == {0, 7}
    policy = following(state)
    twice = EventLog((*OTHER.events, OTHER.events[-1]))
    assert isinstance(policy.match(values(twice), twice), BootState)


def test_a_pcr_without_events_cannot_be_judged_by_them() -> None:
    with pytest.raises(PolicyError):
        approve(pcrs=(0,), by_event=(3,))


def test_values_that_the_log_does_not_give_are_no_reference() -> None:
    with pytest.raises(PolicyError):
        approve(values=values() | {7: bytes(32)})


def test_a_log_that_misdescribes_is_no_reference() -> None:
    log = EventLog((Event(7, 4, b"\1" * 32, bytes(4)),))
    with pytest.raises(PolicyError) as caught:
        approve(log=log)
    assert "claims to be" in caught.value.found


def test_values_beside_a_quote_must_be_the_quoted_ones() -> None:
    shown = {0: b"\1" * 32, 7: b"\2" * 32}
    assert quoted_values(shown, made.quote(shown)) == shown
    for wrong in ({0: b"\1" * 32}, shown | {7: bytes(32)}, shown | {8: bytes(32)}):
        with pytest.raises(PolicyError):
            quoted_values(wrong, made.quote(shown))
