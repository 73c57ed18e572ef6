"""One TCP connection: bounded buffers both ways, deadlines, and one chunk after another.

asyncua 2.1.0 buffers whatever comes, goes on after errors, and writes to a client that does not read without end.
"""

from __future__ import annotations

import asyncio
import struct
import time
from typing import TYPE_CHECKING, Any

from asyncua import ua
from asyncua.common.utils import Buffer
from asyncua.server.binary_server_asyncio import OPCUAProtocol
from asyncua.ua.ua_binary import header_from_binary, uatcp_to_binary
from cryptography.exceptions import InvalidSignature

from fieldbus.opcua.server.channel import GuardedProcessor, Refused
from fieldbus.opcua.server.rate import Rate
from fieldbus.opcua.server.shape import ShapeError

if TYPE_CHECKING:
    from fieldbus.opcua.server.listener import GuardedBinaryServer

HEADER_BYTES = 8
CHUNK_BYTES_LEAST = 28
"""A message of the smallest chunk: header, channel, token, sequence number and request number, type."""

HELLO_BYTES_MAX = 4_160
"""Six numbers and a URL of 4096 bytes (OPC 10000-6, 7.1.2.3)."""

WRITE_BUFFER_BYTES = 262_144
"""Unread answers after which nothing more is computed for a client."""

RATE_WAIT_S = 0.01
"""How long a client over its rate waits before it is looked at again."""

_FINAL_ONLY = frozenset({ua.MessageType.Hello, ua.MessageType.SecureOpen, ua.MessageType.SecureClose})
_BROKEN = (ua.UaError, ShapeError, InvalidSignature, ValueError, TypeError, AttributeError, LookupError, struct.error)
"""What asyncua's decryption and chunk handling raise on bytes that are none."""


class Transport:
    """What the processor sees of the connection."""

    __slots__ = ("_inner", "writable")

    def __init__(self, inner: asyncio.Transport) -> None:
        self._inner = inner
        self.writable = True

    def write(self, data: bytes) -> None:
        """Send, or queue up to the bound after which reading stops."""
        if not self._inner.is_closing():
            self._inner.write(data)

    def get_extra_info(self, name: str) -> Any:
        """As a transport's."""
        return self._inner.get_extra_info(name)


