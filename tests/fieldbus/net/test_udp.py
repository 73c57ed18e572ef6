"""Receiver and sender over real sockets on loopback."""

from __future__ import annotations

import errno
import socket
import time
from collections.abc import Iterator

import pytest

from fieldbus.net import NetError, UdpReceiver, UdpSender
from fieldbus.net.errors import from_os_error
from fieldbus.net.receiver import DRAIN_MAX
from fieldbus.net.udp import DATAGRAM_BYTES_MAX

WAIT_S = 5.0


@pytest.fixture
def receiver() -> Iterator[UdpReceiver]:
    with UdpReceiver("127.0.0.1", 0) as opened:
        yield opened


@pytest.fixture
def sender(receiver: UdpReceiver) -> Iterator[UdpSender]:
    with UdpSender(*receiver.address) as opened:
        yield opened


def test_a_datagram_arrives_whole_with_a_kernel_stamp(receiver: UdpReceiver, sender: UdpSender) -> None:
    before_ns = time.time_ns()
    sender.send(b"frame")
    frame = receiver.receive(WAIT_S)
    after_ns = time.time_ns()
    assert frame is not None
    assert (frame.data, frame.stamp, frame.dropped_total) == (b"frame", "kernel", 0)
    assert before_ns <= frame.t_rx_ns <= after_ns
    assert frame.source[0] == "127.0.0.1"


def test_the_kernel_stamp_is_of_arrival_not_of_reading(receiver: UdpReceiver, sender: UdpSender) -> None:
    sender.send(b"first")
    sender.send(b"second")
    between_ns = time.time_ns()
    frames = [receiver.receive(WAIT_S), receiver.receive(WAIT_S)]
    stamps = [frame.t_rx_ns for frame in frames if frame is not None]
    assert len(stamps) == 2
    assert stamps == sorted(stamps)
    assert stamps[1] <= between_ns


def test_nothing_there_is_none_with_and_without_waiting(receiver: UdpReceiver) -> None:
    assert receiver.receive(0.0) is None
    assert receiver.receive(0.01) is None
    assert receiver.receive_latest(0.01) == (None, 0)
    assert receiver.drain_latest() == (None, 0)
    with pytest.raises(ValueError):
        receiver.receive(-1.0)


def test_latest_value_wins_and_the_superseded_are_counted(receiver: UdpReceiver, sender: UdpSender) -> None:
    for number in range(5):
        sender.send(bytes([number]))
    frame, superseded = receiver.receive_latest(WAIT_S)
    assert frame is not None
    assert (frame.data, superseded, receiver.counts.superseded) == (b"\x04", 4, 4)
    sender.send(b"x")
    frame, superseded = receiver.receive_latest(WAIT_S)
    assert frame is not None
    assert (frame.data, superseded, receiver.counts.superseded) == (b"x", 0, 4)


def test_a_drain_is_bounded(sender: UdpSender, receiver: UdpReceiver) -> None:
    with UdpReceiver("127.0.0.1", 0, receive_buffer_bytes=8_000_000) as large:
        room = large._socket.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) // 1_000
        count = min(DRAIN_MAX + 10, room)
        with UdpSender(*large.address) as to_large:
            for _ in range(count):
                to_large.send(b"x")
        _, superseded = large.drain_latest()
        assert superseded == min(count, DRAIN_MAX) - 1


def test_a_truncated_datagram_is_an_error_and_never_a_frame(sender: UdpSender) -> None:
    with UdpReceiver("127.0.0.1", 0, size_max=8) as small, UdpSender(*small.address) as to_small:
        to_small.send(b"12345678")
        frame = small.receive(WAIT_S)
        assert frame is not None
        assert frame.data == b"12345678"
        to_small.send(b"123456789")
        with pytest.raises(NetError) as caught:
            small.receive(WAIT_S)
        assert caught.value.code == "datagram-truncated"
        to_small.send(b"old")
        to_small.send(b"123456789")
        frame, superseded = small.drain_latest()
        assert frame is not None
        assert (frame.data, superseded, small.counts.truncated) == (b"old", 0, 2)


def test_foreign_senders_are_skipped_and_counted() -> None:
    with UdpReceiver("127.0.0.1", 0, sources=["127.0.0.2"]) as filtered:
        target = filtered.address
        with (
            UdpSender(*target, bind_address="127.0.0.3") as foreign,
            UdpSender(*target, bind_address="127.0.0.2") as known,
        ):
            foreign.send(b"foreign")
            known.send(b"known")
            foreign.send(b"foreign")
            frame = filtered.receive(WAIT_S)
            assert frame is not None
            assert frame.data == b"known"
            assert filtered.receive(0.01) is None
            assert filtered.counts.foreign == 2
            known.send(b"kept")
            foreign.send(b"foreign")
            latest, superseded = filtered.drain_latest()
            assert latest is not None
            assert (latest.data, superseded) == (b"kept", 0)


def test_kernel_drops_are_reported() -> None:
    with UdpReceiver("127.0.0.1", 0, receive_buffer_bytes=4_096) as small, UdpSender(*small.address) as to_small:
        for _ in range(200):
            to_small.send(bytes(500))
        kept = 0
        while small.receive(0.0) is not None:
            kept += 1
        assert 0 < kept < 200
        to_small.send(b"after")
        frame = small.receive(WAIT_S)
        assert frame is not None
        assert frame.dropped_total == 200 - kept


