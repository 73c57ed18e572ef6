"""Small JSON snapshots in ``STATE/run``, replaced atomically: any tool can look without disturbing a process."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attest import jsontext

SNAPSHOT_BYTES_MAX = 1 << 20


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a process last said of itself; ``age_s`` by the monotonic clock both share."""

    process: str
    state: str
    pid: int
    age_s: float
    data: dict[str, Any]

    @property
    def alive(self) -> bool:
        """Whether the process that wrote it still exists, and not only until its parent has looked after it."""
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            pass
        try:
            stat = Path(f"/proc/{self.pid}/stat").read_bytes()
        except OSError:
            return True
        return stat.rpartition(b")")[2].split()[:1] != [b"Z"]  # dead, and kept for its parent: proc(5)


def write_snapshot(run_dir: Path, process: str, state: str, data: dict[str, Any]) -> None:
    """Replace ``run_dir/process.json``; readers see the old or the new one, never a part."""
    body = {"process": process, "state": state, "pid": os.getpid(), "mono_ns": time.monotonic_ns(), **data}
    target = run_dir / f"{process}.json"
    temporary = run_dir / f".{process}.json.{os.getpid()}"
    temporary.write_text(jsontext.dumps(body, separators=(",", ":")), encoding="utf-8")
    temporary.replace(target)


def read_snapshot(run_dir: Path, process: str) -> Snapshot | None:
    """The last snapshot, or ``None`` when there is none that can be read."""
    path = run_dir / f"{process}.json"
    try:
        with path.open("rb") as file:
            body = jsontext.loads(file.read(SNAPSHOT_BYTES_MAX))
        age_s = (time.monotonic_ns() - int(body["mono_ns"])) / 1e9
        return Snapshot(str(body["process"]), str(body["state"]), int(body["pid"]), age_s, body)
    except (OSError, ValueError, KeyError, TypeError):
        return None
