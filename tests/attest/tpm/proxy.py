"""A wire between a device and a simulated TPM that can be cut, delayed or garbled at any one command."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Final

from attest.tpm.transport_unix import connect_unix

RETRY: Final = bytes.fromhex("80010000000a00000922")
_HEADER: Final = 10

Fault = Callable[["FaultProxy", bytes], bytes | None]
"""Gets the proxy and the command; gives the response to send, or None to cut the connection."""


class FaultProxy:
    """Serves ``path`` and passes every command to ``upstream``, except those ``faults`` has an entry for.

    ``faults``: number of the command since the last ``arm`` → what happens at it. ``commands`` counts since then.
    """

    def __init__(self, path: Path, upstream: Path) -> None:
        self._upstream_path = upstream
        self._server = socket.socket(socket.AF_UNIX)
        self._server.bind(str(path))
        self._server.listen()
        self.tcti = f"swtpm:path={path}"
        self.commands: list[int] = []
        self.released = threading.Event()
        self._faults: dict[int, Fault] = {}
        self._upstream: socket.socket | None = None
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> FaultProxy:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.released.set()
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self._thread.join(10)

    def arm(self, faults: dict[int, Fault]) -> None:
        """Count from zero again, with these faults. Only while no command is under way."""
        self.commands, self._faults = [], dict(faults)
        self.released.clear()

    def forward(self, command: bytes) -> bytes:
        """Have the TPM carry it out."""
        assert self._upstream is not None
        self._upstream.sendall(command)
        return _message(self._upstream)

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:
                return
            # A connection may end at any time: that is what this is for.
            with client, contextlib.suppress(OSError), connect_unix(self._upstream_path, timeout_s=20) as upstream:
                self._upstream = upstream
                self._relay(client)

    def _relay(self, client: socket.socket) -> None:
        while command := _message(client):
            number = len(self.commands)
            self.commands.append(int.from_bytes(command[6:10], "big"))
            fault = self._faults.pop(number, None)
            response = self.forward(command) if fault is None else fault(self, command)
            if response is None:
                return
            client.sendall(response)


def _message(connection: socket.socket) -> bytes:
    data = b""
    size = _HEADER
    while len(data) < size:
        chunk = connection.recv(size - len(data))
        if not chunk:
            return b""
        data += chunk
        if len(data) == _HEADER:
            size = int.from_bytes(data[2:6], "big")
    return data


def cut_before(_proxy: FaultProxy, _command: bytes) -> None:
    """The command never reaches the TPM."""


def cut_after(proxy: FaultProxy, command: bytes) -> None:
    """The TPM carries it out; nobody hears of it."""
    proxy.forward(command)


def busy(_proxy: FaultProxy, _command: bytes) -> bytes:
    """TPM_RC_RETRY, and not carried out."""
    return RETRY


def truncated(proxy: FaultProxy, command: bytes) -> bytes:
    """Carried out; half of the response's parameters are gone and its size says so."""
    response = proxy.forward(command)
    kept = response[: _HEADER + (len(response) - _HEADER) // 2]
    return kept[:2] + len(kept).to_bytes(4, "big") + kept[6:]


def garbled(proxy: FaultProxy, command: bytes) -> bytes:
    """Carried out; the header is whole, the rest is noise."""
    response = proxy.forward(command)
    noise = bytes((n * 157 + 31) % 256 for n in range(len(response) - _HEADER))
    return response[:_HEADER] + noise


def hung(proxy: FaultProxy, _command: bytes) -> None:
    """No answer until the test lets go; then the connection is over."""
    proxy.released.wait(60)
