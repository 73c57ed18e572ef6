"""Child processes of one deployment: started in order, watched, stopped in reverse order, none left behind."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from attest import jsontext
from sitsedge.errors import SitsError
from sitsedge.telemetry import read_snapshot

STOP_TIMEOUT_S = 10.0
POLL_S = 0.02
LOG_TAIL_BYTES = 8192


class ChildError(SitsError):
    """A process that did not start or ended by itself; codes ``child-start``, ``child-died``."""


@dataclass(slots=True)
class Child:
    """One running process of the appliance."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path
    restartable: bool = False
    stopped: bool = field(default=False)


class Children:
    """Starts and stops processes of one deployment.

    ``run_dir`` holds their snapshots, ``log_dir`` their logs. Each child asks the kernel for SIGTERM when
    this process dies, so that a killed supervisor leaves nothing running.
    """

    def __init__(self, run_dir: Path, log_dir: Path) -> None:
        self._run_dir = run_dir
        self._log_dir = log_dir
        self._children: list[Child] = []
        self._environment = {"SITS_SUPERVISED": "1"}

    def without_old_bytecode(self) -> None:
        """Children compile what they run into a fresh folder of this deployment.

        What is measured is source text; Python would run a compiled file beside it without reading the source.
        """
        folder = self._run_dir / "bytecode"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(mode=0o700)
        self._environment["PYTHONPYCACHEPREFIX"] = str(folder)

    def spawn(self, name: str, module: str, arguments: list[str], *, restartable: bool = False) -> Child:
        """Start ``python -m module`` and do not wait for it; the end of a ``restartable`` one is for ``reap``."""
        (self._run_dir / f"{name}.json").unlink(missing_ok=True)
        log = self._log_dir / f"{name}.stderr"
        with log.open("wb") as stderr:
            process = subprocess.Popen(
                [sys.executable, "-m", module, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
                env={**os.environ, **self._environment},
                start_new_session=True,
            )
        child = Child(name, process, log, restartable)
        self._children.append(child)
        return child

    def start(
        self,
        name: str,
        module: str,
        arguments: list[str],
        *,
        ready_timeout_s: float = 60.0,
        restartable: bool = False,
    ) -> Child:
        """Start ``python -m module`` and wait until its snapshot says ``ready`` or ``running``.

        Raises :class:`ChildError` ``child-start`` with the reason the process gave.
        """
        child = self.spawn(name, module, arguments, restartable=restartable)
        process, log = child.process, child.log
        deadline = time.monotonic() + ready_timeout_s
        while time.monotonic() < deadline:
            snapshot = read_snapshot(self._run_dir, name)
            if snapshot is not None and snapshot.pid == process.pid and snapshot.state in ("ready", "running"):
                return child
            if process.poll() is not None:
                raise ChildError(
                    "child-start",
                    found=f"{name} ended with {process.returncode}: {last_words(child, self._log_dir)}",
                    expected="a running process",
                    hint=f"see {log.name} and {name}.log in {self._log_dir}",
                )
            time.sleep(POLL_S)
        raise ChildError(
            "child-start",
            found=f"{name} not ready after {ready_timeout_s:.0f} s",
            expected="a ready process",
            hint=f"see {name}.log in {self._log_dir}",
        )

    def check(self) -> None:
        """Raise :class:`ChildError` ``child-died`` when a child ended that was not asked to and cannot be restarted."""
        for child in self._children:
            if not child.stopped and not child.restartable and child.process.poll() is not None:
                raise ChildError(
                    "child-died",
                    found=f"{child.name} ended with {child.process.returncode}: {last_words(child, self._log_dir)}",
                    expected="a running process",
                    hint=f"see {child.name}.log in {self._log_dir}",
                )

    def reap(self, name: str) -> str | None:
        """For a restartable process: what it said, if it ended without being asked to."""
        for child in self._children:
            if child.name == name and child.restartable and not child.stopped and child.process.poll() is not None:
                self._children.remove(child)
                return f"{child.process.returncode}: {last_words(child, self._log_dir)}"
        return None

    def signal(self, name: str, number: signal.Signals) -> None:
        """Send a signal to a child that runs."""
        for child in self._children:
            if child.name == name and not child.stopped and child.process.poll() is None:
                child.process.send_signal(number)

    def stop(self, name: str) -> int | None:
        """SIGTERM, then SIGKILL after ``STOP_TIMEOUT_S``; the exit code, ``None`` when there is no such child."""
        for child in self._children:
            if child.name == name and not child.stopped:
                return self._stop(child)
        return None

    def stop_all(self, progress: Callable[[str], None] = lambda _: None) -> None:
        """Stop what still runs, newest first."""
        for child in reversed(self._children):
            if not child.stopped:
                progress(child.name)
                self._stop(child)

    def _stop(self, child: Child) -> int:
        child.stopped = True
        if child.process.poll() is None:
            child.process.send_signal(signal.SIGTERM)
            child.process.send_signal(signal.SIGCONT)  # a stopped process would never see the first signal
        try:
            return child.process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            child.process.kill()
            return child.process.wait()


def last_words(child: Child, log_dir: Path) -> str:
    """The last error a process wrote, in one line."""
    for path in (log_dir / f"{child.name}.log", child.log):
        try:
            written = path.read_bytes()
            lines = written[-LOG_TAIL_BYTES:].decode(errors="replace").strip().splitlines()
        except OSError:
            continue
        if len(written) > LOG_TAIL_BYTES:
            del lines[0]  # the end of a line
        for line in reversed(lines):
            try:
                entry = jsontext.loads(line)
            except ValueError:
                return line
            if isinstance(entry, dict) and entry.get("level") in ("error", "critical"):
                return str(entry.get("msg"))
    return "no message"
