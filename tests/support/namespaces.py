"""A network of its own for one test: a thread in a fresh network namespace, and pairs of virtual Ethernet ports.

Sockets stay in the namespace they were opened in, and so do processes started by the thread: ``run`` does the opening
there, the test uses them from anywhere.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Self, TypeVar

import pytest

CLONE_NEWNET = 0x4000_0000
T = TypeVar("T")
_libc = ctypes.CDLL(None, use_errno=True)


class Namespace:
    """A network namespace with nothing but its loopback; gone, with its interfaces, when it is closed."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1)
        self.thread_id = self._pool.submit(threading.get_native_id).result()
        number = self._pool.submit(lambda: ctypes.get_errno() if _libc.unshare(CLONE_NEWNET) else 0).result()
        if number:
            self._pool.shutdown()
            pytest.skip(f"SKIPPED: no network namespace can be made here ({os.strerror(number)}); needs CAP_SYS_ADMIN")

    def run(self, work: Callable[[], T]) -> T:
        """What ``work`` gives (or raises), called inside."""
        return self._pool.submit(work).result()

    def ip(self, *arguments: str) -> None:
        """``ip …`` inside; skips the test where there is no such program or kind of device."""
        try:
            done = self.run(lambda: subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False))
        except FileNotFoundError:
            pytest.skip("SKIPPED: no `ip` (Debian package iproute2)")
        if done.returncode and "Unknown device type" in done.stderr:
            pytest.skip(f"SKIPPED: this kernel has no such device: ip {' '.join(arguments)}")
        assert done.returncode == 0, done.stderr

    def veth(self, one: str = "v0", other: str = "v1") -> None:
        """A pair of connected ports, both here and up, without IPv6 (whose own traffic would come in between)."""
        self.ip("link", "add", one, "type", "veth", "peer", "name", other)
        for name in (one, other):
            self.ip("link", "set", name, "addrgenmode", "none")
            self.ip("link", "set", name, "up")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown()
