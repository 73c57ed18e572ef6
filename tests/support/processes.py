"""What runs on this machine, read from /proc (proc(5)): whole command lines, no tool that could cut them."""

from __future__ import annotations

import contextlib
from pathlib import Path


def of_state(state: Path) -> dict[int, str]:
    """Processes whose command line names the state folder or that work inside it: pid → command line."""
    found: dict[int, str] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            inside = (entry / "cwd").resolve().is_relative_to(state.resolve())
            if command and (str(state) in command or inside):
                found[int(entry.name)] = command
    return found
