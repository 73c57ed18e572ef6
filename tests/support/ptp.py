"""Two ptp4l (Debian package linuxptp) in two network namespaces, with software stamps over a pair of virtual ports."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Self

import pytest

from tests.support.namespaces import Namespace

# Syncs 8, announcements 4 a second; a master is given up after 0.75 s. Both share one CLOCK_REALTIME, which neither
# may touch: free_running.
SETTINGS = """[global]
uds_address {socket}
free_running 1
time_stamping software
network_transport L2
logSyncInterval -3
logMinDelayReqInterval -3
logAnnounceInterval -2
announceReceiptTimeout 3
{extra}
"""


class PtpPair:
    """A grandmaster and a follower; ``follower_socket`` is where the follower is asked."""

    def __init__(self, folder: Path) -> None:
        if shutil.which("ptp4l") is None:
            pytest.skip("SKIPPED: no ptp4l (Debian package linuxptp)")
        self._folder = folder
        self._spaces = (Namespace(), Namespace())
        one, other = self._spaces
        one.ip("link", "add", "v0", "type", "veth", "peer", "name", "v1")
        one.ip("link", "set", "v1", "netns", str(other.thread_id))
        for space, port in zip(self._spaces, ("v0", "v1"), strict=True):
            space.ip("link", "set", port, "addrgenmode", "none")
            space.ip("link", "set", port, "up")
        self.follower_socket = str(folder / "follower")
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self.start_grandmaster()
        self._start("follower", other, "v1", "slaveOnly 1")

    def start_grandmaster(self) -> None:
        self._start("grandmaster", self._spaces[0], "v0", "priority1 10")

    def kill_grandmaster(self) -> None:
        self._kill("grandmaster")

    def kill_follower(self) -> None:
        self._kill("follower")

    def _start(self, name: str, space: Namespace, port: str, extra: str) -> None:
        settings = self._folder / f"{name}.conf"
        settings.write_text(SETTINGS.format(socket=self._folder / name, extra=extra))
        command = ["ptp4l", "-i", port, "-f", str(settings), "-m"]
        with (self._folder / f"{name}.log").open("ab") as log:
            self._processes[name] = space.run(lambda: subprocess.Popen(command, stdout=log, stderr=log))

    def _kill(self, name: str) -> None:
        process = self._processes.pop(name, None)
        if process is not None:
            process.kill()
            process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for name in list(self._processes):
            self._kill(name)
        for space in self._spaces:
            space.__exit__()
