"""Troubles with time that plants report in public, and what becomes of such frames here."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from fieldbus.clock import FreshnessCheck, FreshnessPolicy
from fieldbus.s7.errors import S7Error
from fieldbus.s7.values import DataType, TypeSpec, decode_value
from tests.fieldbus.troubles.loop_rig import ZEROS, LoopRig

NOW_NS = 1_795_996_800_000_000_000
S = 1_000_000_000
HOUR_NS = 3_600 * S
YEAR_2000_NS = int(datetime(2000, 1, 1, tzinfo=UTC).timestamp()) * S


def check() -> FreshnessCheck:
    return FreshnessCheck(FreshnessPolicy(age_ms_max=50.0, future_ms_max=5.0))


def code(made: FreshnessCheck, sequence: int, t_source_ns: int, *, now_ns: int = NOW_NS) -> str | None:
    fault = made.check(sequence, t_source_ns, now_ns, now_ns)
    return None if fault is None else fault.code


def test_a_plc_clock_reset_to_2000_is_refused_and_does_not_lock_its_return_out() -> None:
    made = check()
    assert code(made, 1, NOW_NS) is None
    assert code(made, 2, YEAR_2000_NS) == "out-of-order"
    assert code(made, 3, YEAR_2000_NS + S) == "out-of-order"
    assert code(made, 4, NOW_NS + S, now_ns=NOW_NS + S) is None


def test_a_plc_that_starts_in_2000_is_stale_from_its_first_frame() -> None:
    made = check()
    assert code(made, 1, YEAR_2000_NS) == "stale-frame"
    assert code(made, 2, NOW_NS) is None


@pytest.mark.parametrize(("zone_h", "expected"), [(1, "future-frame"), (8, "future-frame"), (-5, "stale-frame")])
def test_local_time_sent_as_utc_is_refused_east_and_west(zone_h: int, expected: str) -> None:
    assert code(check(), 1, NOW_NS + zone_h * HOUR_NS) == expected


def test_a_burst_of_stale_values_after_an_outage_is_refused_whole() -> None:
    made = check()
    assert code(made, 1, NOW_NS) is None
    later_ns = NOW_NS + 17 * S
    burst = [code(made, 2 + n, NOW_NS + n * S // 100, now_ns=later_ns) for n in range(1, 1_690)]
    assert set(burst) == {"stale-frame"}
    assert code(made, 2_000, later_ns, now_ns=later_ns) is None


def test_the_loop_computes_nothing_from_it_and_goes_on_when_the_clock_is_set() -> None:
    rig = LoopRig()
    assert rig.take(rig.writer.write(t_source_ns=YEAR_2000_NS, values=ZEROS)).startswith("stale-frame")
    assert rig.take(rig.key_frame()) == "ok"
    assert rig.take(rig.writer.write(t_source_ns=YEAR_2000_NS + S, values=ZEROS)).startswith("out-of-order")
    assert rig.take(rig.key_frame()) == "ok"


def test_an_s7_clock_that_was_never_set_is_the_time_it_shows_and_no_other() -> None:
    """Nothing is put in place of such a time: the sample carries it, and its consumer finds it stale."""
    reset = bytes.fromhex("07d00101070000000000 0000".replace(" ", ""))
    assert decode_value(TypeSpec(DataType.DTL), reset) == YEAR_2000_NS
    assert decode_value(TypeSpec(DataType.DATE_AND_TIME), bytes.fromhex("0001010000000007")) == YEAR_2000_NS
    with pytest.raises(S7Error, match=r"bcd-time|date"):
        decode_value(TypeSpec(DataType.DATE_AND_TIME), bytes(8))
