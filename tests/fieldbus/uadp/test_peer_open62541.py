"""UADP with open62541, over UDP and Ethernet with VLAN tags, plain and secured: we read what it sends, it takes ours.

Its programs run in a network namespace of their own at the other end of a veth pair. Needs ``SITS_OPEN62541`` (see
tests/support/open62541.py) and the right to make namespaces.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace

import pytest

from fieldbus.net import EthernetReceiver, EthernetSender, FrameReceiver, ReceivedFrame, UdpReceiver, UdpSender, VlanTag
from fieldbus.uadp import (
    BuiltinType,
    DataSetLayout,
    DataSetMessage,
    FieldEncoding,
    GroupHeader,
    KeyRing,
    LayoutReader,
    LayoutWriter,
    MessageKind,
    NetworkMessage,
    PublisherId,
    PublisherIdType,
    Scalar,
    SecureReader,
    SecureWriter,
    SecurityError,
    SecurityMode,
    SecurityPolicy,
    UadpError,
    Variant,
    decode,
    encode,
    ns_to_ticks,
)
from tests.fieldbus.uadp.keys import TOKEN_ID, key_data, ring
from tests.support.open62541 import Peer, program, running
from tests.support.wire import Wire

FIELDS = (("force", BuiltinType.DOUBLE), ("count", BuiltinType.INT32), ("on", BuiltinType.BOOLEAN))
FIRST, THEN = (22.25, 1002, True), (-3.5, 77, False)
LAYOUT = DataSetLayout(PublisherId(PublisherIdType.UINT16, 2234), 100, 62_541, FIELDS)
ENCODINGS = {"variant": FieldEncoding.VARIANT, "raw": FieldEncoding.RAW, "data-value": FieldEncoding.DATA_VALUE}
GROUP, PORT = "239.77.0.1", 4840
MAC = "01:00:5e:4d:00:01"
VLAN = VlanTag(5, 3)
DEADLINE_S = 20.0
PERIOD_S = 0.02
A128, A256 = SecurityPolicy.AES128_CTR, SecurityPolicy.AES256_CTR
SIGN, ENCRYPT = SecurityMode.SIGN, SecurityMode.SIGN_AND_ENCRYPT
Security = tuple[SecurityPolicy, SecurityMode]
SECURED: dict[str, Security | None] = {
    "plain": None,
    "signed-128": (A128, SIGN),
    "signed-256": (A256, SIGN),
    "encrypted-128": (A128, ENCRYPT),
    "encrypted-256": (A256, ENCRYPT),
}


@pytest.fixture(scope="module")
def wire() -> Iterator[Wire]:
    program("publisher")
    with Wire() as pair:
        yield pair


def options(transport: str, security: Security | None, *more: str) -> list[str]:
    """What a peer is told: where, and with which key."""
    where = {"udp": f"url=opc.udp://{GROUP}:{PORT}/", "ethernet": f"url=opc.eth://{MAC.replace(':', '-')}:5.3"}
    found = [where[transport], "interface=v1", *more]
    if security is not None:
        policy, mode = security
        found += [f"policy={'aes128' if policy is A128 else 'aes256'}"]
        found += [f"security={'sign' if mode is SIGN else 'sign-encrypt'}"]
        found += [f"key={TOKEN_ID}:{key_data(policy).hex()}"]
    return found


@contextmanager
def theirs(wire: Wire, name: str, *told: str) -> Iterator[Peer]:
    manager: AbstractContextManager[Peer] = running(name, *told)
    peer = wire.theirs.run(manager.__enter__)
    with ExitStack() as stack:
        stack.callback(manager.__exit__, None, None, None)
        yield peer


def receiver(wire: Wire, transport: str) -> FrameReceiver:
    if transport == "udp":
        return wire.ours.run(lambda: UdpReceiver("0.0.0.0", PORT, group=GROUP, interface="v0"))
    return wire.ours.run(lambda: EthernetReceiver("v0", group=MAC, vlan_id=VLAN.vid))


def sender(wire: Wire, transport: str) -> UdpSender | EthernetSender:
    if transport == "udp":
        return wire.ours.run(lambda: UdpSender(GROUP, PORT, interface="v0"))
    return wire.ours.run(lambda: EthernetSender("v0", MAC, vlans=(VLAN,)))


def opener(security: Security | None) -> SecureReader | None:
    """open62541 1.5.7 does not count nonces: its number is always 1."""
    return None if security is None else SecureReader(ring(security[0]), security[1], counted_nonces=False)


def frames(inbox: FrameReceiver) -> Iterator[ReceivedFrame]:
    end = time.monotonic() + DEADLINE_S
    while time.monotonic() < end:
        frame = inbox.receive(1.0)
        if frame is not None:
            yield frame
    pytest.fail("no more frames")


COMBINED = [("udp", encoding, how) for encoding in ENCODINGS for how in SECURED]
COMBINED += [("ethernet", "variant", how) for how in SECURED] + [("ethernet", "raw", "plain")]


@pytest.mark.parametrize(("transport", "encoding", "how"), COMBINED)
def test_their_frames_decode_live(wire: Wire, transport: str, encoding: str, how: str) -> None:
    security = SECURED[how]
    layout = replace(LAYOUT, encoding=ENCODINGS[encoding])
    reader, seen = LayoutReader(layout, security=opener(security)), []
    told = options(transport, security, f"encoding={encoding}")
    with theirs(wire, "publisher", *told) as publisher, receiver(wire, transport) as inbox:
        for frame in frames(inbox):
            plain = frame.data if security is None else opened(security, frame.data)
            assert encode(decode(plain)) == plain
            assert frame.vlan == (VLAN if transport == "ethernet" else None)
            seen.append(reader.read(frame.data))
            if len(seen) == 3:
                publisher.tell("set 0 -3.5 77 false")
            if seen[-1].values == THEN:
                break
    assert seen[0].values == FIRST
    assert all(sample.good and sample.values in (FIRST, THEN) for sample in seen)
    assert [sample.sequence for sample in seen] == list(range(seen[0].sequence, seen[0].sequence + len(seen)))


def opened(security: Security, data: bytes) -> bytes:
    reader = opener(security)
    assert reader is not None
    return reader.open(data).data


FIXED = replace(LAYOUT, encoding=FieldEncoding.RAW, group_version=7, fixed=True)


@pytest.mark.parametrize("how", ["plain", "encrypted-256"])
def test_their_periodic_fixed_frames_without_payload_header(wire: Wire, how: str) -> None:
    """Network mask 0x3f: publisher, group, group version, numbers; the message has a time and values, nothing else."""
    security = SECURED[how]
    told = options("ethernet", security, "encoding=raw", "network=0x3f", "message=0x01", "version=7")
    reader, other = LayoutReader(FIXED, security=opener(security)), replace(FIXED, group_version=8)
    with theirs(wire, "publisher", *told) as publisher, receiver(wire, "ethernet") as inbox:
        for count, frame in enumerate(frames(inbox)):
            if count == 3:
                publisher.tell("set 0 -3.5 77 false")
            if reader.read(frame.data).values == THEN:
                break
    for layout, code in ((other, "group-version"), (replace(FIXED, fixed=False), "writer")):
        with pytest.raises(UadpError) as caught:
            LayoutReader(layout, security=opener(security)).read(frame.data)
        assert caught.value.code == code


def test_their_frames_without_times_take_that_of_their_reception(wire: Wire) -> None:
    security = (A128, ENCRYPT)
    told = options("udp", security, "network=0x47", "message=0x20")
    reader = LayoutReader(replace(LAYOUT, receive_time=True), security=opener(security))
    with theirs(wire, "publisher", *told), receiver(wire, "udp") as inbox:
        for frame in frames(inbox):
            with pytest.raises(UadpError, match="timestamp-missing"):
                LayoutReader(LAYOUT, security=opener(security)).read(frame.data)
            sample = reader.read(frame.data, t_rx_ns=frame.t_rx_ns)
            assert (sample.values, sample.t_source_ns) == (FIRST, frame.t_rx_ns)
            if sample.sequence >= 3:
                break


def test_they_take_our_periodic_fixed_frames(wire: Wire) -> None:
    told = options("udp", None, "encoding=raw", "network=0x0f", "message=0x25", "version=7")
    writer = LayoutWriter(FIXED)
    with theirs(wire, "subscriber", *told) as subscriber, sender(wire, "udp") as out:
        until(subscriber, [0, *THEN], lambda: out.send(writer.write(t_source_ns=time.time_ns(), values=THEN)))


def test_their_several_data_sets_in_one_message_are_told_apart(wire: Wire) -> None:
    readers = [LayoutReader(replace(LAYOUT, data_set_writer_id=62_541 + index)) for index in range(3)]
    with theirs(wire, "publisher", *options("udp", None, "sets=3")) as publisher, receiver(wire, "udp") as inbox:
        publisher.tell("set 1 -3.5 77 false")
        for frame in frames(inbox):
            values = [reader.read(frame.data).values for reader in readers]
            if values == [FIRST, THEN, FIRST]:
                break


def test_their_delta_frames_are_laid_onto_the_key_frame_and_empty_ones_are_refused_by_name(wire: Wire) -> None:
    """An unchanged delta of open62541 claims fields that all have index 0 and no value."""
    reader, seen, refused = LayoutReader(LAYOUT), [], set()
    with theirs(wire, "publisher", *options("udp", None, "keyframes=5")) as publisher, receiver(wire, "udp") as inbox:
        for count, frame in enumerate(frames(inbox)):
            try:
                seen.append(reader.read(frame.data).values)
            except UadpError as error:
                refused.add(error.code)
            if count == 12:
                publisher.tell("set 0 -3.5 77 false")
            if seen and seen[-1] == THEN:
                break
    assert set(seen) == {FIRST, THEN}
    assert refused <= {"delta-duplicate-index", "delta-without-key"}
    assert "delta-duplicate-index" in refused


def test_their_protected_frames_are_refused_with_another_key_changed_again_and_plain(wire: Wire) -> None:
    security = (A256, ENCRYPT)
    with theirs(wire, "publisher", *options("udp", security)), receiver(wire, "udp") as inbox:
        data = next(frames(inbox)).data
    other = KeyRing(A256)
    other.install(TOKEN_ID, [key_data(A256, 1)])
    later = KeyRing(A256)
    later.install(TOKEN_ID + 1, [key_data(A256)])
    changed = bytearray(data)
    changed[-40] ^= 1
    plain = encode(decode(opened(security, data)))
    for keys, sent, code in (
        (other, data, "signature"),
        (later, data, "token-unknown"),
        (ring(A256), bytes(changed), "signature"),
        (ring(A256), plain, "unsecured"),
    ):
        with pytest.raises(SecurityError) as caught:
            SecureReader(keys, ENCRYPT, counted_nonces=False).open(sent)
        assert caught.value.code == code
    reader = opener(security)
    assert reader is not None
    reader.open(data)
    with pytest.raises(SecurityError, match="nonce-replayed"):
        reader.open(data)


def test_their_change_of_key_is_followed(wire: Wire) -> None:
    security, tokens = (A128, ENCRYPT), []
    reader = SecureReader(ring(A128, tokens=2), ENCRYPT, counted_nonces=False)
    with theirs(wire, "publisher", *options("udp", security)) as publisher, receiver(wire, "udp") as inbox:
        for count, frame in enumerate(frames(inbox)):
            tokens.append(reader.open(frame.data).security.token_id)
            if count == 2:
                publisher.tell(f"key {TOKEN_ID + 1} {key_data(A128, 1).hex()}")
            if tokens[-1] == TOKEN_ID + 1:
                break
    assert set(tokens) == {TOKEN_ID, TOKEN_ID + 1}


def until(subscriber: Peer, wanted: object, send: Callable[[], None]) -> list[object]:
    """Send until the subscriber has said ``wanted``; everything it said."""
    end = time.monotonic() + DEADLINE_S
    said: list[object] = []
    while wanted not in said:
        assert time.monotonic() < end, f"they said {said}: {subscriber.errors}"
        send()
        time.sleep(PERIOD_S)
        said += [json.loads(line) for line in subscriber.lines()]
    return said


def sealer(security: Security | None, tokens: int = 1) -> SecureWriter | None:
    return None if security is None else SecureWriter(ring(security[0], tokens=tokens), security[1], TOKEN_ID)


@pytest.mark.parametrize(("transport", "encoding", "how"), COMBINED)
def test_they_take_our_frames(wire: Wire, transport: str, encoding: str, how: str) -> None:
    security = SECURED[how]
    writer = LayoutWriter(replace(LAYOUT, encoding=ENCODINGS[encoding]), security=sealer(security))
    told = options(transport, security, f"encoding={encoding}", "network=0x47", "message=0x25")
    with theirs(wire, "subscriber", *told) as subscriber, sender(wire, transport) as out:
        until(subscriber, [0, *THEN], lambda: out.send(writer.write(t_source_ns=time.time_ns(), values=THEN)))


def message(bodies: Sequence[DataSetMessage]) -> NetworkMessage:
    ids = tuple(62_541 + index for index in range(len(bodies)))
    return NetworkMessage(publisher=LAYOUT.publisher, group=GroupHeader(100), writer_ids=ids, messages=tuple(bodies))


def body(number: int, values: Sequence[Scalar], indices: tuple[int, ...] | None = None) -> DataSetMessage:
    kinds = [kind for _, kind in FIELDS]
    chosen = kinds if indices is None else [kinds[index] for index in indices]
    return DataSetMessage(
        kind=MessageKind.KEY_FRAME if indices is None else MessageKind.DELTA_FRAME,
        encoding=FieldEncoding.VARIANT,
        fields=tuple(Variant(kind, value) for kind, value in zip(chosen, values, strict=True)),
        indices=indices,
        sequence=number,
        timestamp=ns_to_ticks(time.time_ns()),
        status=0,
    )


@pytest.mark.parametrize("how", ["plain", "encrypted-256"])
def test_they_take_our_key_frames_of_several_data_sets_and_know_a_delta_frame(wire: Wire, how: str) -> None:
    """open62541 1.5.7 reads delta frames and throws them away, saying so."""
    security = SECURED[how]
    seal, count = sealer(security), iter(range(60_000))
    told = options("udp", security, "sets=2", "network=0x47", "message=0x25")
    with theirs(wire, "subscriber", *told) as subscriber, sender(wire, "udp") as out:

        def send(*bodies: DataSetMessage) -> None:
            data = encode(message(bodies))
            out.send(data if seal is None else seal.seal(data))

        until(subscriber, [1, 1.5, 9, True], lambda: send(body(n := next(count), THEN), body(n, (1.5, 9, True))))
        send(body(n := next(count), (5.25,), (0,)), body(n, (10,), (1,)))
        said = until(subscriber, [0, *FIRST], lambda: send(body(n := next(count), FIRST), body(n, (2.5, 9, True))))
        assert not [values for values in said if values in ([0, 5.25, 77, False], [1, 1.5, 10, True])]
        assert "Only keyframes are supported" in subscriber.errors


def test_they_follow_our_change_of_key(wire: Wire) -> None:
    seal = sealer((A128, ENCRYPT), tokens=2)
    assert seal is not None
    writer = LayoutWriter(LAYOUT, security=seal)
    told = options("udp", (A128, ENCRYPT), "network=0x47", "message=0x25")
    with theirs(wire, "subscriber", *told) as subscriber, sender(wire, "udp") as out:
        until(subscriber, [0, *THEN], lambda: out.send(writer.write(t_source_ns=time.time_ns(), values=THEN)))
        seal.rotate(TOKEN_ID + 1)
        out.send(writer.write(t_source_ns=time.time_ns(), values=FIRST))  # they have not got the new key
        said = subscriber.tell(f"key {TOKEN_ID + 1} {key_data(A128, 1).hex()}")
        assert said == []
        until(subscriber, [0, 4.5, 8, True], lambda: out.send(writer.write(t_source_ns=0x1, values=(4.5, 8, True))))