def test_multicast_on_a_named_interface() -> None:
    with UdpReceiver("127.0.0.1", 0, group="239.255.7.1", interface="lo") as joined:
        port = joined.address[1]
        assert joined.address[0] == "239.255.7.1"
        with UdpSender("239.255.7.1", port, interface="lo", bind_address="127.0.0.1") as to_group:
            to_group.send(b"to the group")
        with UdpSender("127.0.0.1", port) as unicast:
            unicast.send(b"not to the group")
        frame = joined.receive(WAIT_S)
        assert frame is not None
        assert frame.data == b"to the group"
        assert joined.receive(0.01) is None


def test_a_taken_port_is_named(receiver: UdpReceiver) -> None:
    with pytest.raises(NetError) as caught:
        UdpReceiver(*receiver.address)
    assert caught.value.code == "port-in-use"
    assert str(receiver.address[1]) in caught.value.found
    assert caught.value.hint


def test_an_unknown_interface_is_named_with_those_there_are() -> None:
    for attempt in (
        lambda: UdpReceiver("0.0.0.0", 0, group="239.255.7.1", interface="nosuch0"),
        lambda: UdpSender("239.255.7.1", 4840, interface="nosuch0"),
    ):
        with pytest.raises(NetError) as caught:
            attempt()
        assert caught.value.code == "no-such-interface"
        assert "lo" in caught.value.expected


def test_an_address_of_another_machine_cannot_be_bound() -> None:
    with pytest.raises(NetError) as caught:
        UdpReceiver("192.0.2.1", 0)
    assert caught.value.code == "no-such-address"


@pytest.mark.parametrize("address", ["localhost", "::1", "300.1.1.1", "", "239.255.7.1"])
def test_only_literal_unicast_addresses_bind(address: str) -> None:
    with pytest.raises(NetError) as caught:
        UdpReceiver(address, 0)
    assert caught.value.code == "bad-address"


def test_a_unicast_address_is_no_group() -> None:
    with pytest.raises(NetError) as caught:
        UdpReceiver("127.0.0.1", 0, group="127.0.0.2")
    assert caught.value.code == "bad-address"


def test_contradictory_arguments_are_refused() -> None:
    with pytest.raises(ValueError):
        UdpReceiver("127.0.0.1", 0, interface="lo")
    for size in (0, DATAGRAM_BYTES_MAX + 1):
        with pytest.raises(ValueError):
            UdpReceiver("127.0.0.1", 0, size_max=size)
    with pytest.raises(ValueError):
        UdpSender("127.0.0.1", 0)


def test_a_datagram_over_the_udp_limit_is_refused(sender: UdpSender, receiver: UdpReceiver) -> None:
    sender.send(bytes(DATAGRAM_BYTES_MAX))
    frame = receiver.receive(WAIT_S)
    assert frame is not None
    assert len(frame.data) == DATAGRAM_BYTES_MAX
    with pytest.raises(NetError) as caught:
        sender.send(bytes(DATAGRAM_BYTES_MAX + 1))
    assert caught.value.code == "datagram-too-large"


def test_nobody_listening_is_no_error_for_a_publisher() -> None:
    with UdpReceiver("127.0.0.1", 0) as gone:
        target = gone.address
    with UdpSender(*target) as to_nobody:
        for _ in range(3):
            to_nobody.send(b"x")


def test_a_closed_receiver_says_so(receiver: UdpReceiver) -> None:
    receiver.close()
    receiver.close()
    with pytest.raises(NetError) as caught:
        receiver.receive(0.0)
    assert caught.value.code == "closed"


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (errno.ENETUNREACH, "network-unreachable"),
        (errno.EAGAIN, "send-buffer-full"),
        (errno.ENOBUFS, "send-buffer-full"),
        (errno.EACCES, "not-permitted"),
        (errno.EIO, "socket-error"),
    ],
)
def test_system_errors_have_codes_and_say_what_was_attempted(number: int, code: str) -> None:
    error = from_os_error(OSError(number, "reason"), doing="sending to", endpoint="127.0.0.1:1")
    assert error.code == code
    assert error.found == "reason while sending to 127.0.0.1:1"
    assert error.hint


def test_a_group_joined_for_chosen_senders_takes_theirs_alone() -> None:
    with UdpReceiver("127.0.0.1", 0, group="239.255.7.2", interface="lo", sources=["127.0.0.2"]) as joined:
        target = joined.address
        for source in ("127.0.0.3", "127.0.0.2"):
            with UdpSender(*target, interface="lo", bind_address=source) as to_group:
                to_group.send(source.encode())
        frame = joined.receive(WAIT_S)
        assert frame is not None
        assert frame.data == b"127.0.0.2"
        assert joined.receive(0.0) is None
        assert joined.counts.foreign == 0  # the kernel itself kept the other one away


def test_a_group_for_no_sender_or_more_than_the_kernel_takes_is_refused() -> None:
    for sources in ([], [f"10.0.0.{n}" for n in range(1, 12)]):
        with pytest.raises(ValueError):
            UdpReceiver("127.0.0.1", 0, group="239.255.7.2", interface="lo", sources=sources)
