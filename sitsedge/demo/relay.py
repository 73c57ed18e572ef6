"""An attacker in the middle: between loop and gate, and between plant and loop. Holds no key.

Both relays pass everything on until they are told otherwise.
"""

from __future__ import annotations

import heapq
import select
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

from sitsedge.gate.link import PACKET_BYTES_MAX, Message, decode

POLL_S = 0.05
COMMANDS_KEPT = 512
ANSWERS_KEPT = 4096

#: Takes a command packet on its way to the gate; returns the packets to send in its place.
CommandHook = Callable[[bytes], list[bytes]]


class GateRelay:
    """Listens where the loop expects the gate and forwards packets to the real one."""

    def __init__(self, listen: Path, gate: Path) -> None:
        self._gate = gate
        self._listen = listen
        listen.unlink(missing_ok=True)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.bind(str(listen))
        self._listener.listen(8)
        self._lock = threading.Condition()
        self._stop = False
        self._pairs: dict[socket.socket, socket.socket] = {}
        self._upstream: set[socket.socket] = set()
        self.hook: CommandHook | None = None
        self.commands: list[bytes] = []
        self.answers: list[Message] = []
        self._thread = threading.Thread(target=self._main, name="gate-relay", daemon=True)
        self._thread.start()

    def wait_answer(self, wanted: Callable[[Message], bool], *, timeout_s: float) -> Message | None:
        """The first answer of the gate, past or future, that is ``wanted``."""
        deadline = time.monotonic() + timeout_s
        with self._lock:
            while True:
                for answer in self.answers:
                    if wanted(answer):
                        return answer
                left = deadline - time.monotonic()
                if left <= 0:
                    return None
                self._lock.wait(left)

    def forget(self) -> None:
        """Drop everything seen so far."""
        with self._lock:
            self.commands.clear()
            self.answers.clear()

    def close(self) -> None:
        self._stop = True
        self._thread.join(5.0)
        for pair in tuple(self._pairs):
            pair.close()
        self._listener.close()
        self._listen.unlink(missing_ok=True)

    def _main(self) -> None:
        while not self._stop:
            ready, _, _ = select.select([self._listener, *self._pairs], [], [], POLL_S)
            for sock in ready:
                if sock is self._listener:
                    self._accept()
                elif sock in self._pairs:
                    self._forward(sock)

    def _accept(self) -> None:
        client, _ = self._listener.accept()
        upstream = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            upstream.connect(str(self._gate))
        except OSError:
            client.close()
            upstream.close()
            return
        self._pairs[client], self._pairs[upstream] = upstream, client
        self._upstream.add(upstream)

    def _forward(self, sock: socket.socket) -> None:
        other = self._pairs[sock]
        try:
            data = sock.recv(PACKET_BYTES_MAX)
            if not data:
                raise ConnectionResetError
            for packet in self._seen(data, from_gate=sock in self._upstream):
                other.send(packet, socket.MSG_NOSIGNAL)
        except OSError:
            for end in (sock, other):
                self._pairs.pop(end, None)
                self._upstream.discard(end)
                end.close()

    def _seen(self, data: bytes, *, from_gate: bool) -> list[bytes]:
        message = decode(data)
        with self._lock:
            if from_gate:
                self.answers.append(message)
                del self.answers[:-ANSWERS_KEPT]
                self._lock.notify_all()
                return [data]
            if message["t"] != "command":
                return [data]
            self.commands.append(message["command"])
            del self.commands[:-COMMANDS_KEPT]
            hook = self.hook
        return [data] if hook is None else hook(data)


class FrameRelay:
    """Receives the plant's datagrams and passes them on, late when told so."""

    def __init__(self, *, listen: tuple[str, int], target: tuple[str, int]) -> None:
        self.delay_s = 0.0
        self._target = target
        self._stop = False
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(listen)
        self._out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._held: list[tuple[float, int, bytes]] = []
        self._thread = threading.Thread(target=self._main, name="frame-relay", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._stop = True
        self._thread.join(5.0)
        self._socket.close()
        self._out.close()

    def _main(self) -> None:
        count = 0
        while not self._stop:
            wait = POLL_S if not self._held else max(0.0, self._held[0][0] - time.monotonic())
            ready, _, _ = select.select([self._socket], [], [], min(wait, POLL_S))
            if ready:
                data = self._socket.recv(65_536)
                if self.delay_s == 0.0 and not self._held:
                    self._out.sendto(data, self._target)
                else:
                    count += 1
                    heapq.heappush(self._held, (time.monotonic() + self.delay_s, count, data))
            while self._held and self._held[0][0] <= time.monotonic():
                self._out.sendto(heapq.heappop(self._held)[2], self._target)
