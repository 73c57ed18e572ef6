"""Δe and W_sync: figures, checks, empty windows and steps of the clock."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fieldbus.clock import DeltaE, MeasureFault, SyncWindow

S = 1_000_000_000


def code(fault: MeasureFault | None) -> str | None:
    return None if fault is None else fault.code


def test_delta_e_is_the_raw_difference_and_its_percentiles_are_samples() -> None:
    measure = DeltaE()
    for us in range(1, 1_001):
        assert measure.add(5 * S, 5 * S + us * 1_000) == us * 1_000
    figures = measure.figures()
    assert (figures.p50_ns, figures.p99_ns, figures.p999_ns, figures.max_ns) == (500_000, 990_000, 999_000, 1_000_000)
    assert code(measure.check(us_max=990.0)) is None
    assert code(measure.check(us_max=989.9)) == "delta-e"


def test_delta_e_without_samples_passes_no_check() -> None:
    measure = DeltaE()
    assert measure.figures().p99_ns is None
    assert code(measure.check()) == "delta-e-empty"


def test_delta_e_across_a_clock_step_is_left_out_and_counted() -> None:
    measure = DeltaE()
    assert measure.add(5 * S, 3600 * S, stepped=True) is None
    assert measure.add(5 * S, 4 * S) is None
    figures = measure.figures()
    assert (figures.count, figures.stepped, figures.negative) == (0, 1, 1)
    assert code(measure.check()) == "delta-e-empty"


def test_delta_e_from_a_stamp_of_this_process_is_left_out_and_counted() -> None:
    measure = DeltaE()
    assert measure.add(5 * S, 5 * S + 10, stamped=False) is None
    assert (measure.figures().count, measure.figures().unstamped) == (0, 1)


def test_delta_e_keeps_the_newest() -> None:
    measure = DeltaE(samples_max=10)
    for us in (*[10_000] * 10, *[5] * 10):
        measure.add(0, us * 1_000)
    assert measure.figures().max_ns == 5_000


def test_w_sync_is_three_times_the_longest_round_trip_of_the_window() -> None:
    window = SyncWindow(window_s=10.0)
    for second, rtt in enumerate((100_000, 700_000, 300_000, 200_000)):
        window.add(rtt, second * S)
    assert window.w_sync_ns(4 * S) == 2_100_000
    assert code(window.check(4 * S)) == "w-sync"
    assert window.w_sync_ns(11 * S) == 2_100_000
    assert window.w_sync_ns(11 * S + 1) == 900_000
    assert code(window.check(11 * S + 1)) is None


def test_an_empty_window_has_no_figure_and_passes_no_check() -> None:
    window = SyncWindow(window_s=1.0)
    assert window.w_sync_ns(0) is None
    assert code(window.check(0)) == "w-sync-empty"
    window.add(1_000, 0)
    assert code(window.check(S)) is None
    assert code(window.check(S + 1)) == "w-sync-empty"
    window.add(1_000, 2 * S)
    window.clear()
    assert code(window.check(2 * S)) == "w-sync-empty"


@given(st.lists(st.tuples(st.integers(0, 3 * S), st.integers(0, 10**9)), max_size=60), st.integers(0, 20 * S))
def test_w_sync_agrees_with_the_definition(steps: list[tuple[int, int]], later: int) -> None:
    window, now, samples = SyncWindow(window_s=10.0), 0, []
    for elapsed, rtt in steps:
        now += elapsed
        samples.append((now, rtt))
        window.add(rtt, now)
    now += later
    inside = [rtt for at, rtt in samples if at >= now - 10 * S]
    assert window.w_sync_ns(now) == (3 * max(inside) if inside else None)


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=60))
def test_a_full_window_is_never_too_small(round_trips: list[int]) -> None:
    window = SyncWindow(window_s=10.0, samples_max=3)
    for at, rtt in enumerate(round_trips):
        window.add(rtt, at)
        assert len(window._longest) <= 3
    for now in range(10 * S, 10 * S + len(round_trips)):
        inside = [rtt for at, rtt in enumerate(round_trips) if at >= now - 10 * S]
        found = window.w_sync_ns(now)
        assert found is not None or not inside
        assert not inside or found >= 3 * max(inside)  # type: ignore[operator]


def test_nonsense_is_refused() -> None:
    with pytest.raises(ValueError):
        SyncWindow(window_s=0.0)
    with pytest.raises(ValueError):
        SyncWindow().add(-1, 0)
