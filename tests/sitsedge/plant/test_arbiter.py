"""The PLC's request block, rule by rule."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sitsedge.plant.arbiter import SCAN_S, Applied, Arbiter, BlockMode, BlockRules, Refused, RequestImage

RULES = BlockRules()
AUTO = RequestImage(heartbeat=1, auto_request=True)


class Bench:
    """An arbiter with a network that beats its heart every scan unless told otherwise."""

    def __init__(self) -> None:
        self.arbiter = Arbiter(RULES)
        self.image = AUTO
        self.out = self.arbiter.scan(self.image, 0)

    def run(self, scans: int, *, beat: bool = True, now_ns: int = 0, **changes: object) -> Applied:
        self.image = replace(self.image, **changes)  # type: ignore[arg-type]
        for _ in range(scans):
            if beat:
                self.image = replace(self.image, heartbeat=(self.image.heartbeat + 1) % 2**32)
            self.out = self.arbiter.scan(self.image, now_ns)
        return self.out

    def request(self, gap: float, trim: float = 0.0, scans: int = 300, **changes: object) -> Applied:
        sequence = self.image.sequence + 1
        return self.run(scans, gap_correction_mm=gap, speed_trim_percent=trim, sequence=sequence, **changes)


def test_request_is_applied_and_acknowledged() -> None:
    out = Bench().request(0.1, 0.3)
    assert (out.gap_correction_mm, out.speed_trim_percent, out.sequence) == (0.1, 0.3, 1)
    assert out.mode is BlockMode.AUTO
    assert out.refused is Refused.NONE


def test_values_without_a_new_sequence_are_not_taken() -> None:
    bench = Bench()
    bench.request(0.1)
    assert bench.run(50, gap_correction_mm=0.2).gap_correction_mm == 0.1


def test_sequence_follows_only_when_the_value_has_arrived() -> None:
    bench = Bench()
    out = bench.request(0.3, scans=1)
    assert out.sequence == 0
    assert 0 < out.gap_correction_mm < 0.3
    assert bench.run(20).sequence == 1


@pytest.mark.parametrize(
    ("gap", "expected"), [(5.0, RULES.gap_limit_mm), (-5.0, -RULES.gap_limit_mm), (1e300, RULES.gap_limit_mm)]
)
def test_gap_beyond_limits_is_clamped(gap: float, expected: float) -> None:
    out = Bench().request(gap)
    assert out.gap_correction_mm == expected
    assert out.clamped_count == 1


def test_trim_beyond_limits_is_clamped() -> None:
    assert Bench().request(0.0, -9.0).speed_trim_percent == -RULES.trim_limit_percent


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("field", ["gap_correction_mm", "speed_trim_percent"])
def test_not_finite_is_refused_whole(bad: float, field: str) -> None:
    bench = Bench()
    bench.request(0.1, 0.2)
    out = bench.run(50, **{"gap_correction_mm": 0.3, "speed_trim_percent": 0.4, "sequence": 2, field: bad})
    assert (out.gap_correction_mm, out.speed_trim_percent, out.sequence) == (0.1, 0.2, 1)
    assert (out.refused, out.refused_count) == (Refused.NOT_FINITE, 1)


def test_expired_request_is_refused() -> None:
    bench = Bench()
    out = bench.request(0.1, valid_until_ns=1000, now_ns=1001)
    assert (out.gap_correction_mm, out.refused) == (0.0, Refused.EXPIRED)
    assert bench.request(0.2, valid_until_ns=2000, now_ns=2000).gap_correction_mm == 0.2


def test_operator_wins_over_auto_and_holds_the_last_value() -> None:
    bench = Bench()
    bench.request(0.1)
    out = bench.request(0.3, manual_selected=True)
    assert (out.mode, out.gap_correction_mm, out.refused) == (BlockMode.MAN, 0.1, Refused.NOT_AUTO)


def test_manual_stops_a_value_on_its_way() -> None:
    bench = Bench()
    moving = bench.request(0.3, scans=2).gap_correction_mm
    out = bench.run(100, auto_request=False)
    assert out.gap_correction_mm == pytest.approx(moving, abs=RULES.gap_rate_mm_s * SCAN_S)
    assert out.sequence == 0


def test_without_auto_request_the_block_is_in_man() -> None:
    bench = Bench()
    bench.request(0.1)
    out = bench.run(1000, auto_request=False, beat=False)
    assert (out.mode, out.gap_correction_mm) == (BlockMode.MAN, 0.1)


def test_auto_needs_a_heartbeat_first() -> None:
    arbiter = Arbiter()
    image = RequestImage(0.1, 0.0, 1, 0, auto_request=True)
    assert arbiter.scan(image, 0).mode is BlockMode.MAN


def test_entering_auto_is_bumpless() -> None:
    bench = Bench()
    bench.request(0.2)
    bench.run(10, auto_request=False)
    out = bench.run(50, auto_request=True)
    assert (out.mode, out.gap_correction_mm) == (BlockMode.AUTO, 0.2)


def test_lost_heartbeat_holds_then_ramps_to_zero() -> None:
    bench = Bench()
    bench.request(0.2, 0.5)
    scans = round(RULES.heartbeat_s / SCAN_S)
    assert bench.run(scans, beat=False).mode is BlockMode.AUTO
    held = bench.run(1, beat=False)
    assert (held.mode, held.watchdog_tripped, held.trip_count) == (BlockMode.HOLD, True, 1)
    held = bench.run(round(RULES.hold_s / SCAN_S), beat=False)
    assert (held.mode, held.gap_correction_mm) == (BlockMode.HOLD, 0.2)
    ramp = bench.run(100, beat=False)
    assert ramp.mode is BlockMode.FAILSAFE
    assert ramp.gap_correction_mm == pytest.approx(0.2 - 100 * SCAN_S * RULES.gap_limit_mm / RULES.failsafe_s)
    end = bench.run(round(RULES.failsafe_s / SCAN_S), beat=False)
    assert (end.gap_correction_mm, end.speed_trim_percent) == (0.0, 0.0)


def test_request_during_failsafe_is_refused() -> None:
    bench = Bench()
    bench.run(2000, beat=False)
    out = bench.request(0.3, beat=False)
    assert (out.gap_correction_mm, out.refused) == (0.0, Refused.NOT_AUTO)


def test_returning_heartbeat_does_not_bring_the_old_request_back() -> None:
    bench = Bench()
    bench.request(0.2)
    bench.run(4000, beat=False)
    out = bench.run(200)
    assert (out.mode, out.gap_correction_mm, out.watchdog_tripped) == (BlockMode.AUTO, 0.0, False)
    assert bench.request(0.1).gap_correction_mm == 0.1


def test_returning_heartbeat_stops_the_ramp_where_it_is() -> None:
    bench = Bench()
    bench.request(0.3)
    bench.run(round((RULES.heartbeat_s + RULES.hold_s) / SCAN_S) + 200, beat=False)
    ramping = bench.out.gap_correction_mm
    assert 0 < ramping < 0.3
    assert bench.run(100).gap_correction_mm == ramping


images = st.builds(
    RequestImage,
    gap_correction_mm=st.floats(),
    speed_trim_percent=st.floats(),
    sequence=st.integers(0, 3),
    heartbeat=st.integers(0, 3),
    valid_until_ns=st.sampled_from([0, 1, 2**63]),
    auto_request=st.booleans(),
    manual_selected=st.booleans(),
)


@given(st.lists(st.tuples(images, st.integers(1, 400)), max_size=12))
def test_whatever_is_written_the_output_stays_inside_limits_and_rate(
    story: list[tuple[RequestImage, int]],
) -> None:
    arbiter = Arbiter(RULES)
    before = arbiter.scan(RequestImage(), 2)
    for image, scans in story:
        for _ in range(scans):
            out = arbiter.scan(image, 2)
            assert abs(out.gap_correction_mm) <= RULES.gap_limit_mm
            assert abs(out.speed_trim_percent) <= RULES.trim_limit_percent
            step = abs(out.gap_correction_mm - before.gap_correction_mm)
            assert step <= RULES.gap_rate_mm_s * SCAN_S + 1e-12
            if out.mode in (BlockMode.MAN, BlockMode.HOLD):
                assert step == 0.0
            assert not (image.manual_selected and out.mode is not BlockMode.MAN)
            before = out
