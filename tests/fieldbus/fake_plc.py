"""A controller in memory behind a real socket that can misbehave in every named way."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

from fieldbus.capture import Protocol
from fieldbus.cip import encapsulation
from fieldbus.s7 import cotp
from fieldbus.slmp import frame

LENGTH_OF: dict[Protocol, Callable[[bytes], int | None]] = {
    Protocol.S7: cotp.telegram_length,
    Protocol.CIP: encapsulation.telegram_length,
    Protocol.SLMP: frame.telegram_length,
}


class FakePlc:
    """Answers telegrams with ``answer``; ``misbehave`` names what it does instead: ``silent`` (takes the request and
    says nothing), ``late`` (answers only once the next request is there), ``close``, ``garbage``, ``twice``, ``again``
    (once more, a moment later)."""

    def __init__(self, protocol: Protocol, answer: Callable[[bytes], bytes | None]) -> None:
        self._length_of = LENGTH_OF[protocol]
        self._answer = answer
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self.misbehave = ""
        self.port = 0
        self.connections = 0
        self.requests = 0

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """The plug is pulled: nobody listens any more and every connection is gone."""
        if self._server is not None:
            self._server.close()
            for writer in list(self._writers):
                writer.transport.abort()
            await self._server.wait_closed()
            self._server = None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.add(writer)
        buffer, held = bytearray(), b""
        try:
            while data := await reader.read(4_096):
                buffer += data
                while (length := self._length_of(bytes(buffer))) is not None and length <= len(buffer):
                    request = bytes(buffer[:length])
                    del buffer[:length]
                    self.requests += 1
                    reply = self._answer(request) or b""
                    if self.misbehave == "silent":
                        continue
                    if self.misbehave == "close":
                        return
                    if self.misbehave == "garbage":
                        reply = b"\xff" * 40
                    elif self.misbehave == "twice":
                        reply += reply
                    elif self.misbehave == "late":
                        reply, held = held, reply
                    writer.write(reply)
                    await writer.drain()
                    if self.misbehave == "again":
                        await asyncio.sleep(0)
                        writer.write(reply)
        except OSError:
            return
        finally:
            self._writers.discard(writer)
            writer.close()


@contextlib.asynccontextmanager
async def running(protocol: Protocol, answer: Callable[[bytes], bytes | None]) -> AsyncIterator[FakePlc]:
    plc = FakePlc(protocol, answer)
    await plc.start()
    try:
        yield plc
    finally:
        await plc.stop()
