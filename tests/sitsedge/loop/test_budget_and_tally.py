"""Budgets, raw durations, and records of refused cycles that cannot flood a disk."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sitsedge.loop.budget import STAGES, Budget, CycleRefused
from sitsedge.loop.tally import PENDING_MAX, Sent, Tally
from sitsedge.telemetry import DurationRing, percentiles_ms
from sitsedge.telemetry.durations import RING_LENGTH


def test_a_stage_past_the_deadline_ends_the_cycle_and_names_itself() -> None:
    now = time.monotonic_ns()
    budget = Budget(start_mono_ns=now - 2_000_000, deadline_ns=1_000_000)
    with pytest.raises(CycleRefused) as caught:
        budget.charge("prove")
    assert caught.value.code == "deadline"
    assert "prove" in caught.value.found


def test_stages_add_up_to_the_time_since_the_frame() -> None:
    budget = Budget(start_mono_ns=time.monotonic_ns(), deadline_ns=10**12)
    for stage in STAGES[:8]:
        budget.charge(stage)
    assert sum(budget.stages_ns.values()) <= time.monotonic_ns() - budget.start_mono_ns
    assert set(budget.stages_ns) == set(STAGES[:8])


def test_reported_latency_is_the_raw_monotonic_difference() -> None:
    tally = Tally("edge")
    stages = dict.fromkeys(STAGES[:8], 1_000)
    tally.sent(1, Sent(start_mono_ns=100, sent_mono_ns=9_100, stages_ns=stages, budget_end_ns=10**12))
    timing = {"received": 9_200, "started": 9_300, "judged": 9_900, "acknowledged": 20_100}
    tally.answered(1, code=None, state="ok", timing=timing)
    summary = tally.summary(newest=None)
    latency = summary["latency"]
    assert isinstance(latency, dict)
    assert latency["max_ms"] == (20_100 - 100) / 1e6
    assert latency["stages"]["handover"]["max_ms"] == 200 / 1e6
    assert latency["stages"]["verify"]["max_ms"] == 600 / 1e6
    assert latency["stages"]["write"]["max_ms"] == 10_200 / 1e6
    assert latency["unattributed_ms"] == (20_000 - 8_000 - 200 - 600 - 10_200) / 1e6
    assert summary["accepted"] == 1


def test_refusals_are_counted_and_recorded_once_a_second() -> None:
    tally = Tally("edge")
    for i in range(100):
        tally.refuse(CycleRefused("stale-frame", found=f"{i} ms", expected="less"))
    first = tally.due_records(3)
    assert [(r.code, r.count, r.epoch, r.found) for r in first] == [("stale-frame", 100, 3, "99 ms")]
    tally.refuse(CycleRefused("stale-frame", found="x", expected="less"))
    assert tally.due_records(3) == []
    assert [r.count for r in tally.due_records(3, everything=True)] == [1]
    assert tally.refused["stale-frame"] == 101


def test_unanswered_commands_are_bounded_and_counted() -> None:
    tally = Tally("edge")
    for sequence in range(PENDING_MAX + 5):
        tally.sent(sequence, Sent(0, 0, {}, 0))
    assert tally.pending == PENDING_MAX
    assert tally.unanswered == 5


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=300))
def test_percentiles_are_values_that_occurred_and_ordered(values: list[int]) -> None:
    result = percentiles_ms(values)
    assert result["p50_ms"] <= result["p99_ms"] <= result["p999_ms"] <= result["max_ms"] == max(values) / 1e6
    assert all(figure in {value / 1e6 for value in values} for figure in result.values())


def test_the_ring_keeps_the_newest_and_stays_bounded() -> None:
    ring = DurationRing()
    for value in range(RING_LENGTH + 10):
        ring.add(value)
    assert len(ring.values()) == RING_LENGTH
    assert list(ring.newest(12)) == list(range(RING_LENGTH - 2, RING_LENGTH + 10))
    assert sorted(ring.values())[0] == 10
