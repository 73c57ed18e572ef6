"""A PLC server process for the OPC UA tests."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from fieldbus.opcua import SecureClient

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = Path(__file__).with_name("plc_server.py")
NAMESPACE = "urn:tests:mill"
TAGS = {
    "gap": "Mill/Request/Gap",
    "number": "Mill/Request/Number",
    "speed": "Mill/Request/Speed",
    "locked": "Mill/Locked",
    "broken": "Mill/Broken",
    "profile": "Mill/Profile",
    "counter": "Mill/Counter",
}


@dataclass
class Plc:
    """The server process of ``plc_server.py``; ``stop`` and ``start`` as often as a test likes."""

    folder: Path
    port: int
    process: subprocess.Popen[str] | None = field(default=None)

    @property
    def url(self) -> str:
        return f"opc.tcp://127.0.0.1:{self.port}/"

    def start(self, *, padding: int = 0, drop_speed: bool = False) -> None:
        assert self.process is None
        extra = ["--drop-speed"] if drop_speed else []
        self.process = subprocess.Popen(
            [sys.executable, str(PROGRAM), str(self.port), str(self.folder), str(padding), *extra],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            text=True,
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "ready\n"

    def stop(self, *, kill: bool = False) -> None:
        process, self.process = self.process, None
        if process is None:
            return
        assert process.stdin is not None
        assert process.stdout is not None
        if kill:
            process.kill()
        process.stdin.close()
        process.wait(timeout=20)
        process.stdout.close()


WILD_TAGS = {"gap": "Mill/Gap", "speed": "Mill/Speed", "level": "Mill/Level"}
WILD = Path(__file__).with_name("wild_server.py")


@dataclass
class Wild:
    """The server process of ``wild_server.py``, or another that takes commands; ``do`` has it misbehave."""

    folder: Path
    port: int
    command: tuple[str, ...] = (sys.executable, str(WILD))
    process: subprocess.Popen[str] | None = field(default=None)

    @property
    def url(self) -> str:
        return f"opc.tcp://127.0.0.1:{self.port}/"

    def start(self) -> None:
        assert self.process is None
        self.process = subprocess.Popen(
            [*self.command, str(self.port), str(self.folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            text=True,
        )
        self._expect("ready")

    def do(self, *lines: str) -> None:
        """Commands of ``wild_server.Wild``, each answered before the next."""
        assert self.process is not None
        assert self.process.stdin is not None
        for line in lines:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
            self._expect("ok")

    def _expect(self, word: str) -> None:
        assert self.process is not None
        assert self.process.stdout is not None
        while (line := self.process.stdout.readline()) != word + "\n":
            assert line, "the server has ended"  # a library may print, too

    def stop(self) -> None:
        process, self.process = self.process, None
        if process is None:
            return
        process.kill()
        process.communicate()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


MakeClient = Callable[..., SecureClient]
