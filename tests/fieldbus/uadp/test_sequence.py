"""Sequence numbers: the standard's window, rollover, losses, repeats and restarts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fieldbus.uadp import SequenceEvent, SequenceTracker
from fieldbus.uadp.sequence import MODULUS, NEWER_BELOW, OLDER_ABOVE
from tests.fieldbus.uadp.strategies import patient


@patient
@given(st.integers(0, MODULUS - 1), st.lists(st.integers(1, NEWER_BELOW), max_size=50))
def test_extended_numbers_are_true_numbers_across_rollovers(first: int, steps: list[int]) -> None:
    tracker = SequenceTracker()
    true = first
    assert tracker.update(first).extended == first
    for step in steps:
        true += step
        verdict = tracker.update(true % MODULUS)
        assert (verdict.extended, verdict.missed) == (true, step - 1)
        assert verdict.event is (SequenceEvent.NEXT if step == 1 else SequenceEvent.GAP)
        assert verdict.in_order
    assert tracker.counts[SequenceEvent.GAP] == sum(step > 1 for step in steps)


@patient
@given(st.integers(0, MODULUS - 1), st.integers(0, MODULUS - 1))
def test_the_window_is_the_standards(last: int, received: int) -> None:
    """OPC 10000-14, 7.2.3: (65535 + received - last) modulo 65536."""
    tracker = SequenceTracker()
    tracker.update(last)
    verdict = tracker.update(received)
    distance = (65_535 + received - last) % 65_536
    if received == last:
        assert verdict.event is SequenceEvent.DUPLICATE
    elif distance < NEWER_BELOW:
        assert verdict.in_order
    elif distance > OLDER_ABOVE:
        assert verdict.event is SequenceEvent.REORDER
        assert verdict.extended < last
    else:
        assert verdict.event is SequenceEvent.INVALID


def test_a_late_message_does_not_move_the_state() -> None:
    tracker = SequenceTracker()
    tracker.update(10)
    assert tracker.update(9).event is SequenceEvent.REORDER
    assert tracker.update(11).event is SequenceEvent.NEXT


@pytest.mark.parametrize("first_after_restart", [0, 5_000, 40_000])
def test_a_restarted_publisher_is_taken_up_again_and_numbers_never_go_back(first_after_restart: int) -> None:
    tracker = SequenceTracker(restart_after=4)
    tracker.update(30_000 if first_after_restart < 30_000 else 10_000)
    before = tracker.update(30_001 if first_after_restart < 30_000 else 10_001).extended
    events = [tracker.update(first_after_restart + step) for step in range(5)]
    assert not any(verdict.in_order for verdict in events[:3])
    assert [verdict.event for verdict in events[3:]] == [SequenceEvent.RESTART, SequenceEvent.NEXT]
    assert [verdict.extended for verdict in events[3:]] == [before + 1, before + 2]


def test_stray_old_messages_are_no_restart() -> None:
    tracker = SequenceTracker(restart_after=3)
    tracker.update(1_000)
    for old in (10, 11, 20, 21, 30, 31):
        assert tracker.update(old).event is SequenceEvent.REORDER
    assert tracker.update(1_001).event is SequenceEvent.NEXT
    assert tracker.update(32).event is SequenceEvent.REORDER  # the run starts anew after a good message


@pytest.mark.parametrize(
    ("last", "expected", "lost"), [(5, 6, 0), (5, 9, 3), (65_535, 0, 0), (65_534, 2, 3), (5, 5, 0), (5, 4, 0)]
)
def test_a_keep_alive_does_not_mask_a_loss(last: int, expected: int, lost: int) -> None:
    """A keep-alive carries the number of the next message; between it and the last received one some are missing."""
    tracker = SequenceTracker()
    assert tracker.lost_before(expected) == 0
    tracker.update(last)
    assert tracker.lost_before(expected) == lost
    assert tracker.update((last + 1) % MODULUS).event is SequenceEvent.NEXT  # asking has changed nothing


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(ValueError):
        SequenceTracker(restart_after=1)
    for number in (-1, MODULUS):
        with pytest.raises(ValueError):
            SequenceTracker().update(number)
        with pytest.raises(ValueError):
            SequenceTracker().lost_before(number)
