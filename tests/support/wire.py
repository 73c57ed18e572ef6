"""Two machines and a cable between them: two network namespaces and a veth pair, for stacks that must not share one."""

from __future__ import annotations

from typing import Self

from tests.support.namespaces import Namespace

OURS, THEIRS = "10.77.0.1", "10.77.0.2"


class Wire:
    """``ours`` with port v0 (10.77.0.1) and ``theirs`` with port v1 (10.77.0.2); multicast goes over the cable."""

    def __init__(self) -> None:
        self.ours, self.theirs = Namespace(), Namespace()
        self.ours.veth("v0", "v1")
        self.ours.ip("link", "set", "v1", "netns", str(self.theirs.thread_id))
        self.theirs.ip("link", "set", "v1", "addrgenmode", "none")
        for space, port, address in ((self.ours, "v0", OURS), (self.theirs, "v1", THEIRS)):
            space.ip("addr", "add", f"{address}/24", "dev", port)
            space.ip("link", "set", port, "up")
            space.ip("link", "set", "lo", "up")
            space.ip("route", "add", "224.0.0.0/4", "dev", port)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.ours.__exit__()
        self.theirs.__exit__()
