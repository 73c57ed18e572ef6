"""Ethernet receiver and sender over a pair of virtual ports in a network namespace."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from fieldbus.net import EthernetReceiver, EthernetSender, NetError, ReceivedFrame, UdpReceiver, VlanTag
from fieldbus.net.frames import tag_of_tci
from tests.support.namespaces import Namespace

WAIT_S = 5.0
GROUP = "01:00:5e:00:00:01"
LONG = bytes(range(1, 101))


@pytest.fixture(scope="module")
def network() -> Iterator[Namespace]:
    with Namespace() as namespace:
        namespace.veth()
        yield namespace


@dataclass
class Link:
    """Opens receivers on ``v1`` and raw senders on ``v0``; closes what it opened."""

    network: Namespace
    opened: list[EthernetReceiver | EthernetSender | socket.socket]

    def receiver(self, **options: object) -> EthernetReceiver:
        made = self.network.run(lambda: EthernetReceiver("v1", **options))  # type: ignore[arg-type]
        self.opened.append(made)
        return made

    def sender(self, target: str = GROUP, vlans: tuple[VlanTag, ...] = ()) -> EthernetSender:
        made = self.network.run(lambda: EthernetSender("v0", target, vlans=vlans))
        self.opened.append(made)
        return made

    def raw(self) -> socket.socket:
        def work() -> socket.socket:
            sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
            sock.bind(("v0", 0))
            return sock

        made = self.network.run(work)
        self.opened.append(made)
        return made


@pytest.fixture
def link(network: Namespace) -> Iterator[Link]:
    made = Link(network, [])
    yield made
    for item in made.opened:
        item.close()


def taken(receiver: EthernetReceiver) -> ReceivedFrame:
    frame = receiver.receive(WAIT_S)
    assert frame is not None
    return frame


def test_a_frame_arrives_whole_with_a_kernel_stamp_and_its_sender(link: Link) -> None:
    receiver, sender = link.receiver(group=GROUP), link.sender()
    before_ns = time.time_ns()
    sender.send(LONG)
    frame = taken(receiver)
    assert (frame.data, frame.stamp, frame.vlans, frame.dropped_total) == (LONG, "kernel", (), 0)
    assert before_ns <= frame.t_rx_ns <= time.time_ns()
    assert len(frame.source[0]) == 17
    assert frame.padding_max == 0


@pytest.mark.parametrize("priority", [0, 3, 7])
def test_vlan_id_and_priority_are_carried(link: Link, priority: int) -> None:
    receiver = link.receiver(group=GROUP)
    tag = VlanTag(5, priority, drop_eligible=priority == 3)
    link.sender(vlans=(tag,)).send(LONG)
    frame = taken(receiver)
    assert (frame.data, frame.vlans, frame.vlan) == (LONG, (tag,), tag)


def test_a_tag_within_a_tag_is_carried_and_the_inner_one_counts(link: Link) -> None:
    receiver = link.receiver(group=GROUP, vlan_id=7)
    outer, inner = VlanTag(100, 2), VlanTag(7, 6)
    link.sender(vlans=(outer, inner)).send(LONG)
    frame = taken(receiver)
    assert (frame.data, frame.vlans, frame.vlan) == (LONG, (outer, inner), inner)


def test_another_vlan_or_none_is_foreign(link: Link) -> None:
    receiver = link.receiver(group=GROUP, vlan_id=5)
    link.sender().send(LONG)
    link.sender(vlans=(VlanTag(6, 0),)).send(LONG)
    link.sender(vlans=(VlanTag(5, 1),)).send(b"mine" + LONG)
    assert taken(receiver).data == b"mine" + LONG
    assert receiver.counts.foreign == 2


def test_another_sender_or_group_is_foreign(link: Link) -> None:
    receiver = link.receiver(group=GROUP)
    link.sender("01:00:5e:00:00:02").send(LONG)
    link.sender().send(LONG)
    sender = taken(receiver).source[0]
    assert receiver.counts.foreign == 1
    known, unknown = (link.receiver(group=GROUP, sources=frozenset({mac})) for mac in (sender, "02:00:00:00:00:99"))
    link.sender().send(LONG)
    assert taken(known).data == LONG
    assert unknown.receive(0.0) is None
    assert unknown.counts.foreign == 1


def test_without_a_group_broadcast_is_taken_and_multicast_and_others_unicast_are_not(link: Link) -> None:
    receiver = link.receiver()
    for target in (GROUP, "02:00:00:00:00:98", "ff:ff:ff:ff:ff:ff"):
        link.sender(target).send(target.encode() + LONG)
    assert taken(receiver).data == b"ff:ff:ff:ff:ff:ff" + LONG
    assert receiver.counts.foreign == 2


def test_other_ethertypes_never_reach_the_process(link: Link) -> None:
    receiver, raw = link.receiver(group=GROUP), link.raw()
    head = bytes.fromhex("01005e000001020000000001")
    tags = (b"", bytes.fromhex("81000005"), bytes.fromhex("88a8000581000006"))
    for tag in tags:
        raw.send(head + tag + b"\x08\x00" + LONG)
    link.sender().send(LONG)
    assert taken(receiver).data == LONG
    assert receiver.counts.foreign == receiver.counts.malformed == 0
    assert receiver.statistics() == (1, 0)


def test_the_kernels_filter_looks_two_tags_deep(link: Link) -> None:
    receiver, raw = link.receiver(group=GROUP), link.raw()
    head = bytes.fromhex("01005e000001020000000001")
    raw.send(head + bytes.fromhex("88a800018100000281000003b62c") + LONG)
    raw.send(head + bytes.fromhex("8100000181000002b62c"))
    frame = taken(receiver)
    assert frame.data == b""
    assert receiver.statistics() == (1, 0)  # three tags never reached the process


def test_padding_of_a_short_frame_is_marked(link: Link) -> None:
    receiver = link.receiver(group=GROUP)
    link.sender().send(b"short\0")
    link.sender(vlans=(VlanTag(5, 0),)).send(b"short\0")
    for tags in (0, 4):
        frame = taken(receiver)
        assert frame.data.rstrip(b"\0") == b"short"
        assert len(frame.data) + 14 + tags == 60
        assert frame.padding_max == len(frame.data) - len(b"short")
    link.sender().send(LONG + bytes(5))
    assert taken(receiver).padding_max == 0


def test_latest_value_wins(link: Link) -> None:
    receiver, sender = link.receiver(group=GROUP), link.sender()
    for number in range(5):
        sender.send(bytes([number]) + LONG)
    frame, superseded = receiver.receive_latest(WAIT_S)
    assert frame is not None
    assert (frame.data[0], superseded, receiver.counts.superseded) == (4, 4, 4)


def test_drops_of_the_kernel_add_up(link: Link) -> None:
    receiver, sender = link.receiver(group=GROUP, receive_buffer_bytes=4_096), link.sender()
    for _ in range(200):
        sender.send(bytes(500))
    kept = 0
    while receiver.receive(0.0) is not None:
        kept += 1
    assert 0 < kept < 200
    assert receiver.statistics() == (200, 200 - kept)
    sender.send(LONG)
    assert taken(receiver).dropped_total == 200 - kept
    assert receiver.statistics() == (201, 200 - kept)


def test_a_frame_over_the_limit_is_an_error_and_never_a_frame(link: Link) -> None:
    receiver, sender = link.receiver(group=GROUP, size_max=64), link.sender()
    sender.send(bytes(200))
    with pytest.raises(NetError) as caught:
        receiver.receive(WAIT_S)
    assert caught.value.code == "datagram-truncated"
    with pytest.raises(NetError) as caught:
        sender.send(bytes(9_000))
    assert caught.value.code == "datagram-too-large"


def test_what_this_machine_sends_on_the_port_is_not_received_on_it(link: Link, network: Namespace) -> None:
    receiver = link.receiver(group=GROUP)
    with network.run(lambda: EthernetSender("v1", GROUP)) as own:
        own.send(LONG)
    assert receiver.receive(0.0) is None


def test_a_link_that_is_down_and_an_unknown_one_are_named(network: Namespace) -> None:
    network.veth("w0", "w1")
    network.ip("link", "set", "w0", "down")
    with network.run(lambda: EthernetSender("w0", GROUP)) as sender, pytest.raises(NetError) as caught:
        sender.send(LONG)
    assert caught.value.code == "network-down"
    with pytest.raises(NetError) as caught:
        network.run(lambda: EthernetReceiver("nosuch0"))
    assert caught.value.code == "no-such-interface"


def test_without_cap_net_raw_the_missing_right_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(socket, "socket", refuse)
    for attempt in (lambda: EthernetReceiver("lo"), lambda: EthernetSender("lo", GROUP)):
        with pytest.raises(NetError) as caught:
            attempt()
        assert (caught.value.code, caught.value.expected) == ("not-permitted", "CAP_NET_RAW")


@pytest.mark.parametrize("text", ["", "01:00:5e:00:00", "01:00:5e:00:00:0g", "01-00-5e-00-00-01", "02:00:00:00:00:01"])
def test_only_a_multicast_mac_address_is_a_group(text: str) -> None:
    with pytest.raises(NetError) as caught:
        EthernetReceiver("lo", group=text)
    assert caught.value.code == "bad-address"


def test_contradictory_arguments_are_refused() -> None:
    for options in ({"size_max": 0}, {"size_max": 9_001}, {"vlan_id": 4096}):
        with pytest.raises(ValueError):
            EthernetReceiver("lo", **options)  # type: ignore[arg-type]
    with pytest.raises(ValueError):
        EthernetSender("lo", GROUP, vlans=(VlanTag(1, 0),) * 3)
    for vid, priority in ((4096, 0), (-1, 0), (0, 8)):
        with pytest.raises(ValueError):
            VlanTag(vid, priority)


def test_a_tag_goes_both_ways() -> None:
    for tci in range(0, 0x1_0000, 7):
        assert tag_of_tci(tci).tci == tci


def test_the_filter_is_as_many_instructions_as_its_jumps_say() -> None:
    from fieldbus.net.ethernet import ETHERTYPE_UADP, ethertype_filter

    program = ethertype_filter(ETHERTYPE_UADP)
    for at, (_, on_true, on_false, _) in enumerate(program):
        assert at + 1 + max(on_true, on_false) < len(program) or at == len(program) - 1
    assert struct.calcsize("@HBBI") == 8


def test_a_group_for_chosen_senders_needs_an_address_on_the_interface(network: Namespace) -> None:
    with pytest.raises(NetError) as caught:
        network.run(lambda: UdpReceiver("127.0.0.1", 0, group="239.255.7.2", interface="v0", sources=["10.0.0.1"]))
    assert (caught.value.code, caught.value.found) == ("no-such-address", "v0 without an IPv4 address")
