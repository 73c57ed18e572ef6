"""The bytes between ESAPI and the TPM, with a deadline on every response.

The stock transports block without a limit when a TPM hangs. This one speaks the plain command/response stream
itself, either to swtpm's Unix socket or to the kernel's resource manager (``/dev/tpmrm0``), waits in ``poll``
and remembers why it failed, because ESAPI shows only a number.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import time
from pathlib import Path
from typing import Final

from tpm2_pytss import TSS2_Exception
from tpm2_pytss.constants import TSS2_RC
from tpm2_pytss.TCTI import PyTCTI

from attest.tpm.errors import TpmDeadline, TpmError, TpmLost, TpmMissing
from attest.tpm.transport_unix import connect_unix

_HEADER_BYTES: Final = 10  # tag, size, response code (Part 1 §18.2)
_MAX_RESPONSE_BYTES: Final = 4096  # TPM2_MAX_RESPONSE_SIZE of the PC Client profile
_MAGIC: Final = b"SITSTCTI"


class DeadlineTcti(PyTCTI):  # type: ignore[misc]  # the library ships no types
    """A TCTI over ``swtpm:path=FILE`` or ``device:FILE``; ``fault`` holds the typed reason of a failure."""

    def __init__(self, tcti: str, *, deadline_s: float) -> None:
        super().__init__(max_size=_MAX_RESPONSE_BYTES, magic=_MAGIC)
        self.deadline_s = deadline_s
        self.fault: TpmError | None = None
        self._name = tcti
        self._socket: socket.socket | None = None
        self._fd = self._open(tcti)
        self._poll = select.poll()
        self._poll.register(self._fd, select.POLLIN)
        self._until = 0.0

    def _open(self, tcti: str) -> int:
        scheme, _, rest = tcti.partition(":")
        try:
            if scheme == "swtpm" and rest.startswith("path="):
                self._socket = connect_unix(Path(rest.removeprefix("path=")), timeout_s=self.deadline_s)
                self._socket.setblocking(False)
                return self._socket.fileno()
            if scheme == "device" and rest:
                return os.open(rest, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            raise TpmMissing(
                "tpm-unreachable",
                found=f"{tcti}: {error.strerror or error}",
                expected="a TPM that accepts a connection",
                hint="is it running, and may this user open it (group tss)?",
            ) from error
        raise TpmMissing("tpm-tcti", found=repr(tcti), expected="swtpm:path=FILE or device:FILE")

    def do_transmit(self, command: bytes) -> None:
        """Send one command; the deadline of its response starts here."""
        self._until = time.monotonic() + self.deadline_s
        try:
            sent = os.write(self._fd, command)
        except BlockingIOError as error:
            self._fail(self._late(), error)
        except OSError as error:
            self._fail(self._broken(str(error.strerror)), error)
        else:
            if sent != len(command):
                self._fail(self._broken(f"{sent} of {len(command)} bytes taken"), None)

    def do_receive(self, _timeout: int) -> bytes:
        """One whole response. ESAPI's synchronous calls pass no timeout of their own; ours always applies."""
        response = b""
        size = _HEADER_BYTES
        while len(response) < size:
            left_ms = (self._until - time.monotonic()) * 1000
            if left_ms <= 0 or not self._poll.poll(left_ms):
                self._fail(self._late(), None)
            try:
                chunk = os.read(self._fd, _MAX_RESPONSE_BYTES)
            except OSError as error:
                self._fail(self._broken(str(error.strerror)), error)
            if not chunk:
                self._fail(self._broken("end of stream"), None)
            response += chunk
            if len(response) >= _HEADER_BYTES:
                size = int.from_bytes(response[2:6], "big")
                if not _HEADER_BYTES <= size <= _MAX_RESPONSE_BYTES:
                    self._fail(self._broken(f"a response that claims {size} bytes"), None)
        if len(response) != size:
            self._fail(self._broken(f"{len(response)} bytes in a response of {size}"), None)
        return response

    @property
    def gone(self) -> bool:
        """Whether the other side has closed the socket while nothing was under way; a device file does not close."""
        return self._socket is not None and bool(self._poll.poll(0))

    def do_finalize(self) -> None:
        """Close the connection; safe to call twice."""
        fd, self._fd = self._fd, -1
        if self._socket is not None:
            self._socket.close()
        elif fd >= 0:
            with contextlib.suppress(OSError):  # a device that vanished is as closed as it gets
                os.close(fd)

    def _late(self) -> TpmDeadline:
        return TpmDeadline(
            "tpm-deadline",
            found=f"no answer from {self._name} in {self.deadline_s:g} s",
            expected="an answer before the deadline",
            hint="the TPM hangs, or another process holds its only connection",
        )

    def _broken(self, found: str) -> TpmLost:
        return TpmLost(
            "tpm-lost",
            found=f"{self._name}: {found}",
            expected="a TPM that answers",
            hint="the next call opens a fresh connection",
        )

    def _fail(self, fault: TpmError, cause: BaseException | None) -> None:
        self.fault = fault
        raise TSS2_Exception(TSS2_RC.TCTI_RC_IO_ERROR) from cause
