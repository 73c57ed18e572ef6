"""One TCP connection to a controller: a request, its reply, a deadline. Shared by the vendor connectors.

After any fault (deadline, lost connection, bytes that are no telegram) the connection is closed and never used again:
a reply that comes late cannot be taken for the answer to the next request.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from fieldbus.errors import FieldbusError

READ_BYTES = 16_384
BUFFER_BYTES_MAX = 131_072


class LinkError(FieldbusError):
    """``connect-failed``, ``reply-timeout``, ``connection-lost``, ``unasked-data`` or ``not-connected``."""


class TcpLink:
    """A connection that is opened once. Not for several tasks at a time."""

    def __init__(self, host: str, port: int, *, length_of: Callable[[bytes], int | None], deadline_s: float) -> None:
        """``length_of``: whole length of the telegram at the front of a buffer, None if it needs more bytes."""
        self._host, self._port = host, port
        self._length_of = length_of
        self._deadline_s = deadline_s
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._buffer = bytearray()

    @property
    def open(self) -> bool:
        return self._streams is not None

    @property
    def peer(self) -> str:
        return f"{self._host}:{self._port}"

    async def connect(self) -> None:
        """Raises LinkError ``connect-failed`` within the deadline."""
        self.abort()
        self._buffer.clear()
        try:
            async with asyncio.timeout(self._deadline_s):
                self._streams = await asyncio.open_connection(self._host, self._port)
        except TimeoutError:
            raise self._error("connect-failed", f"no connection in {self._deadline_s} s") from None
        except OSError as error:
            raise self._error("connect-failed", error.strerror or str(error)) from None

    async def exchange(self, request: bytes) -> bytes:
        """Send ``request`` and wait for one telegram. Any failure closes the connection.

        Raises LinkError, or the error of ``length_of``; a cancelled call closes it too.
        """
        reply = None
        try:
            async with asyncio.timeout(self._deadline_s):
                reply = await self._exchange(request)
        except TimeoutError:
            raise self._error("reply-timeout", f"no reply in {self._deadline_s} s") from None
        except OSError as error:
            raise self._error("connection-lost", error.strerror or str(error)) from None
        finally:
            if reply is None:
                self.abort()
        return reply

    async def _exchange(self, request: bytes) -> bytes:
        if self._streams is None:
            raise self._error("not-connected", "no connection")
        reader, writer = self._streams
        self._buffer += await _arrived(reader)
        if self._buffer:  # a protocol without numbers of its own (SLMP 3E) would take them for the reply
            raise self._error("unasked-data", f"{len(self._buffer)} bytes before the request")
        writer.write(request)
        await writer.drain()
        while True:
            length = self._length_of(bytes(self._buffer[:64])) if self._buffer else None
            if length is not None and length > BUFFER_BYTES_MAX:
                raise self._error("unasked-data", f"a telegram of {length} bytes")
            if length is not None and length <= len(self._buffer):
                break
            data = await reader.read(READ_BYTES)
            if not data:
                raise self._error("connection-lost", "the peer closed the connection")
            self._buffer += data
        reply = bytes(self._buffer[:length])
        del self._buffer[:length]
        if self._buffer:
            raise self._error("unasked-data", f"{len(self._buffer)} bytes behind the reply")
        return reply

    async def send(self, telegram: bytes) -> None:
        """Send without a reply, for goodbyes; a lost connection is no error then."""
        if self._streams is not None:
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(self._deadline_s):
                    self._streams[1].write(telegram)
                    await self._streams[1].drain()

    def abort(self) -> None:
        """Close at once."""
        if self._streams is not None:
            self._streams[1].transport.abort()
            self._streams = None

    async def close(self) -> None:
        """Close and let the transport end."""
        if self._streams is None:
            return
        writer = self._streams[1]
        self._streams = None
        writer.close()
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(self._deadline_s):
                await writer.wait_closed()

    def _error(self, code: str, found: str) -> LinkError:
        return LinkError(code, found=f"{found} ({self.peer})", expected="a controller that answers")


async def _arrived(reader: asyncio.StreamReader) -> bytes:
    """What has come without being asked for; does not wait."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(0):
            return await reader.read(READ_BYTES)
    return b""
