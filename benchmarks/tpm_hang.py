"""Latency of the loop while its TPM quotes every second, and while the TPM hangs: alternating windows of one run.

    python -m benchmarks.tpm_hang [--rounds 4]

The rolling-mill example with a simulated TPM and ``reattest_s: 1``. A window is ten seconds (a thousand commands); in
every other one the TPM is stopped (SIGSTOP), so that each attempt to attest again waits for its deadline. Printed are
P50, P99 and the maximum from frame to acknowledged PLC write for each window, the medians of both kinds, their ratio,
and what was refused or missed. The TPM is simulated: this is about the loop, not about how fast a TPM is.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from sitsedge.supervisor.session import Session, SessionOptions
from sitsedge.supervisor.state import StateDir
from sitsedge.telemetry import read_snapshot

EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "rolling-mill"
WINDOW_S = 10.6  # a thousand commands at 100 Hz, and the snapshot's half second
SETTLE_S = 0.5


def deployment(folder: Path) -> Path:
    """The example with a quote every second, and epochs that outlast every window."""
    shutil.copytree(EXAMPLE, folder)
    path = folder / "deployment.yaml"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("epoch_s_max: 3600", "epoch_s_max: 600\n  reattest_s: 1"), encoding="utf-8")
    return path


def data(state: StateDir, name: str) -> dict[str, Any]:
    """What a process last said."""
    snapshot = read_snapshot(state.run, name)
    return {} if snapshot is None else snapshot.data


def window(session: Session, state: StateDir) -> dict[str, float]:
    """Percentiles of the newest thousand commands after one window."""
    end = time.monotonic() + WINDOW_S
    while time.monotonic() < end:
        session.check()
        time.sleep(SETTLE_S)
    latency = data(state, "sitsd")["latency"]
    return {key: float(latency[key]) for key in ("p50_ms", "p99_ms", "max_ms")}


def measure(rounds: int) -> dict[str, list[dict[str, float]]]:
    """Windows of both kinds in turn. Prints each, then what the whole run refused."""
    windows: dict[str, list[dict[str, float]]] = {"quotes": [], "hangs": []}
    with tempfile.TemporaryDirectory(prefix="tpm-hang-") as folder:
        state = StateDir(Path(folder) / "s")
        with Session(deployment(Path(folder) / "mill"), state, SessionOptions(), say=_say) as session:
            swtpm = session.prepare().swtpm
            if swtpm is None:
                raise SystemExit("this machine has a hardware TPM, which cannot be stopped")
            session.verify_boot()
            session.start()
            session.wait_for_commands(300)
            for _ in range(rounds):
                for kind in windows:
                    pid = swtpm.pid
                    assert pid is not None
                    epoch = data(state, "gate")["epoch"]
                    if kind == "hangs":
                        os.kill(pid, signal.SIGSTOP)
                    try:
                        row = window(session, state)
                    finally:
                        os.kill(pid, signal.SIGCONT)
                    windows[kind].append(row)
                    epochs = data(state, "gate")["epoch"] - epoch
                    print(
                        f"{kind:7} " + "  ".join(f"{k[:-3]} {v:6.3f} ms" for k, v in row.items()), f" epochs {epochs}"
                    )
        loop, gate = data(state, "sitsd"), data(state, "gate")
        print(
            f"accepted {loop['accepted']}, refused {loop['refused']}, missed {loop['missed']}, alarms {gate['alarms']}"
        )
    return windows


def _say(line: str) -> None:
    print(line, file=sys.stderr)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=4)
    windows = measure(parser.parse_args().rounds)
    for key in ("p50_ms", "p99_ms"):
        quotes, hangs = (statistics.median(row[key] for row in windows[kind]) for kind in ("quotes", "hangs"))
        print(
            f"median {key[:-3]}: {quotes:.3f} ms with quotes, {hangs:.3f} ms while it hangs, ratio {hangs / quotes:.2f}"
        )


if __name__ == "__main__":
    main()
