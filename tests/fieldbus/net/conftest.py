"""The kernel turns receive stamps on a moment after the first socket asks: these tests begin after that moment."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from fieldbus.net import UdpReceiver, UdpSender

WAIT_S = 10.0


@pytest.fixture(scope="session", autouse=True)
def stamping() -> Iterator[None]:
    """A socket that asks for stamps, open all the while, and a first frame that has one."""
    with UdpReceiver("127.0.0.1", 0) as receiver, UdpSender(*receiver.address) as sender:
        deadline = time.monotonic() + WAIT_S
        while True:
            sender.send(b"")
            frame = receiver.receive(1.0)
            if frame is not None and frame.stamp == "kernel":
                break
            assert time.monotonic() < deadline, "the kernel stamps no datagrams"
        yield
