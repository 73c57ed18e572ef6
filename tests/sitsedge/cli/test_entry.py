"""Ctrl-C while modules are being imported: an interruption at the end of the import, never a half-made module."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import os, signal, sys
sys.path.insert(0, sys.argv[1])
from sitsedge.cli import entry
signal.signal(signal.SIGINT, entry._interrupt)
import interrupted_module
print("imported", interrupted_module.done, flush=True)
try:
    signal.pause()
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""
MODULE = """
import os, signal
os.kill(os.getpid(), signal.SIGINT)
for _ in range(1000):
    pass
done = True
"""


def test_an_interrupt_during_an_import_comes_after_it(tmp_path: Path) -> None:
    (tmp_path / "interrupted_module.py").write_text(MODULE)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)],
        cwd=Path(__file__).resolve().parents[3],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout.split("\n")[:2] == ["imported True", "interrupted"], done.stderr
