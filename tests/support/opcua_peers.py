"""OPC UA clients in processes of their own, driven by one JSON object a line: asyncua, and node-opcua where Node.js is.

node-opcua (MIT) is run, never imported, and no part of the product; the pinned version of
``tests/peers/node-opcua-client`` (with its lock file) goes into the ignored folder ``.dev/peers`` the first time it is
needed. Where that is impossible its tests are skipped and say so (``SITS_PEERS``: as in :mod:`tests.support.snarkjs`).
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from tests.support.snarkjs import PEERS, ROOT, only_one, unavailable

RECIPE = ROOT / "tests" / "peers" / "node-opcua-client"
INSTALL_S_MAX = 60
"""Below a test's own limit, so that a registry nobody answers at is a skip, not a failure."""


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
    found = _install()
    if isinstance(found, str):
        unavailable(found)
    node, folder = found
    return Peer([node, str(RECIPE / "driver.cjs"), str(folder)])


@cache
def _install() -> tuple[str, Path] | str:
    """Node.js and the folder of the installation, or why there is none."""
    if os.environ.get("SITS_PEERS") == "off":
        return "SITS_PEERS=off"
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        return "node-opcua needs Node.js and npm, which are not installed"
    lock = (RECIPE / "package-lock.json").read_bytes()
    folder = PEERS / f"node-opcua-client-{hashlib.sha256(lock).hexdigest()[:12]}"
    with only_one():
        if not folder.exists():
            part = folder.with_suffix(".part")
            shutil.rmtree(part, ignore_errors=True)
            shutil.copytree(RECIPE, part)
            try:
                done = subprocess.run(
                    [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--fetch-retries=1"],
                    cwd=part, capture_output=True, text=True, timeout=INSTALL_S_MAX, check=False,
                )  # fmt: skip
            except subprocess.TimeoutExpired:
                return f"node-opcua not installed: npm took over {INSTALL_S_MAX} s"
            if done.returncode != 0:
                return f"node-opcua not installed: {(done.stderr.strip() or 'npm failed').splitlines()[-1][:200]}"
            part.rename(folder)
    return node, folder
