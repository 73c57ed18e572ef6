"""Runs the demonstration: the main job with a report, or attacks with verdicts."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from attest import jsontext
from attest.ledger.audit import verify
from attest.ledger.report import AuditReport
from sitsedge.config.deployment import RollingMillPlant
from sitsedge.demo.attacks import ATTACKS, Attempt
from sitsedge.demo.system import LiveSystem
from sitsedge.errors import SitsError
from sitsedge.plant.record import load_record
from sitsedge.plant.simulate import SETTLE_S, simulate
from sitsedge.supervisor.bootline import BootVerdict
from sitsedge.supervisor.session import Session, SessionOptions
from sitsedge.supervisor.state import StateDir
from sitsedge.telemetry import read_snapshot

UM_PER_MM = 1000.0
SAMPLE_S = 0.5
MARK = "demo-state"  # a folder without this file is not ours to empty

Say = Callable[[str], None]
Progress = Callable[[float, dict[str, Any]], None]


@dataclass(frozen=True, slots=True)
class Run:
    """One run of the main job: what the processes said at their end, and the audit of both ledgers."""

    seconds: float
    boot: BootVerdict | None
    loop: dict[str, Any]
    gate: dict[str, Any]
    plant: dict[str, Any]
    audit: AuditReport
    state: StateDir


@dataclass(frozen=True, slots=True)
class Thickness:
    """Standard deviation of the true exit thickness, µm, over the same strip with and without the controller."""

    with_um: float
    without_um: float
    seconds: float


@dataclass(frozen=True, slots=True)
class AttackVerdict:
    """One attack: its attempts, whether each left a record in a ledger, and whether the plant went on."""

    name: str
    attempts: tuple[Attempt, ...]
    recorded: tuple[int | None, ...]
    recovered: bool

    @property
    def ok(self) -> bool:
        """Every attempt refused for its own reason and on record, and the honest loop works again."""
        kept = all(
            index is not None or attempt.ledger == "audit"
            for attempt, index in zip(self.attempts, self.recorded, strict=True)
        )
        return bool(self.attempts) and all(a.ok for a in self.attempts) and kept and self.recovered


def fresh_state(root: Path) -> StateDir:
    """An empty state folder for a demonstration. Raises :class:`SitsError` rather than empty somebody's folder."""
    if root.exists():
        if any(root.iterdir()) and not (root / MARK).exists():
            raise SitsError(
                "demo-state",
                found=f"{root} with other content",
                expected="an empty folder or one of an earlier demonstration",
                hint="give another --state-dir",
            )
        snapshot = read_snapshot(root / "run", "gate")
        if snapshot is not None and snapshot.alive and snapshot.state == "running":
            raise SitsError("demo-running", found="another demonstration", expected="none", hint="stop it first")
        shutil.rmtree(root)
    state = StateDir(root.absolute())
    state.create()
    (root / MARK).touch()
    return state


def run_main_job(config: Path, state: StateDir, *, seconds: float, say: Say, progress: Progress) -> Run:
    """Deploy, run for ``seconds`` after the first accepted command, stop, audit."""
    session = Session(config, state, SessionOptions(), say=say)
    with session:
        session.prepare()
        boot = session.verify_boot()
        say(boot.line)
        session.start()
        session.wait_for_commands(1)
        started = time.monotonic()
        while (elapsed := time.monotonic() - started) < seconds:
            session.check()
            snapshot = session.loop_snapshot()
            progress(elapsed, {} if snapshot is None else snapshot.data)
            time.sleep(min(SAMPLE_S, seconds - elapsed))
        say("stopping: the plant goes to MAN with the last applied value")
    say("auditing both ledgers")
    audit = verify(state.ledger)
    loop, gate, plant = (_last(state, name) for name in ("sitsd", "gate", "plant"))
    return Run(seconds, boot, loop, gate, plant, audit, state)


def _last(state: StateDir, name: str) -> dict[str, Any]:
    snapshot = read_snapshot(state.run, name)
    return {} if snapshot is None else snapshot.data


def compare_thickness(run: Run, plant: RollingMillPlant, picture: Path | None) -> Thickness:
    """The recorded strip against the same strip (same seed, same seconds) under the PLC's own control alone."""
    record = load_record(run.state.run / "plant-record.npz")
    sequence = record["sequence"]
    controlled = np.flatnonzero(sequence > 0)
    if len(controlled) < 2:
        raise SitsError("demo-idle", found="no applied command in the plant's record", expected="a controlled strip")
    times, exit_mm = record["time_s"], record["exit_true_mm"]
    begin, end = times[controlled[0]] + SETTLE_S, times[controlled[-1]]
    inside = (times >= begin) & (times <= end)
    baseline = simulate(None, float(end) + 1.0, plant.seed)
    same = (baseline.time_s >= begin) & (baseline.time_s <= end)
    result = Thickness(
        float(np.std(exit_mm[inside])) * UM_PER_MM,
        float(np.std(baseline.exit_true_mm[same])) * UM_PER_MM,
        float(end - begin),
    )
    if picture is not None:
        from sitsedge.plant.picture import Curve, draw

        draw(
            picture,
            with_controller=Curve(times[inside], exit_mm[inside]),
            without_controller=Curve(baseline.time_s[same], baseline.exit_true_mm[same]),
        )
    return result


def run_attacks(config: Path, state: StateDir, names: list[str], *, say: Say) -> list[AttackVerdict]:
    """Run attacks one after the other on one live system; each must leave it working."""
    verdicts = []
    with LiveSystem(config, state, say=say) as system:
        for name in names:
            say(f"attack: {name}")
            attempts = tuple(ATTACKS[name](system))
            recorded = tuple(_where(system, attempt) for attempt in attempts)
            verdicts.append(AttackVerdict(name, attempts, recorded, system.wait_recovered()))
            system.relay.forget()
    return verdicts


def _where(system: LiveSystem, attempt: Attempt) -> int | None:
    if attempt.record is None or attempt.ledger == "audit":
        return None
    if attempt.ledger == "gate" and not system.gate_signed(attempt.record):
        return None
    return system.recorded(attempt.ledger, attempt.record)


def bench_object(run: Run) -> dict[str, Any]:
    """The object of ``sitsctl bench loop``; every duration is a raw monotonic difference in milliseconds."""
    latency = run.loop.get("latency", {})
    stages = {
        name: {key: values[key] for key in ("p50_ms", "p99_ms") if key in values}
        for name, values in latency.get("stages", {}).items()
    }
    keys = ("p50_ms", "p99_ms", "p999_ms", "max_ms")
    return {
        **{key: latency.get(key) for key in keys},
        "cycles": run.loop.get("cycles", 0),
        "missed": run.loop.get("missed", 0),
        "accepted": run.loop.get("accepted", 0),
        "refused": run.loop.get("refused", {}),
        "stages": stages,
        "unattributed_ms": latency.get("unattributed_ms"),
        "unattributed_p99_ms": latency.get("unattributed_p99_ms"),
        "superseded": run.loop.get("superseded", 0),
        "read_back": run.loop.get("read_back", {}),
        "published": run.plant.get("published"),
        "audit_ok": run.audit.ok,
    }


def write_summary(path: Path, data: dict[str, Any]) -> None:
    """A JSON file for people who want the figures later."""
    path.write_text(jsontext.dumps(data, indent=1, default=str), encoding="utf-8")
