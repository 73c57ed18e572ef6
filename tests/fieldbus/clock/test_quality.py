"""Time quality from the kernel's own account."""

from __future__ import annotations

import ctypes

import pytest

from fieldbus.clock import TimeQualityKind, time_quality
from fieldbus.clock.quality import _Timex, quality_of
from fieldbus.errors import FieldbusError

STA_PLL, STA_UNSYNC, STA_CLOCKERR, STA_NANO = 0x0001, 0x0040, 0x1000, 0x2000


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (STA_PLL, TimeQualityKind.NTP),
        (STA_PLL | STA_NANO, TimeQualityKind.NTP),
        (0, TimeQualityKind.NTP),
        (STA_UNSYNC, TimeQualityKind.FREE),
        (STA_PLL | STA_CLOCKERR, TimeQualityKind.FREE),
    ],
)
def test_only_a_disciplined_clock_without_error_is_synchronised(status: int, kind: TimeQualityKind) -> None:
    quality = quality_of(status, 1_500, 20, 37)
    assert quality.kind is kind
    assert (quality.max_error_ns, quality.estimated_error_ns, quality.tai_offset_s) == (1_500_000, 20_000, 37)


def test_the_structure_has_the_kernels_size() -> None:
    """208 bytes on every 64-bit Linux: a shorter one would be written past its end."""
    assert ctypes.sizeof(_Timex) == 208


def test_this_machine_answers_within_what_the_kernel_can_say() -> None:
    quality = time_quality()
    assert quality.kind in (TimeQualityKind.FREE, TimeQualityKind.NTP)
    assert 0 <= quality.max_error_ns <= 16_000_000_000
    assert -60 <= quality.tai_offset_s <= 60


def test_labels_go_both_ways_and_are_ordered() -> None:
    labels = ["free", "ntp", "ptp-sw", "ptp-hw"]
    kinds = [TimeQualityKind.from_label(label) for label in labels]
    assert [kind.label for kind in kinds] == labels
    assert kinds == sorted(kinds)
    with pytest.raises(FieldbusError) as caught:
        TimeQualityKind.from_label("gps")
    assert caught.value.code == "time-quality-label"
