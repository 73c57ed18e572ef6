"""UADP over UDP and Ethernet with open62541 in the package ``o6``: it publishes to us and subscribes to us.

``o6`` is proprietary and therefore no dependency of anything. To run: install it into a virtual environment of its
own and name that interpreter in ``SITS_O6_PYTHON``.
"""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from fieldbus.net import EthernetReceiver, EthernetSender, VlanTag
from fieldbus.uadp import (
    BuiltinType,
    DataSetLayout,
    FieldEncoding,
    LayoutWriter,
    PublisherId,
    PublisherIdType,
    RawLayout,
    Variant,
    decode,
    encode,
)
from fieldbus.uadp.metadata import DataSetMetaData, FieldMetaData
from tests.support.wire import Wire

PYTHON = os.environ.get("SITS_O6_PYTHON", "")
PROGRAM = Path(__file__).parents[1] / "peers" / "o6_peer.py"
FIELDS = (("force", BuiltinType.DOUBLE), ("count", BuiltinType.INT32), ("on", BuiltinType.BOOLEAN))
DEADLINE_S = 60.0
PERIOD_S = 0.02
MAC, VLAN = "01:00:5e:4d:00:01", VlanTag(5, 3)
ENCODINGS = {"variant": FieldEncoding.VARIANT, "raw": FieldEncoding.RAW, "data-value": FieldEncoding.DATA_VALUE}

pytestmark = pytest.mark.skipif(
    not PYTHON,
    reason="SKIPPED: no o6 peer; pip install o6 into its own environment and set SITS_O6_PYTHON to its python",
)


def start(role: str, *options: str) -> subprocess.Popen[str]:
    command = [PYTHON, str(PROGRAM), role, *options]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


@contextmanager
def ready(process: subprocess.Popen[str]) -> Iterator[subprocess.Popen[str]]:
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if line.strip() == "ready":
                break
        else:
            pytest.fail(f"the peer ended before it was ready: {process.wait()}")
        yield process
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def peer(role: str, port: int, encoding: str) -> AbstractContextManager[subprocess.Popen[str]]:
    return ready(start(role, f"opc.udp://127.0.0.1:{port}/", encoding))


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_their_frames_decode_live_and_encode_to_the_same_bytes(encoding: str) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.bind(("127.0.0.1", 0))
        receiver.settimeout(DEADLINE_S)
        with peer("publish", receiver.getsockname()[1], encoding):
            for _ in range(3):
                data = receiver.recv(2_000)
                message = decode(data)
                assert encode(message) == data
                assert message.publisher == PublisherId(PublisherIdType.UINT16, 2234)
                (body,) = message.messages
                assert body.encoding is ENCODINGS[encoding]
                if encoding == "raw":
                    metadata = DataSetMetaData(fields=tuple(FieldMetaData(n, builtin_type=k) for n, k in FIELDS))
                    values = RawLayout(metadata).decode(body.raw or b"")
                else:
                    variants = [item if isinstance(item, Variant) else item.value for item in body.fields]
                    values = tuple(item.value for item in variants if item is not None)
                assert values == (22.25, 1002, True)


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_they_take_our_frames(encoding: str) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.bind(("127.0.0.1", 0))
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        with peer("subscribe", port, encoding) as process:
            take(process, encoding, lambda data: sender.sendto(data, ("127.0.0.1", port)))


def take(process: subprocess.Popen[str], encoding: str, send: Callable[[bytes], object]) -> None:
    """Send until the peer has said that it took the values."""
    layout = DataSetLayout(PublisherId(PublisherIdType.UINT16, 2234), 100, 62_541, FIELDS, ENCODINGS[encoding])
    writer, end = LayoutWriter(layout), time.monotonic() + DEADLINE_S
    assert process.stdout is not None
    os.set_blocking(process.stdout.fileno(), False)
    seen: list[object] = []
    while [-3.5, 77, False] not in seen:
        assert time.monotonic() < end, f"they took {seen}"
        send(writer.write(t_source_ns=time.time_ns(), values=(-3.5, 77, False)))
        select.select([process.stdout], [], [], PERIOD_S)
        seen += [json.loads(line) for line in process.stdout.readlines() if line.startswith("[")]


def test_frames_on_ethernet_with_a_vlan_tag_both_ways() -> None:
    url = f"opc.eth://{MAC.replace(':', '-')}:{VLAN.vid}.{VLAN.priority}"
    with Wire() as wire:
        with (
            ready(wire.theirs.run(lambda: start("publish", url, "variant", "v1"))),
            wire.ours.run(lambda: EthernetReceiver("v0", group=MAC, vlan_id=VLAN.vid)) as receiver,
        ):
            for _ in range(3):
                frame = receiver.receive(DEADLINE_S)
                assert frame is not None
                assert frame.vlan == VLAN
                message = decode(frame.data)
                assert encode(message) == frame.data
                values = [item.value for item in message.messages[0].fields if isinstance(item, Variant)]
                assert values == [22.25, 1002, True]
        with (
            ready(wire.theirs.run(lambda: start("subscribe", url, "variant", "v1"))) as process,
            wire.ours.run(lambda: EthernetSender("v0", MAC, vlans=(VLAN,))) as sender,
        ):
            take(process, "variant", sender.send)
