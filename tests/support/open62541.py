"""open62541 as a peer in the interoperability tests: programs of its public interface, built beside the repository.

``tests/peers/open62541/build.sh SOURCE OUT`` builds them (a few minutes, so no test does it by itself); then the
environment variable ``SITS_OPEN62541`` names their folder. Without it the tests are skipped and say so;
``SITS_PEERS=required`` turns that into a failure. Each program's head comment says what it takes and prints.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

DEADLINE_S = 30.0
FOLDER = os.environ.get("SITS_OPEN62541", "")
HINT = "build it with tests/peers/open62541/build.sh and name the folder of its programs in SITS_OPEN62541"


def program(name: str) -> Path:
    """``publisher``, ``subscriber``, ``server`` or ``client``; skips the test where they are not built."""
    path = Path(FOLDER) / name
    if FOLDER and path.exists() and os.environ.get("SITS_PEERS") != "off":
        return path
    reason = f"SKIPPED: no open62541 peer; {HINT}"
    if os.environ.get("SITS_PEERS") == "required":
        pytest.fail(reason)
    pytest.skip(reason)


class Peer:
    """A running program that has said ``ready``: commands to it and lines from it."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self._kept = b""
        self._errors: list[bytes] = []
        self._reader = threading.Thread(target=self._collect, daemon=True)
        self._reader.start()

    def _collect(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self._errors = [*self._errors[-200:], line]

    @property
    def errors(self) -> str:
        """The newest lines of its log."""
        return b"".join(self._errors).decode(errors="replace")

    def line(self, deadline_s: float = DEADLINE_S) -> str:
        """Its next line; fails the test where none comes."""
        assert self.process.stdout is not None
        end = time.monotonic() + deadline_s
        while b"\n" not in self._kept:
            ready, _, _ = select.select([self.process.stdout], [], [], max(0.0, end - time.monotonic()))
            data = os.read(self.process.stdout.fileno(), 65_536) if ready else b""
            if not data:
                pytest.fail(f"the peer said nothing ({self.process.poll()}): {self.errors}")
            self._kept += data
        first, self._kept = self._kept.split(b"\n", 1)
        return first.decode()

    def lines(self) -> list[str]:
        """What it has said by now."""
        assert self.process.stdout is not None
        while select.select([self.process.stdout], [], [], 0)[0]:
            data = os.read(self.process.stdout.fileno(), 65_536)
            if not data:
                break
            self._kept += data
        *whole, self._kept = self._kept.split(b"\n")
        return [line.decode() for line in whole]

    def tell(self, command: str) -> list[str]:
        """Give a command and wait for ``done``; what it said before that."""
        assert self.process.stdin is not None
        self.process.stdin.write(command.encode() + b"\n")
        self.process.stdin.flush()
        said = []
        while (line := self.line()) != "done":
            said.append(line)
        return said


@contextmanager
def running(name: str, *options: str) -> Iterator[Peer]:
    """A program in the namespace of the calling thread, ready; ended with the block."""
    process = subprocess.Popen(
        [str(program(name)), *options],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    peer = Peer(process)
    try:
        assert peer.line() == "ready"
        yield peer
    finally:
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()


def client(*arguments: str, deadline_s: float = DEADLINE_S) -> list[dict[str, Any]]:
    """Run the OPC UA client to its end: one object for each thing it was told to do."""
    done = subprocess.run(
        [str(program("client")), *arguments], capture_output=True, text=True, timeout=deadline_s, check=False
    )
    if done.returncode not in (0, 1):
        pytest.fail(f"client {list(arguments)}: {done.stderr}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def identity_options(certificate: Path, key: Path, trusted: Sequence[Path] = ()) -> list[str]:
    """``cert=… key=… trust=…`` of server and client."""
    options = [f"cert={certificate}", f"key={key}"]
    return [*options, f"trust={','.join(map(str, trusted))}"] if trusted else options
