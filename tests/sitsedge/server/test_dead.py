"""A process that is dead and that nobody has looked after yet."""

from __future__ import annotations

import os
import subprocess
import sys

from sitsedge.telemetry.snapshot import Snapshot


def test_a_dead_process_that_its_parent_has_not_looked_after_is_not_alive() -> None:
    child = subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE)
    assert child.stdin is not None
    snapshot = Snapshot("gate", "running", child.pid, 0.0, {})
    assert snapshot.alive
    child.stdin.close()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # it has ended, and is kept
    assert not snapshot.alive
    child.wait()
    assert not snapshot.alive
