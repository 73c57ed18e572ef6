"""The guarded server process of these tests, and clients of it: asyncua's own, and raw bytes."""

from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from asyncua import Client, ua
from asyncua.common.connection import MessageChunk
from asyncua.crypto.security_policies import SecurityPolicyBasic256Sha256, SecurityPolicyNone
from asyncua.ua.ua_binary import struct_to_binary, uatcp_to_binary

from fieldbus.opcua import Identity
from fieldbus.opcua.server import Limits

ROOT = Path(__file__).resolve().parents[4]
PROGRAM = Path(__file__).with_name("guarded_server.py")
NAMESPACE = "urn:tests:shop"
PASSWORDS = {"olga": "operator-pass", "ed": "engineer-pass", "vera": "observer-pass"}
BIG_BYTES = 200_000
ATTACK_ERRORS = (ua.UaError, OSError, TimeoutError)

LIMITS = Limits(
    connections=24,
    pending=8,
    pending_per_address=100,
    connections_per_s=1_000,
    handshakes_per_s=1_000,
    activations_per_s=1_000,
    activation_s=30.0,
    chunk_s=1.0,
    message_s=1.0,
    stalled_s=1.0,
    trust_check_s=1.0,
    chunks=8,
    message_bytes=400_000,
    string_bytes=4_096,
    array_length=100,
    elements=2_000,
    sessions=12,
    sessions_per_application=6,
    subscriptions=12,
    subscriptions_per_session=2,
    items=12,
    items_per_subscription=8,
    queue_size=5,
    publishing_ms_min=50.0,
    publish_requests=4,
    nodes_per_read=50,
    nodes_per_write=5,
    methods_per_call=3,
    references_per_node=3,
    continuation_points=2,
)


@dataclass
class Shop:
    """The server process; ``rss`` is its resident memory."""

    folder: Path
    port: int
    process: subprocess.Popen[str] = field(init=False)

    def __post_init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(PROGRAM), str(self.port), str(self.folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            text=True,
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "ready\n"

    @property
    def url(self) -> str:
        return f"opc.tcp://127.0.0.1:{self.port}/"

    @property
    def rss(self) -> int:
        """Bytes of memory that the server holds."""
        pages = Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def renew(self, name: str) -> None:
        """Have the server use the identity ``name`` of its folder."""
        (self.folder / "current").write_text(name)
        self.process.send_signal(signal.SIGHUP)
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "renewed\n"

    def stop(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.kill()
        self.process.stdin.close()
        self.process.wait(timeout=20)
        self.process.stdout.close()

    async def client(
        self,
        who: Identity,
        user: str | None = None,
        password: str | None = None,
        *,
        policy: Any = None,
        mode: Any = None,
        server: str = "plc",
    ) -> Client:
        """An asyncua client with security set, not connected."""
        client = Client(self.url, timeout=30)
        client.application_uri = who.application_uri
        if user is not None:
            client.set_user(user)
            client.set_password(PASSWORDS.get(user, "") if password is None else password)
        await client.set_security(
            policy or SecurityPolicyBasic256Sha256,
            who.certificate_path,
            who.key_path,
            server_certificate=str(self.folder / f"{server}.der"),
            mode=mode or ua.MessageSecurityMode.SignAndEncrypt,
        )
        return client

    @asynccontextmanager
    async def session(self, who: Identity, user: str | None = None, **options: Any) -> AsyncIterator[Client]:
        """A connected client."""
        client = await self.client(who, user, **options)
        async with client:
            yield client

    def raw(self) -> Raw:
        """A socket."""
        return Raw(self.port)


def node_id(name: str) -> ua.NodeId:
    """Of a variable or, with ``()``, of a method. Index 2: the first namespace after the server's own."""
    return ua.NodeId(name, 2)


async def call(client: Client, *names: str) -> list[tuple[str, Any]]:
    """Names of statuses and outputs of one Call request."""
    requests = [ua.CallMethodRequest(ObjectId=node_id("Shop"), MethodId=node_id(f"{name}()")) for name in names]
    results = await client.uaclient.session.call(requests)
    return [(result.StatusCode.name, [item.Value for item in result.OutputArguments]) for result in results]


async def write(client: Client, name: str, value: Any, kind: Any = None, **changes: Any) -> str:
    """Name of the status of one write; ``changes`` are fields of the DataValue."""
    variant = value if isinstance(value, ua.Variant) else ua.Variant(value, kind)
    data = ua.DataValue(variant, **({"StatusCode": None} | changes))
    item = ua.WriteValue(NodeId=node_id(name), AttributeId=ua.AttributeIds.Value, Value=data)
    (status,) = await client.uaclient.session.write(ua.WriteParameters(NodesToWrite=[item]))
    return str(status.name)


class Raw:
    """A client that sends the bytes it is told to."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self._number = 0
        self._channel = 0

    def __enter__(self) -> Raw:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def answer(self) -> tuple[bytes, bytes]:
        """Type and body of the next message; empty where the server has hung up."""
        head = self._exactly(8)
        if not head:
            return b"", b""
        return head[:3], self._exactly(int.from_bytes(head[4:8], "little") - 8)

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            try:
                part = self.socket.recv(size - len(data))
            except ConnectionError:
                return b""
            if not part:
                return b""
            data += part
        return data

    def refused(self) -> str:
        """The status the server hangs up with, once everything before is read; empty without an Error message."""
        status = ""
        while True:
            kind, body = self.answer()
            if not kind:
                return status
            if kind == b"ERR":
                (code,) = struct.unpack_from("<I", body)
                status = ua.StatusCode(code).name

    def hello(self, **changes: Any) -> None:
        hello = ua.Hello(EndpointUrl="opc.tcp://127.0.0.1/", ReceiveBufferSize=65_535, SendBufferSize=65_535)
        for name, value in changes.items():
            setattr(hello, name, value)
        self.send(uatcp_to_binary(ua.MessageType.Hello, hello))

    def open(self, **changes: Any) -> None:
        """Hello and a channel without security."""
        self.hello()
        assert self.answer()[0] == b"ACK"
        self.request_open(**changes)
        kind, body = self.answer()
        assert kind == b"OPN"
        self._channel = int.from_bytes(body[:4], "little")

    def request_open(self, **changes: Any) -> None:
        request = ua.OpenSecureChannelRequest()
        request.Parameters.SecurityMode = ua.MessageSecurityMode.None_
        request.Parameters.RequestedLifetime = 3_600_000
        for name, value in changes.items():
            setattr(request.Parameters, name, value)
        self.chunk(struct_to_binary(request), kind=ua.MessageType.SecureOpen)

    def chunk(self, body: bytes, *, kind: Any = ua.MessageType.SecureMessage, final: Any = None) -> None:
        self._number += 1
        chunk = MessageChunk(SecurityPolicyNone().symmetric_cryptography, body, kind, final or ua.ChunkType.Single)
        if kind == ua.MessageType.SecureMessage:
            chunk.SecurityHeader.TokenId = 13  # asyncua's first
        chunk.MessageHeader.ChannelId = self._channel
        chunk.SequenceHeader.SequenceNumber = self._number
        chunk.SequenceHeader.RequestId = 1
        self.send(chunk.to_binary())
