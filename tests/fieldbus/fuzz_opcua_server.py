"""Fuzzer of what the OPC UA server does with bytes: ``python tests/fieldbus/fuzz_opcua_server.py COUNT [SEED]``.

Two things are held against asyncua 2.1.0. A request that ``shape`` lets through must decode there, or fail by value,
with not a byte left and within its allowances; and a connection fed with damaged conversations must answer, wait or
close, with no exception but its own, and hold no more than a chunk. Prints what it reached.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import resource
import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from asyncua import ua
from asyncua.common.connection import MessageChunk, TransportLimits
from asyncua.common.utils import Buffer
from asyncua.crypto.security_policies import SecurityPolicyNone
from asyncua.ua.ua_binary import nodeid_from_binary, struct_from_binary, struct_to_binary, uatcp_to_binary

from fieldbus.opcua import TrustList
from fieldbus.opcua.server import Limits, shape
from fieldbus.opcua.server.guard import GuardedInternalServer
from fieldbus.opcua.server.transport import GuardedProtocol

LIMITS = Limits(array_length=200, elements=2_000, string_bytes=500, handshakes_per_s=1_000_000)
EXTREMES = (0, 1, -1, -2, -6, 2, 255, 65_535, 2**31 - 1, -(2**31))
BY_VALUE = (ua.UaError, ValueError, TypeError, AttributeError)
"""What asyncua says of values: an enumeration's number, a type that does not go with another."""


def requests() -> list[bytes]:
    """One well-formed request of each service, with something in it."""
    text = ua.LocalizedText("t", "en")
    variants = [
        ua.Variant([1.0, 2.0], ua.VariantType.Double),
        ua.Variant(["a", None], ua.VariantType.String),
        ua.Variant([[1, 2], [3, 4]], ua.VariantType.Int32, Dimensions=[2, 2]),
        ua.Variant([ua.Variant(1), ua.Variant("x")], ua.VariantType.Variant),
        ua.Variant(ua.DataValue(ua.Variant(3)), ua.VariantType.DataValue),
        ua.Variant(ua.ExpandedNodeId("n", 3, ua.NodeIdType.String, "urn:x", 2), ua.VariantType.ExpandedNodeId),
        ua.Variant(ua.DiagnosticInfo(AdditionalInfo="d"), ua.VariantType.DiagnosticInfo),
        ua.Variant(ua.EUInformation(NamespaceUri="urn:u", DisplayName=text), ua.VariantType.ExtensionObject),
    ]
    node = ua.NodeId("name", 2)
    operand = ua.SimpleAttributeOperand(BrowsePath=[ua.QualifiedName("Message")], AttributeId=13)
    where = ua.ContentFilter(
        Elements=[ua.ContentFilterElement(FilterOperator=ua.FilterOperator.IsNull, FilterOperands=[operand])]
    )
    monitored = ua.MonitoredItemCreateRequest()
    monitored.RequestedParameters.Filter = ua.EventFilter(SelectClauses=[operand], WhereClause=where)
    values = [
        ua.WriteValue(NodeId=node, AttributeId=ua.AttributeIds.Value, Value=ua.DataValue(variant))
        for variant in variants
    ]
    token = ua.UserNameIdentityToken(PolicyId="p", UserName="u", Password=b"secret", EncryptionAlgorithm="a")
    filled: list[Any] = [
        ua.WriteRequest(Parameters=ua.WriteParameters(NodesToWrite=values)),
        ua.CallRequest(Parameters=ua.CallParameters([ua.CallMethodRequest(node, node, variants)])),
        ua.CreateMonitoredItemsRequest(Parameters=ua.CreateMonitoredItemsParameters(7, ItemsToCreate=[monitored])),
        ua.ActivateSessionRequest(Parameters=ua.ActivateSessionParameters(UserIdentityToken=token)),
    ]
    plain = [getattr(ua, kind.__name__.replace("Parameters", "Request"))() for kind in _kinds()]
    return [bytes(struct_to_binary(request)) for request in (*filled, *plain)]


def _kinds() -> list[Any]:
    return [kind for kind in shape.REQUESTS.values() if kind is not ua.Boolean]


def damage(random_: random.Random, data: bytes, others: list[bytes]) -> bytes:
    """Flip, cut, splice, or set four bytes to an extreme."""
    result = bytearray(data)
    for _ in range(random_.randint(0, 3)):
        kind, place = random_.randrange(5), random_.randrange(len(result) or 1)
        if kind == 0 and result:
            result[place] ^= 1 << random_.randrange(8)
        elif kind == 1:
            del result[place : place + random_.randint(1, 8)]
        elif kind == 2:
            result[place : place + 4] = random_.choice(EXTREMES).to_bytes(4, "little", signed=True)
        elif kind == 3:
            other = random_.choice(others)
            start = random_.randrange(len(other))
            result[place:place] = other[start : start + random_.randint(1, 40)]
        else:
            result += bytes(random_.randrange(256) for _ in range(random_.randint(1, 8)))
    return bytes(result)


