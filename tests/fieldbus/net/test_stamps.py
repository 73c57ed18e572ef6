"""Which stamp a frame gets: the card's, the kernel's or this process's."""

from __future__ import annotations

import socket
import struct

import pytest

from fieldbus.net.stamps import HARDWARE_AHEAD_NS_MAX, HARDWARE_APART_NS_MAX, SO_RXQ_OVFL, SO_TIMESTAMPING, reception

NOW_NS = 1_800_000_000_000_000_000
TAI_S = 37


def control(*, software_ns: int, hardware_ns: int = 0) -> list[tuple[int, int, bytes]]:
    fields = (*divmod(software_ns, 10**9), 0, 0, *divmod(hardware_ns, 10**9))
    return [(socket.SOL_SOCKET, SO_TIMESTAMPING, struct.pack("@6q", *fields))]


def test_the_cards_stamp_comes_first_by_this_machines_time() -> None:
    software = NOW_NS - 20_000
    hardware = software - 3_000
    got = reception(
        control(software_ns=software, hardware_ns=hardware + TAI_S * 10**9), now_ns=NOW_NS, tai_offset_s=TAI_S
    )
    assert (got.t_ns, got.stamp, got.refused) == (hardware, "hardware", False)


@pytest.mark.parametrize(
    "apart_ns",
    [HARDWARE_APART_NS_MAX + 1, -HARDWARE_AHEAD_NS_MAX - 1, TAI_S * 10**9, -TAI_S * 10**9, NOW_NS - 5_000_000_000],
)
def test_a_hardware_stamp_by_another_clock_is_refused_and_counted(apart_ns: int) -> None:
    software = NOW_NS - 20_000
    got = reception(
        control(software_ns=software, hardware_ns=software - apart_ns + TAI_S * 10**9),
        now_ns=NOW_NS,
        tai_offset_s=TAI_S,
    )
    assert (got.t_ns, got.stamp, got.refused) == (software, "kernel", True)


@pytest.mark.parametrize("apart_ns", [0, HARDWARE_APART_NS_MAX, -HARDWARE_AHEAD_NS_MAX])
def test_the_limits_themselves_are_within(apart_ns: int) -> None:
    got = reception(control(software_ns=NOW_NS, hardware_ns=NOW_NS - apart_ns), now_ns=NOW_NS + 50_000, tai_offset_s=0)
    assert (got.t_ns, got.stamp) == (NOW_NS - apart_ns, "hardware")


def test_without_any_stamp_it_is_this_processs() -> None:
    assert reception([], now_ns=NOW_NS, tai_offset_s=0).stamp == "user"
    assert reception([], now_ns=NOW_NS, tai_offset_s=0).t_ns == NOW_NS
    assert reception(control(software_ns=0), now_ns=NOW_NS, tai_offset_s=0).stamp == "user"


@pytest.mark.parametrize("size", [0, 8, 16, 47, 49])
def test_control_messages_of_another_size_or_level_are_not_read(size: int) -> None:
    odd = [(socket.SOL_SOCKET, SO_TIMESTAMPING, bytes(size)), (socket.IPPROTO_IP, SO_RXQ_OVFL, b"\1\0\0\0")]
    got = reception(odd, now_ns=NOW_NS, tai_offset_s=0)
    assert (got.t_ns, got.stamp, got.dropped) == (NOW_NS, "user", None)


def test_the_drop_count_is_carried() -> None:
    drops = [(socket.SOL_SOCKET, SO_RXQ_OVFL, struct.pack("=I", 4_000_000_000))]
    assert reception(drops, now_ns=NOW_NS, tai_offset_s=0).dropped == 4_000_000_000
