"""OPC UA clients in processes of their own, driven by one JSON object a line: asyncua, and node-opcua where Node.js is.

node-opcua (MIT) is run, never imported, and no part of the product (see ``tests.support.peers``).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from typing import Any

from tests.support.peers import ROOT, npm_peer


class PeerError(Exception):
    """The peer's library refused or was refused; the text is what it said."""


class Peer:
    """One client process. Every call is answered or raises :class:`PeerError`."""

    def __init__(self, command: list[str]) -> None:
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, env=environment
        )

    def ask(self, do: str, **more: Any) -> dict[str, Any]:
        """One command of the protocol."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(json.dumps({"do": do, **more}).encode() + b"\n")
        stdin.flush()
        for line in stdout:
            if line.startswith(b'{"ok"'):  # a library may print, too
                answer: dict[str, Any] = json.loads(line)
                break
        else:
            code = self._process.wait()
            self._errors.seek(0)
            raise AssertionError(f"the peer ended with {code}: {self._errors.read().decode(errors='replace')[-2000:]}")
        if not answer.pop("ok"):
            raise PeerError(answer["error"])
        return answer

    def kill(self) -> None:
        """End it without a word to the server."""
        self._process.kill()
        self.end()

    def end(self) -> None:
        """Close the session and the process."""
        if self._process.poll() is None:
            try:
                self.ask("close")
            except (PeerError, AssertionError, OSError):
                self._process.kill()
        self._process.wait()
        self._errors.close()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()


def asyncua_peer() -> Peer:
    """asyncua in a process of its own."""
    return Peer([sys.executable, "-m", "tests.support.asyncua_driver"])


def node_opcua_peer() -> Peer:
    """The pinned node-opcua; skips the test with the reason where it cannot be."""
    peer = npm_peer("node-opcua")
    return Peer([peer.node, str(peer.recipe / "client.cjs"), str(peer.folder)])