def judge(data: bytes) -> str:
    """What becomes of one request; asserts that what passes decodes whole or fails by value."""
    try:
        number = shape.check_request(data, LIMITS)
    except shape.ShapeError:
        return "refused"
    body = Buffer(data)
    nodeid_from_binary(body)
    try:
        struct_from_binary(ua.RequestHeader, body)
        if number is None:
            return "not served"
        kind = shape.REQUESTS[number]
        if kind is ua.Boolean:
            return "decoded"
        struct_from_binary(kind, body)
    except ua.utils.NotEnoughData as error:
        raise AssertionError(f"asyncua wants more bytes than shape saw: {data.hex()}") from error
    except BY_VALUE:
        return "refused by value"
    assert len(body) == 0, data.hex()
    return "decoded"


class Wire(asyncio.Transport):
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written = 0
        self.closing = False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("127.0.0.1", 1)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += len(data)

    def is_closing(self) -> bool:
        return self.closing

    def close(self) -> None:
        self.closing = True

    abort = close

    def pause_reading(self) -> None:
        return

    resume_reading = pause_reading

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        return


def server(folder: Path) -> Any:
    """As much of a listener as a connection needs."""
    internal = GuardedInternalServer(trusted=TrustList(folder), writers=None, users=None, limits=LIMITS)
    limits = TransportLimits(max_chunk_count=LIMITS.chunks, max_message_size=LIMITS.message_bytes)
    return SimpleNamespace(
        iserver=internal,
        policies=[],
        clients=[],
        closing_tasks=[],
        limits=limits,
        admit=lambda _: True,
        note=lambda *_: None,
    )


def conversations() -> list[bytes]:
    """Hello, OpenSecureChannel and a request, in one stretch of bytes each."""
    hello = uatcp_to_binary(ua.MessageType.Hello, ua.Hello(EndpointUrl="opc.tcp://x/"))
    opening = ua.OpenSecureChannelRequest()
    opening.Parameters.SecurityMode = ua.MessageSecurityMode.None_
    beginning = hello + _chunk(struct_to_binary(opening), ua.MessageType.SecureOpen, 1, 0)
    # The number of the channel a fresh server gives is 6; other numbers are part of the damage.
    return [beginning + _chunk(request, ua.MessageType.SecureMessage, 2, 6) for request in requests()]


def _chunk(body: bytes, kind: Any, number: int, channel: int) -> bytes:
    chunk = MessageChunk(SecurityPolicyNone().symmetric_cryptography, body, kind, ua.ChunkType.Single)
    if kind == ua.MessageType.SecureMessage:
        chunk.SecurityHeader.TokenId = 13
    chunk.MessageHeader.ChannelId = channel
    chunk.SequenceHeader.SequenceNumber = chunk.SequenceHeader.RequestId = number
    return bytes(chunk.to_binary())


async def converse(listener: Any, data: bytes, random_: random.Random) -> str:
    """Feed one connection in pieces; what became of it."""
    listener.iserver._channel_id_counter = 5
    wire, protocol = Wire(), GuardedProtocol(listener)
    protocol.connection_made(wire)
    place = 0
    while place < len(data) and not wire.closing:
        size = random_.choice((1, 7, 64, 4_096))
        protocol.data_received(data[place : place + size])
        place += size
        await asyncio.sleep(0)
    for _ in range(12):
        await asyncio.sleep(0)
    task = protocol._task
    assert task is not None
    if task.done():
        assert task.exception() is None, data.hex()
        assert wire.closing
    assert len(protocol._received) <= LIMITS.chunk_bytes + 4_096
    outcome = "closed" if wire.closing else "answered" if wire.written else "waiting"
    wire.closing = True
    protocol.connection_lost(None)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    await asyncio.gather(*listener.closing_tasks, return_exceptions=True)
    listener.closing_tasks.clear()
    return outcome


async def fuzz(count: int, *, seed: int, folder: Path) -> Counter[str]:
    """``count`` damaged requests and a tenth as many conversations; how often what was reached."""
    random_, reached = random.Random(seed), Counter[str]()
    plain, spoken, listener = requests(), conversations(), server(folder)
    for number in range(count):
        reached[judge(damage(random_, random_.choice(plain), plain))] += 1
        if number % 10 == 0:
            reached[await converse(listener, damage(random_, random_.choice(spoken), spoken), random_)] += 1
    return reached


def main() -> None:
    logging.disable(logging.CRITICAL)
    count, seed = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    reached = asyncio.run(fuzz(count, seed=seed, folder=Path(__file__).parent))
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    sys.stdout.write(f"{dict(reached)}; memory {before} to {after} KiB\n")


if __name__ == "__main__":
    main()
