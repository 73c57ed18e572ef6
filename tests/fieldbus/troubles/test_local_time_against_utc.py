"""Public trouble: a PLC sends its wall clock as if it were UTC, hours off, and once a year an hour more."""

from __future__ import annotations

import datetime as dt
import time

import pytest

from fieldbus.s7.times import zone as time_zone
from fieldbus.s7.values import DataType, TypeSpec, decode_value, encode_value
from fieldbus.slmp.client import clock_ns
from fieldbus.slmp.devices import Series
from tests.fieldbus.troubles.loop_rig import ZEROS, LoopRig

HOUR_NS = 3_600 * 10**9
BERLIN = "Europe/Berlin"
DTL = TypeSpec(DataType.DTL)


@pytest.mark.parametrize(("zone_h", "code"), [(1, "future-frame"), (8, "future-frame"), (-5, "stale-frame")])
def test_local_time_sent_as_utc_is_refused_east_and_west(zone_h: int, code: str) -> None:
    rig = LoopRig()
    moment = time.time_ns() + zone_h * HOUR_NS
    assert rig.take(rig.writer.write(t_source_ns=moment, values=ZEROS)).startswith(code)


def test_one_frame_in_local_time_does_not_lock_out_those_in_utc() -> None:
    rig = LoopRig()
    rig.take(rig.writer.write(t_source_ns=time.time_ns() + HOUR_NS, values=ZEROS))
    assert rig.take(rig.key_frame()) == "ok"


def test_a_plc_clock_in_a_declared_zone_becomes_utc_summer_and_winter() -> None:
    for month, offset_h in ((1, 1), (7, 2)):
        moment = dt.datetime(2026, month, 15, 12, 0, tzinfo=dt.UTC)
        data = bytearray(encode_value(DTL, int(moment.timestamp()) * 10**9, clock=time_zone(BERLIN)))
        assert data[5] == 12 + offset_h, "the DTL holds wall-clock time"
        assert decode_value(DTL, bytes(data), clock=time_zone(BERLIN)) == int(moment.timestamp()) * 10**9
        assert decode_value(DTL, bytes(data)) == int(moment.timestamp()) * 10**9 + offset_h * HOUR_NS


def test_a_melsec_clock_is_read_in_its_zone_too() -> None:
    words = (2026, 7, 15, 14, 0, 0, 3)
    moment = dt.datetime(2026, 7, 15, 12, 0, tzinfo=dt.UTC)
    assert clock_ns(words, Series.IQ_R, time_zone(BERLIN)) == int(moment.timestamp()) * 10**9


def test_the_hour_that_comes_twice_never_makes_a_value_younger_than_it_is() -> None:
    """When summer time ends, a wall clock says the same hour twice and not which one it means. It is read as the first:
    in the second hour values look an hour old, are refused as stale, and none is ever taken for fresher than it is."""
    twice = [dt.datetime(2026, 10, 25, hour, 30, tzinfo=dt.UTC) for hour in (0, 1)]
    data = [encode_value(DTL, int(moment.timestamp()) * 10**9, clock=time_zone(BERLIN)) for moment in twice]
    assert data[0] == data[1]
    assert decode_value(DTL, data[1], clock=time_zone(BERLIN)) == int(twice[0].timestamp()) * 10**9
    rig = LoopRig()
    hour_old = rig.writer.write(t_source_ns=time.time_ns() - HOUR_NS, values=ZEROS)
    assert rig.take(hour_old).startswith("stale-frame")
