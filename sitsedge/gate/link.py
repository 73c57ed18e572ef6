"""The socket between a command source and the gate: one deterministic CBOR map per ``SOCK_SEQPACKET`` packet.

Nothing that arrives here is trusted by either side for what it says; the signatures inside are.
"""

from __future__ import annotations

import select
import socket
import time
from pathlib import Path
from typing import Any

from attest import cbor
from sitsedge.errors import SitsError

PACKET_BYTES_MAX = 256 * 1024  # evidence with a firmware event log is the largest message
SEND_BUFFER_BYTES = 1 << 20
Message = dict[str, Any]


class LinkError(SitsError):
    """The gate cannot be reached or speaks something else.

    Codes: ``gate-unreachable``, ``gate-closed``, ``gate-busy``, ``gate-message``.
    """


def encode(message: Message) -> bytes:
    """One packet; :class:`LinkError` when it would not fit."""
    data = cbor.dumps(message)
    if len(data) > PACKET_BYTES_MAX:
        raise LinkError("gate-message", found=f"{len(data)} bytes", expected=f"at most {PACKET_BYTES_MAX}")
    return data


def decode(data: bytes) -> Message:
    """The map in one packet; every key is text and ``t`` names the message. Raises :class:`LinkError`."""
    try:
        value = cbor.loads(data, max_bytes=PACKET_BYTES_MAX, max_depth=6, max_items=4096)
    except cbor.CborError as error:
        raise LinkError("gate-message", found=str(error), expected="one deterministic CBOR map") from error
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise LinkError("gate-message", found="no map with text keys", expected="a map with text keys")
    if not isinstance(value.get("t"), str):
        raise LinkError("gate-message", found="no message name", expected="the key 't'")
    return dict(value)  # type: ignore[arg-type]


class GateLink:
    """A client's end: blocking requests for attestation, non-blocking packets for the loop."""

    def __init__(self, path: Path, *, connect_timeout_s: float = 5.0) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
        self._socket.settimeout(connect_timeout_s)
        try:
            self._socket.connect(str(path))
        except OSError as error:
            self._socket.close()
            raise LinkError(
                "gate-unreachable",
                found=f"{path.name}: {error.strerror or error}",
                expected="a running sits-gate",
                hint="start the gate first; sitsctl deploy does",
            ) from error
        self._socket.setblocking(False)  # with a time-out set, Python's send() would wait in spite of MSG_DONTWAIT

    def fileno(self) -> int:
        return self._socket.fileno()

    def send(self, message: Message) -> None:
        """Send one packet without waiting; :class:`LinkError` ``gate-closed`` (gone) or ``gate-busy`` (not reading)."""
        try:
            self._socket.send(encode(message), socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
        except BlockingIOError as error:
            raise LinkError("gate-busy", found="a full socket", expected="a gate that keeps up") from error
        except OSError as error:
            found = error.strerror or type(error).__name__
            raise LinkError("gate-closed", found=found, expected="a gate that reads its socket") from error

    def receive(self, timeout_s: float | None) -> Message | None:
        """The next packet; ``None`` when nothing came in ``timeout_s`` (0 = only what is there)."""
        if timeout_s != 0 and not select.select([self._socket], [], [], timeout_s)[0]:
            return None
        try:
            data = self._socket.recv(PACKET_BYTES_MAX)
        except BlockingIOError:
            return None
        except OSError as error:
            found = error.strerror or type(error).__name__
            raise LinkError("gate-closed", found=found, expected="an open connection") from error
        if not data:
            raise LinkError("gate-closed", found="end of stream", expected="an open connection")
        return decode(data)

    def ask(self, message: Message, *, answers: tuple[str, ...], timeout_s: float = 5.0) -> Message:
        """Send and wait for one of ``answers``; other packets that arrive before it are passed over."""
        self.send(message)
        deadline = time.monotonic() + timeout_s
        while (left := deadline - time.monotonic()) > 0:
            answer = self.receive(left)
            if answer is not None and answer["t"] in answers:
                return answer
        raise LinkError("gate-message", found=f"no answer in {timeout_s} s", expected=" or ".join(answers))

    def close(self) -> None:
        self._socket.close()
