"""The gate's packet socket: a few clients, bounded queues, one worker, nothing that can block."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

from sitsedge.errors import SitsError
from sitsedge.gate.link import PACKET_BYTES_MAX, LinkError, Message, decode, encode

CONNECTIONS_MAX = 8  # the loop, its attestation, a tool or two
QUEUE_PACKETS_MAX = 64  # more than half a second at 100 Hz: a gate that far behind must refuse, not queue
DRAIN_S = 2.0  # at a stop: time for what has been received already
DRAIN_STEP_S = 0.01
NONCES_MAX = 4
NONCE_LIFE_S = 30.0
NONCE_BYTES = 32

log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class Connection:
    """One client; its outstanding nonces live and die with it."""

    socket: socket.socket
    nonces: dict[bytes, float] = field(default_factory=dict)
    closed: bool = False
    unsent: int = 0

    def send(self, message: Message) -> None:
        """Best effort: a client that does not read loses answers, never the gate's time."""
        if self.closed:
            return
        try:
            self.socket.send(encode(message), socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
        except OSError:
            self.unsent += 1

    def new_nonce(self) -> bytes:
        """A fresh nonce; the oldest goes when there are too many."""
        now = time.monotonic()
        self.nonces = {nonce: end for nonce, end in self.nonces.items() if end > now}
        while len(self.nonces) >= NONCES_MAX:
            del self.nonces[next(iter(self.nonces))]
        nonce = os.urandom(NONCE_BYTES)
        self.nonces[nonce] = now + NONCE_LIFE_S
        return nonce

    def take_nonce(self, nonce: bytes) -> bool:
        """Whether ``nonce`` was given to this client, is young enough and was not used before."""
        return self.nonces.pop(nonce, 0.0) > time.monotonic()


Handler = Callable[[Connection, Message, int], Awaitable[None]]


class PacketServer:
    """Accepts clients and hands their packets, in order of arrival, to one handler at a time.

    ``handler(connection, message, received_mono_ns)``.
    """

    def __init__(self, path: Path, handler: Handler) -> None:
        self._path = path
        self._handler = handler
        self._connections: set[Connection] = set()
        self._queue: deque[tuple[Connection, bytes, int]] = deque()
        self._ready = asyncio.Event()
        self._listener: socket.socket | None = None
        self._worker: asyncio.Task[None] | None = None
        self._paused = False
        self._busy = False
        self.overflow = 0
        self.malformed = 0

    def start(self) -> None:
        """Listen at the socket path (mode 0600). Raises :class:`SitsError` ``socket-in-use``."""
        _refuse_live(self._path)
        self._path.unlink(missing_ok=True)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        mask = os.umask(0o177)
        try:
            listener.bind(str(self._path))
        finally:
            os.umask(mask)
        listener.listen(CONNECTIONS_MAX)
        self._listener = listener
        asyncio.get_running_loop().add_reader(listener, self._accept)
        self._worker = asyncio.create_task(self._work(), name="gate-worker")

    def broadcast(self, message: Message) -> None:
        """Tell every client."""
        for connection in self._connections:
            connection.send(message)

    async def close(self) -> None:
        """Stop accepting, finish what is queued, close every client."""
        loop = asyncio.get_running_loop()
        if self._listener is not None:
            loop.remove_reader(self._listener)
            self._listener.close()
            self._path.unlink(missing_ok=True)
        deadline = time.monotonic() + DRAIN_S
        while (self._queue or self._busy) and self.worker_failure() is None and time.monotonic() < deadline:
            await asyncio.sleep(DRAIN_STEP_S)
        for connection in tuple(self._connections):
            self._drop(connection)
        if self._worker is not None:
            self._worker.cancel()
            await asyncio.gather(self._worker, return_exceptions=True)

    def worker_failure(self) -> BaseException | None:
        """Why the worker ended, if it did; a gate without its worker must not look alive."""
        if self._worker is None or not self._worker.done() or self._worker.cancelled():
            return None
        return self._worker.exception()

    def _accept(self) -> None:
        assert self._listener is not None
        try:
            client, _ = self._listener.accept()
        except BlockingIOError:
            return
        if len(self._connections) >= CONNECTIONS_MAX:
            client.close()
            return
        client.setblocking(False)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 * PACKET_BYTES_MAX)
        connection = Connection(client)
        self._connections.add(connection)
        if not self._paused:
            asyncio.get_running_loop().add_reader(client, self._read, connection)

    def _read(self, connection: Connection) -> None:
        try:
            data = connection.socket.recv(PACKET_BYTES_MAX)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        received = time.monotonic_ns()
        if not data:
            self._drop(connection)
            return
        self._queue.append((connection, data, received))
        self._ready.set()
        if len(self._queue) >= QUEUE_PACKETS_MAX:
            self._pause()

    def _pause(self) -> None:
        """Read nobody until the worker has caught up: the kernel's buffers fill and senders notice by themselves."""
        self.overflow += 1
        self._paused = True
        for connection in self._connections:
            asyncio.get_running_loop().remove_reader(connection.socket)

    def _resume(self) -> None:
        self._paused = False
        for connection in self._connections:
            asyncio.get_running_loop().add_reader(connection.socket, self._read, connection)

    def _drop(self, connection: Connection) -> None:
        if connection.closed:
            return
        connection.closed = True
        asyncio.get_running_loop().remove_reader(connection.socket)
        connection.socket.close()
        self._connections.discard(connection)

    async def _work(self) -> None:
        while True:
            while self._queue:
                connection, data, received = self._queue.popleft()
                try:
                    message = decode(data)
                except LinkError as error:
                    self.malformed += 1
                    connection.send(
                        {"t": "refused", "code": "malformed", "found": error.found[:200], "expected": error.expected}
                    )
                    continue
                self._busy = True  # a command half written to the PLC must not be cut off by a stop
                await self._handler(connection, message, received)
                self._busy = False
            if self._paused:
                self._resume()
            self._ready.clear()
            await self._ready.wait()


def _refuse_live(path: Path) -> None:
    """A second gate on the same state folder would fight over the PLC."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC) as probe:
        try:
            probe.connect(str(path))
        except OSError:
            return
    raise SitsError(
        "socket-in-use",
        found=f"another gate on {path.name}",
        expected="no gate running on this state folder",
        hint="stop the other deployment or choose another --state-dir",
    )
