"""Sending at given times: refused where nothing would obey, and the parsing of what the kernel says is there.

The kernels these tests run on have neither etf nor taprio: the check is made against what they do have, its answers are
put together from the kernel's headers, and frames with a time are sent over a port that ignores it.
"""

from __future__ import annotations

import struct
import subprocess
import time
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fieldbus.net import EthernetReceiver, NetError
from fieldbus.net.launch import LaunchSender
from fieldbus.net.qdisc import CLOCK_TAI, Etf, Qdisc, parse_answer, qdiscs, require_etf
from tests.support.namespaces import Namespace

GROUP = "01:00:5e:00:00:01"
DONE = struct.pack("@IHHIIi", 20, 3, 2, 1, 0, 0)
GOOD = Etf(200_000, CLOCK_TAI, deadline=False, offload=True)


@pytest.fixture(scope="module")
def network() -> Iterator[Namespace]:
    with Namespace() as namespace:
        namespace.veth()
        yield namespace


def attribute(kind: int, body: bytes) -> bytes:
    return struct.pack("@HH", 4 + len(body), kind) + body + bytes(-len(body) % 4)


def message(kind: str, *, index: int = 7, options: bytes = b"", number: int = 36) -> bytes:
    body = struct.pack("@BxxxiIII", 0, index, 0x8001_0000, 0xFFFF_FFFF, 2)
    body += attribute(1, kind.encode() + b"\0") + attribute(2, options)
    return struct.pack("@IHHII", 16 + len(body), number, 2, 1, 0) + body


def etf_options(delta: int = 200_000, clock: int = CLOCK_TAI, flags: int = 2) -> bytes:
    return attribute(1, struct.pack("@iiI", delta, clock, flags))


def test_an_interface_without_etf_is_refused_and_what_it_has_is_named(network: Namespace) -> None:
    there = network.run(lambda: qdiscs("v0"))
    assert [item.kind for item in there] == ["noqueue"]
    for attempt in (lambda: require_etf("v0"), lambda: LaunchSender("v0", GROUP)):
        with pytest.raises(NetError) as caught:
            network.run(attempt)
        assert (caught.value.code, caught.value.found) == ("no-etf", "noqueue on v0")
        assert "etf clockid CLOCK_TAI" in caught.value.hint


def test_a_discipline_that_is_set_is_seen(network: Namespace) -> None:
    network.veth("q0", "q1")
    network.run(lambda: subprocess.run(["tc", "qdisc", "replace", "dev", "q0", "root", "pfifo"], check=True))
    assert [item.kind for item in network.run(lambda: qdiscs("q0"))] == ["pfifo"]


def test_an_unknown_interface_is_named() -> None:
    with pytest.raises(NetError) as caught:
        qdiscs("nosuch0")
    assert caught.value.code == "no-such-interface"


def test_the_kernels_answer_is_read() -> None:
    answer = message("taprio") + message("etf", options=etf_options()) + message("etf", index=8, options=etf_options())
    done, found = parse_answer(answer + DONE, 7)
    assert done
    assert [(item.kind, item.etf) for item in found] == [("taprio", None), ("etf", GOOD)]
    assert parse_answer(answer, 7) == (False, found)


@pytest.mark.parametrize(
    "answer",
    [
        message("etf", options=etf_options()[:-4]),
        message("etf"),
        message("etf", options=b"\xff\xff\1\0" + bytes(12)),
        message("noqueue")[:-1],
        message("noqueue")[:10],
        struct.pack("@IHHII", 8, 36, 2, 1, 0),
        struct.pack("@IHHII", 20, 36, 2, 1, 0) + bytes(4),
        struct.pack("@IHHIIi", 20, 2, 2, 1, 0, -1),
    ],
)
def test_netlink_an_answer_that_is_no_list(answer: bytes) -> None:
    with pytest.raises(NetError) as caught:
        parse_answer(answer, 7)
    assert caught.value.code == "netlink"


@given(st.binary(max_size=200), st.integers(0, 5))
def test_any_bytes_are_a_list_or_one_error(data: bytes, kind: int) -> None:
    numbers = (36, 3, 2, 0, 99, 36)
    head = struct.pack("@IHHII", 16 + len(data), numbers[kind], 2, 1, 0)
    for answer in (data, head + data):
        try:
            done, _ = parse_answer(answer, 0)
        except NetError:
            continue
        assert done in (True, False)


@pytest.mark.parametrize(
    ("there", "code"),
    [
        ([], "no-etf"),
        ([Qdisc("taprio", 1, 0)], "no-etf"),
        ([Qdisc("etf", 1, 0, GOOD)], "no-taprio"),
        ([Qdisc("taprio", 1, 0), Qdisc("etf", 2, 1, Etf(0, 1, deadline=False, offload=False))], "etf-clock"),
        ([Qdisc("taprio", 1, 0), Qdisc("etf", 2, 1, Etf(0, CLOCK_TAI, deadline=True, offload=False))], "etf-clock"),
    ],
)
def test_each_missing_piece_is_named(monkeypatch: pytest.MonkeyPatch, there: list[Qdisc], code: str) -> None:
    monkeypatch.setattr("fieldbus.net.qdisc.qdiscs", lambda _: tuple(there))
    with pytest.raises(NetError) as caught:
        require_etf("eth0", taprio=True)
    assert caught.value.code == code


@pytest.fixture
def etf_claimed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fieldbus.net.qdisc.qdiscs", lambda _: (Qdisc("etf", 1, 0, GOOD),))


def test_tai_unset_a_kernel_that_does_not_know_tai(etf_claimed: None, monkeypatch: pytest.MonkeyPatch) -> None:
    real = time.time_ns
    monkeypatch.setattr("fieldbus.net.launch.time.clock_gettime_ns", lambda _: real())
    with pytest.raises(NetError) as caught:
        LaunchSender("lo", GROUP)
    assert caught.value.code == "tai-unset"


def test_a_frame_with_a_time_goes_through_the_kernel(
    etf_claimed: None, monkeypatch: pytest.MonkeyPatch, network: Namespace
) -> None:
    real = time.time_ns
    monkeypatch.setattr("fieldbus.net.launch.time.clock_gettime_ns", lambda _: real() + 37 * 10**9)
    with (
        network.run(lambda: EthernetReceiver("v1", group=GROUP)) as receiver,
        network.run(lambda: LaunchSender("v0", GROUP)) as sender,
    ):
        assert sender.etf == GOOD
        sender.send_at(bytes(range(1, 100)), real() + 37 * 10**9)
        frame = receiver.receive(5.0)
        assert frame is not None
        assert frame.data == bytes(range(1, 100))
        assert (sender.look().missed, sender.look().invalid) == (0, 0)
        with pytest.raises(ValueError):
            sender.send_at(b"x", -1)
        for code in (2, 2, 1, 7):
            report = struct.pack("@IBBBxII", 125, 6, 0, code, 0, 0)
            sender._note([(263, 16, report), (263, 16, report[:8]), (1, 16, report)])
        assert (sender.counts.missed, sender.counts.invalid) == (2, 1)