class GuardedProtocol(OPCUAProtocol):  # type: ignore[misc]
    """One connection of the guarded server."""

    def __init__(self, server: GuardedBinaryServer) -> None:
        super().__init__(server.iserver, server.policies, server.clients, server.closing_tasks, server.limits)
        self._server = server
        self._guard = server.iserver.guard
        self._received = bytearray()
        self._more = asyncio.Event()
        self._may_write = asyncio.Event()
        self._may_write.set()
        self._view: Transport | None = None
        self._now = server.iserver.pace.now
        self._idle_since = self._now()
        self._chunk_since: float | None = None
        self._message_since: float | None = None
        self._stalled_since: float | None = None
        self._closing_since: float | None = None
        self._requests = 0
        self._rate = Rate(per_s=self._guard.requests_per_s, burst=self._guard.requests_per_s)
        self._reading_paused = False
        self._ended = ""

    # --- asyncio's callbacks ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Admitted by the server, or closed at once."""
        assert isinstance(transport, asyncio.Transport)
        self.peer_name = transport.get_extra_info("peername")
        if not self._server.admit(self):
            self._server.note("too many connections", self.peer_name)
            transport.abort()
            return
        self.transport = transport
        transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES)
        self._view = Transport(transport)
        self.processor = GuardedProcessor(self.iserver, self._view, self.limits)
        self.processor.set_policies(self.policies)
        self.iserver.asyncio_transports.append(transport)
        self.clients.append(self)
        self._task = asyncio.create_task(self._serve())

    def connection_lost(self, ex: BaseException | None) -> None:
        """Ends session and task."""
        if self.transport is None:
            return
        if self.processor is not None:
            self.processor.end_reason = self._ended or (str(ex) if ex is not None else "its client hung up")
        super().connection_lost(ex)

    def data_received(self, data: bytes) -> None:
        """Keep at most one chunk and what came with it; then stop reading until it is worked on."""
        self._received += data
        if len(self._received) >= self._guard.chunk_bytes and self.transport is not None:
            self.transport.pause_reading()
            self._reading_paused = True
        self._more.set()

    def pause_writing(self) -> None:
        """The client does not read."""
        self._may_write.clear()
        self._stalled_since = self._now()
        if self._view is not None:
            self._view.writable = False

    def resume_writing(self) -> None:
        """It reads again."""
        self._may_write.set()
        self._stalled_since = None
        if self._view is not None:
            self._view.writable = True

    # --- chunk after chunk ---

    async def _serve(self) -> None:
        """Until the peer goes, breaks a rule, or is cut off. Whatever ends this ends the connection."""
        try:
            while True:
                await self._may_write.wait()
                message = self._next_chunk()
                if message is None:
                    self._more.clear()
                    await self._more.wait()
                    continue
                await self._in_turn()
                if not await self._one(message):
                    return
        except Refused as error:
            self._refuse(error.status, str(error))
        except _BROKEN as error:
            words = f"{type(error).__name__}: {error.found}" if isinstance(error, ShapeError) else type(error).__name__
            self._refuse(ua.StatusCodes.BadSecurityChecksFailed, words)
        finally:
            self.close()

    async def _in_turn(self) -> None:
        """Other connections come first; a client faster than allowed waits, one without a session is cut off."""
        await asyncio.sleep(0)  # what was received at once may be thousands of requests
        if self.pending():
            self._requests += 1
            if self._requests > self._guard.requests_before_activation:
                raise Refused(ua.StatusCodes.BadTcpServerTooBusy, "too many requests without a session")
            return
        self._requests = 0
        while not self._rate.take(time.monotonic()):
            await asyncio.sleep(RATE_WAIT_S)

    def _next_chunk(self) -> bytes | None:
        """The next whole chunk; raises Refused as soon as the first eight bytes are wrong."""
        data = self._received
        size = self._size() if len(data) >= HEADER_BYTES else HEADER_BYTES
        if len(data) < size:
            if not data:
                self._chunk_since = None
            elif self._chunk_since is None:
                self._chunk_since = self._now()
            self._resume()
            return None
        chunk = bytes(data[:size])
        del data[:size]
        self._chunk_since = None
        return chunk

    def _size(self) -> int:
        data = self._received
        kind, final, size = bytes(data[:3]), bytes(data[3:4]), int.from_bytes(data[4:8], "little")
        _check_header(kind, final, size, self._guard.chunk_bytes)
        return size

    def _resume(self) -> None:
        if self._reading_paused and self.transport is not None and not self.transport.is_closing():
            self._reading_paused = False
            self.transport.resume_reading()

    async def _one(self, chunk: bytes) -> bool:
        assert self.processor is not None
        body = Buffer(chunk)
        header = header_from_binary(body)
        keep = await self.processor.process(header, body)
        if not self.processor.connection.gathering():
            self._message_since = None
        elif self._message_since is None:
            self._message_since = self._now()
        return bool(keep)

    def _refuse(self, status: int, reason: str) -> None:
        self._ended = reason
        self._server.note(ua.StatusCode(status).name, self.peer_name, reason)
        if self._view is not None:
            message = ua.ErrorMessage(ua.StatusCode(status), reason)
            self._view.write(uatcp_to_binary(ua.MessageType.Error, message))

    def close(self) -> None:
        """Close after what is queued is sent; the server's watch cuts off who does not read it."""
        if self.transport is not None and not self.transport.is_closing():
            self._closing_since = self._now()
            self.transport.close()

    def abort(self, reason: str) -> None:
        """Close at once and forget what is queued."""
        self._ended = self._ended or reason
        self._server.note(reason, self.peer_name)
        if self.transport is not None:
            self.transport.abort()

    # --- watched by the server ---

    def pending(self) -> bool:
        """Whether no session is activated on this connection."""
        return self.processor is None or not self.processor.active()

    def overdue(self, lived: float, now: float) -> str | None:
        """Why the connection has to end, or None. ``lived``: by the server's pace, ``now``: by the clock.

        Only the term of the channel's keys goes by the clock.
        """
        limits, processor = self._guard, self.processor
        if not self.pending():
            self._idle_since = lived
        waits = (
            (self._chunk_since, limits.chunk_s, "a chunk that does not end"),
            (self._message_since, limits.message_s, "a message that does not end"),
            (self._stalled_since, limits.stalled_s, "answers are not read"),
            (self._closing_since, limits.stalled_s, "answers are not read"),
            (self._idle_since, limits.activation_s, "no active session"),
        )
        for since, longest, reason in waits:
            if since is not None and lived - since > longest:
                return reason
        if processor is not None and processor.connection.expired(now):
            return "the channel was not renewed"
        return None

    @property
    def address(self) -> str:
        """The peer's address without its port."""
        return str(self.peer_name[0]) if self.peer_name else ""

    def application(self) -> bytes | None:
        """The certificate of the secured channel."""
        return self.processor.certificate if self.processor is not None else None


def _check_header(kind: bytes, final: bytes, size: int, chunk_bytes: int) -> None:
    if kind not in (ua.MessageType.SecureMessage, *_FINAL_ONLY):
        raise Refused(ua.StatusCodes.BadTcpMessageTypeInvalid, f"message type {kind!r}")
    if final != ua.ChunkType.Single and (
        kind in _FINAL_ONLY or final not in (ua.ChunkType.Intermediate, ua.ChunkType.Abort)
    ):
        raise Refused(ua.StatusCodes.BadTcpMessageTypeInvalid, f"chunk type {final!r}")
    most = HELLO_BYTES_MAX if kind == ua.MessageType.Hello else chunk_bytes
    if not CHUNK_BYTES_LEAST <= size <= most:
        raise Refused(ua.StatusCodes.BadTcpMessageTooLarge, f"a chunk of {size} bytes")
