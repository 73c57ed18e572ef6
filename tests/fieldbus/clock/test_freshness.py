"""Freshness rules one by one, their order, and that a refused frame leaves no trace."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fieldbus.clock import ClockStepDetector, FreshnessCheck, FreshnessPolicy, TimeQualityKind

MS = 1_000_000
NOW = 1_795_966_248_980_525_918
POLICY = FreshnessPolicy(age_ms_max=20.0, future_ms_max=2.0, clock_step_ms_max=1.0)


def code(check: FreshnessCheck, sequence: int, source: int, *, rx: int | None = None, **more: Any) -> str | None:
    """Code of the verdict; times relative to NOW in ns."""
    now = more.pop("now", 0)
    fault = check.check(sequence, NOW + source, NOW + (now if rx is None else rx), NOW + now, **more)
    return fault.code if fault is not None else None


def test_age_and_future_limits_are_exact() -> None:
    for source, expected in (
        (-20 * MS, None),
        (-20 * MS - 1, "stale-frame"),
        (2 * MS, None),
        (2 * MS + 1, "future-frame"),
    ):
        assert code(FreshnessCheck(POLICY), 1, source) == expected


def test_a_frame_that_lay_here_too_long_is_stale_whatever_its_source_says() -> None:
    assert code(FreshnessCheck(POLICY), 1, 0, rx=-20 * MS) is None
    assert code(FreshnessCheck(POLICY), 1, 0, rx=-20 * MS - 1) == "stale-frame"


def test_duplicates_and_reordered_frames() -> None:
    check = FreshnessCheck(POLICY)
    assert code(check, 5, 0) is None
    assert code(check, 5, 1) == "duplicate"
    assert code(check, 4, 1) == "out-of-order"
    assert code(check, 6, -1) == "out-of-order"
    assert code(check, 6, 1) is None


def test_order_by_sequence_can_be_off_but_time_never_runs_back() -> None:
    check = FreshnessCheck(FreshnessPolicy(age_ms_max=20.0, future_ms_max=2.0, order=False))
    assert code(check, 5, 0) is None
    assert code(check, 5, 1) is None
    assert code(check, 5, 0) == "out-of-order"


def test_a_frozen_source_clock_is_noticed() -> None:
    check = FreshnessCheck(POLICY)
    assert code(check, 1, 0) is None
    assert code(check, 2, 0) == "frozen-timestamp"
    patient = FreshnessCheck(FreshnessPolicy(age_ms_max=20.0, future_ms_max=2.0, frozen_frames_max=2))
    assert [code(patient, number, 0) for number in range(4)] == [None, None, None, "frozen-timestamp"]
    assert [code(patient, 5 + number, 1) for number in range(4)] == [None, None, None, "frozen-timestamp"]


def test_time_quality_below_the_policy_refuses_everything() -> None:
    policy = FreshnessPolicy(age_ms_max=20.0, future_ms_max=2.0, time_quality_min=TimeQualityKind.PTP_SW)
    check = FreshnessCheck(policy, time_quality=TimeQualityKind.NTP)
    assert code(check, 1, 0) == "time-quality"
    check.update_time_quality(TimeQualityKind.PTP_HW)
    assert code(check, 1, 0) is None


def test_a_clock_step_is_reported_once() -> None:
    check = FreshnessCheck(POLICY)
    assert code(check, 1, 0, now_mono_ns=0) is None
    assert code(check, 2, 10 * MS, now=10 * MS, now_mono_ns=10 * MS) is None
    assert code(check, 3, 30 * MS, now=30 * MS, now_mono_ns=20 * MS) == "clock-step"
    assert code(check, 3, 40 * MS, now=40 * MS, now_mono_ns=30 * MS) is None


def test_the_first_broken_rule_is_the_one_named() -> None:
    check = FreshnessCheck(POLICY)
    assert code(check, 9, 0) is None
    assert code(check, 9, -30 * MS) == "duplicate"
    assert code(check, 8, -30 * MS) == "out-of-order"
    assert code(check, 10, 30 * MS) == "future-frame"


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(-40 * MS, 10 * MS)), max_size=30))
def test_accepted_frames_grow_and_refused_ones_leave_no_trace(frames: list[tuple[int, int]]) -> None:
    check = FreshnessCheck(POLICY)
    accepted: list[tuple[int, int]] = []
    for sequence, source in frames:
        if code(check, sequence, source) is None:
            accepted.append((sequence, source))
    assert all(a < b and s < t for (a, s), (b, t) in itertools.pairwise(accepted))
    assert all(-20 * MS <= source <= 2 * MS for _, source in accepted)
    again = FreshnessCheck(POLICY)
    assert all(code(again, sequence, source) is None for sequence, source in accepted)


@pytest.mark.parametrize(
    "limits",
    [
        {"age_ms_max": -1.0, "future_ms_max": 0.0},
        {"age_ms_max": float("nan"), "future_ms_max": 0.0},
        {"age_ms_max": float("inf"), "future_ms_max": 0.0},
        {"age_ms_max": 1.0, "future_ms_max": -0.1},
        {"age_ms_max": 1.0, "future_ms_max": 1.0, "frozen_frames_max": -1},
    ],
)
def test_limits_that_make_no_sense_are_refused(limits: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        FreshnessPolicy(**limits)


@given(st.integers(0, 10**10), st.integers(-(10**10), 10**10))
def test_a_step_is_what_the_wall_clock_did_beyond_the_monotonic_one(elapsed: int, step: int) -> None:
    detector = ClockStepDetector(step_ms_max=1.0)
    assert detector.update(NOW, 5) == 0
    found = detector.update(NOW + elapsed + step, 5 + elapsed)
    allowed = MS + elapsed // 1_000
    assert found == (step if abs(step) > allowed else 0)
    assert detector.update(NOW + elapsed + step + 7, 5 + elapsed + 7) == 0
