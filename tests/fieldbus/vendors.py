"""Vendor peers that nobody here wrote, each in a process of its own.

They are no dependencies (cpppo is GPL): to run them, install ``python-snap7 cpppo virtual-plc pymcprotocol`` into a
virtual environment of its own and name that interpreter in ``SITS_VENDOR_PYTHON``.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

PYTHON = os.environ.get("SITS_VENDOR_PYTHON", "")
START_S_MAX = 40.0
PROGRAMS = Path(__file__).parent / "peers"

needs_peers = pytest.mark.skipif(
    not PYTHON,
    reason="SKIPPED: no vendor peers; set SITS_VENDOR_PYTHON to a python that has python-snap7, cpppo and virtual-plc",
)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextlib.contextmanager
def peer(port: int, *arguments: str) -> Iterator[None]:
    """The process ``python ARGUMENTS``, once it listens on ``port``."""
    process = subprocess.Popen([PYTHON, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + START_S_MAX
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                break
            if process.poll() is not None or time.monotonic() > deadline:
                pytest.fail(f"the peer {arguments} did not start: {process.poll()}")
            time.sleep(0.05)
        yield
    finally:
        process.kill()
        process.wait()
