"""``sitsctl status`` and ``sitsctl watch``: what the processes last said of themselves."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.table import Table

from sitsedge.supervisor.state import StateDir
from sitsedge.telemetry import Snapshot, read_snapshot

PROCESSES = ("sitsd", "gate", "prover", "bridge", "plant", "replayer", "server")
FRESH_S = 3.0  # three snapshots missed
START_S = 60.0
"""A process says once that it starts, and no more until it runs; on a loaded machine that takes a while."""

REFRESH_S = 0.5
TAGS_SHOWN = 4
DROPPED = {
    "incomplete": "samples: without 'trigger', all tags have to change at the same source time",
    "no-source-timestamp": "values without a source time",
    "stale-tag": "samples with a tag further from the trigger's time than tag_skew_ms_max",
}
"""Why a station's values made no sample, or none that is whole, in words."""
LANE_WELL = ("none", "running")
NOT_ATTESTED = ("ended", "failed")  # no command is accepted
ATTESTATION_ILL = ("overdue", "ended", "failed")
LANE_WORDS = {
    "running": "running",
    "withdrawn": "WITHDRAWN: no commands until every owed proof came and people confirm a mode",
    "hold": "ON HOLD: no proof is owed; no commands until people confirm a mode",
}
ATTESTATION = {
    "tpm2": "TPM 2.0 quote per epoch",
    "tpm2-resident": "TPM 2.0 quote per epoch, commands signed in the TPM",
    "none": "NONE: nobody can tell which machine signs",
}


def collect(run_dir: Path) -> dict[str, Snapshot]:
    """The readable snapshots of one deployment, by process name."""
    found = {name: read_snapshot(run_dir, name) for name in PROCESSES}
    return {name: snapshot for name, snapshot in found.items() if snapshot is not None}


def health(snapshot: Snapshot) -> str:
    """``running``/``ready``/… as the process said, or ``dead``, ``silent``, ``starting for …`` as seen from here."""
    if not snapshot.alive:
        return "stopped" if snapshot.state == "stopped" else "dead"
    if snapshot.age_s <= FRESH_S:
        return snapshot.state
    word = "starting" if snapshot.state == "starting" and snapshot.age_s <= START_S else "silent"
    return f"{word} for {snapshot.age_s:.0f} s"


def as_data(state: StateDir) -> dict[str, Any]:
    """All of it as plain data for ``--output json``."""
    snapshots = collect(state.run)
    return {
        "state_dir": str(state.root),
        "running": any(health(s) in ("running", "ready") for s in snapshots.values()),
        "healthy": all(health(s) in ("running", "ready") for s in snapshots.values())
        and lane(snapshots) in LANE_WELL
        and attestation(snapshots) not in ATTESTATION_ILL,
        "lane": lane(snapshots),
        "attestation": attestation(snapshots),
        **_verified(snapshots),
        "processes": {
            name: {"health": health(s), "age_s": round(s.age_s, 3), **s.data} for name, s in snapshots.items()
        },
    }


def lane(snapshots: dict[str, Snapshot]) -> str:
    """The deferred lane as the gate says: ``none``, ``running``, ``withdrawn``, or ``hold`` (until people confirm)."""
    proofs = snapshots["gate"].data.get("proofs", {}) if "gate" in snapshots else {}
    if proofs.get("policy") != "deferred":
        return "none"
    if not snapshots["gate"].data.get("verified"):
        return "withdrawn"
    return "hold" if proofs.get("hold") else "running"


def attestation(snapshots: dict[str, Snapshot]) -> str:
    """As the gate says: ``waiting``, ``attested``, ``overdue``, ``ended``, ``failed``; ``unknown`` without a gate."""
    known = snapshots["gate"].data.get("attestation") or {} if "gate" in snapshots else {}
    return str(known.get("phase", "unknown"))


def _attestation_rows(loop: dict[str, Any], gate: dict[str, Any]) -> list[tuple[str, str]]:
    """Kind of TPM, a simulated one named as such; what is wrong with the attestation; what it keeps the mode from."""
    known = gate.get("attestation") or {}
    mode = ATTESTATION.get(str(gate.get("attestation_mode")), "?")
    rows = [("attestation", f"{mode}; SIMULATED TPM: protects nothing" if known.get("tpm_kind") == "swtpm" else mode)]
    if known.get("phase") not in (None, "attested"):
        rows.append(("attested", f"{str(known['phase']).upper()}: {known.get('reason')}"))
    if error := (loop.get("attestation") or {}).get("error"):
        rows.append(("re-attestation", f"failing: {error}"))
    if reason := gate.get("ceiling_reason"):
        rows.append(("never above", f"{gate.get('ceiling')}: {reason}"))
    return rows


def _clock_rows(loop: dict[str, Any]) -> list[tuple[str, str]]:
    """What holds the clock and how well, and the two measures of events; nothing of a loop that does not say."""
    clock, delta = loop.get("clock"), loop.get("delta_e")
    rows = []
    if isinstance(clock, dict):
        bound = clock.get("error_ns_max")
        words = [str(clock.get("kind")), "" if clock.get("hold") == "none" else str(clock.get("hold"))]
        words += ["" if bound is None else f"within {bound / 1e3:.1f} µs", str(clock.get("reason", ""))]
        rows.append(("clock", ", ".join(word for word in words if word)))
    if isinstance(delta, dict) and delta.get("p99_ns") is not None:
        rows.append(("Δe P99 (stamp to verdict)", f"{delta['p99_ns'] / 1e3:.0f} µs"))
    if loop.get("w_sync_ns") is not None:
        rows.append(("W_sync", f"{loop['w_sync_ns'] / 1e3:.0f} µs"))
    return rows


def _source_rows(loop: dict[str, Any]) -> list[tuple[str, str]]:
    """Message security of the publisher, and what is wrong with its keys; nothing where it has none."""
    security = loop.get("source_security")
    if not isinstance(security, dict):
        return []
    rows = [("source", f"{security.get('mode')}, group {security.get('group')}, key {security.get('used_token')}")]
    if problem := security.get("problem"):
        rows.append(("source keys", f"PROBLEM: {problem}"))
    return rows


def _verified(snapshots: dict[str, Snapshot]) -> dict[str, Any]:
    """Whether the gate stands by "verified" for what it accepts now, and why not; unknown counts as not."""
    gate = snapshots.get("gate")
    if gate is None or health(gate) != "running":
        return {"verified": False, "verified_reason": "no running gate"}
    if (phase := attestation(snapshots)) in NOT_ATTESTED:
        return {"verified": False, "verified_reason": f"the machine is not attested now: {phase}"}
    return {"verified": bool(gate.data.get("verified")), "verified_reason": gate.data.get("verified_reason")}


def render(state: StateDir) -> Group:
    """Tables for people: processes, cycles, latency by stage, refusals by reason, plant."""
    snapshots = collect(state.run)
    parts: list[Table] = [_processes(snapshots)]
    if "bridge" in snapshots:
        parts.append(_stations(snapshots["bridge"].data))
    if "sitsd" in snapshots:
        parts += [_cycles(snapshots["sitsd"].data, snapshots), _latency(snapshots["sitsd"].data)]
    if "server" in snapshots:
        parts.append(_server(snapshots["server"].data))
    return Group(*parts)


def watch(state: StateDir, console: Console, *, seconds: float | None) -> None:
    """Redraw every half second until interrupted or ``seconds`` have passed."""
    end = None if seconds is None else time.monotonic() + seconds
    with Live(render(state), console=console, refresh_per_second=4) as live:
        while end is None or time.monotonic() < end:
            time.sleep(REFRESH_S)
            live.update(render(state))


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", expand=False)
    for i, column in enumerate(columns):
        table.add_column(column, justify="left" if i == 0 else "right")
    return table


def _processes(snapshots: dict[str, Snapshot]) -> Table:
    table = _table("processes", "process", "health", "pid")
    for name, snapshot in snapshots.items():
        table.add_row(name, health(snapshot), str(snapshot.pid))
    if not snapshots:
        table.add_row("none", "not deployed", "")
    return table


def _stations(bridge: dict[str, Any]) -> Table:
    """What the bridge reads: each station with its state, and what is wrong with it."""
    table = _table("stations", "station", "state", "samples", "what is wrong")
    for station in bridge.get("stations", ()):
        words = [str(word) for word in (station.get("last_error"), *station.get("findings", ())) if word]
        if (bad := station.get("bad_tags")) and station.get("connected"):
            shown = ", ".join(f"{name} {status}" for name, status in list(bad.items())[:TAGS_SHOWN])
            words.append(f"no good value: {shown}" + (" …" if len(bad) > TAGS_SHOWN else ""))
        dropped, samples = station.get("dropped") or {}, station.get("samples", 0)
        if sum(dropped.values()) > samples:
            words += [f"dropped {count} {DROPPED.get(reason, reason)}" for reason, count in dropped.items()]
        name = f"{station.get('name')} ({station.get('protocol')})"
        table.add_row(name, str(station.get("state")), str(samples), "\n".join(words))
    return table


def _cycles(loop: dict[str, Any], snapshots: dict[str, Snapshot]) -> Table:
    gate = snapshots["gate"].data if "gate" in snapshots else {}
    table = _table("cycles", "what", "value")
    table.add_row("mode", str(gate.get("mode", "?")))
    for name, value in _attestation_rows(loop, gate):
        table.add_row(name, value)
    table.add_row("proof", _proof(loop))
    table.add_row("kernel", str(loop.get("kernel", "?")))
    verified = _verified(snapshots)
    table.add_row("verified", "yes" if verified["verified"] else f"NO: {verified['verified_reason']}")
    if (word := LANE_WORDS.get(lane(snapshots))) is not None:
        table.add_row("deferred lane", word)
    for name, value in _lane(loop, gate):
        table.add_row(name, value)
    if "prover" in snapshots and (pace := snapshots["prover"].data.get("pace")):
        table.add_row("prover's pace", _pace(pace))
    for name, value in _plc_rows(gate):
        table.add_row(name, value)
    table.add_row("epoch", str(loop.get("epoch", "?")))
    for name, value in [*_clock_rows(loop), *_source_rows(loop)]:
        table.add_row(name, value)
    table.add_row("cycles", str(loop.get("cycles", 0)))
    table.add_row("accepted", str(loop.get("accepted", 0)))
    for reason, count in sorted(loop.get("refused", {}).items()):
        table.add_row(f"refused: {reason}", str(count))
    table.add_row("missed", str(loop.get("missed", 0)))
    table.add_row("unanswered", str(loop.get("unanswered", 0) + loop.get("pending", 0)))
    for alarm, count in sorted(gate.get("alarms", {}).items()):
        table.add_row(f"alarm: {alarm}", str(count))
    plant = snapshots["plant"].data if "plant" in snapshots else {}
    if "thickness_std_mm" in plant:
        table.add_row("thickness deviation (std)", f"{1000 * float(plant['thickness_std_mm']):.1f} µm")
    return table


def _server(server: dict[str, Any]) -> Table:
    """The appliance's own OPC UA server: where, who looks, and what it raises."""
    table = _table("OPC UA server", "what", "value")
    table.add_row("endpoint", str(server.get("endpoint", "?")))
    table.add_row("device health", str(server.get("device_health", "?")))
    table.add_row("sessions", f"{server.get('sessions', 0)}, {server.get('subscriptions', 0)} subscriptions")
    days = server.get("certificate_days")
    if days is not None:
        table.add_row("certificate", "ENDED: no client can connect" if days < 0 else f"good for {days} days")
    waiting = server.get("unacknowledged", [])
    for name, message in server.get("alarms", {}).items():
        seen = "" if name not in waiting else " (nobody has acknowledged it)"
        table.add_row(f"alarm: {name}", escape(f"{message}{seen}"))
    for name in waiting:
        if name not in server.get("alarms", {}):
            table.add_row(f"alarm: {name}", "gone; nobody has acknowledged it")
    return table


def _proof(loop: dict[str, Any]) -> str:
    key = "development key" if loop.get("development_keys") else "key from a ceremony"
    return f"{loop.get('proof', '?')}, {key}"


def _plc_rows(gate: dict[str, Any]) -> list[tuple[str, str]]:
    """The PLC where something is to be said of it; a gate without one says nothing."""
    if gate.get("plc_connected") is None:
        return []
    known = gate.get("plc") or {}
    words = ["NOT REACHED"] if not gate["plc_connected"] else []
    if known.get("standstill"):
        words.append(f"DOES NOT RUN: {known['standstill']}")
    if gate["plc_connected"]:
        words.append("in AUTO" if gate.get("auto_active") else "in MAN")
    rows = [("PLC", f"{known.get('protocol', 'opcua')}, {', '.join(words)}")]
    if superseded := gate.get("superseded"):
        rows.append(("overtaken before they were written", str(superseded)))
    return rows


def _lane(loop: dict[str, Any], gate: dict[str, Any]) -> list[tuple[str, str]]:
    """What the deferred lane owes; nothing for a deployment without one."""
    queue, owed = loop.get("proofs"), gate.get("proofs", {})
    if queue is None:
        return []
    age = owed.get("oldest_age_ms")
    rows = [
        ("proofs owed", str(owed.get("owed", "?"))),
        ("oldest owed", "none" if age is None else f"{age / 1000:.1f} s"),
        ("proofs received", f"{owed.get('received', 0)}, {owed.get('late', 0)} of them late"),
        ("queue", f"{queue['queued']} waiting, {queue['unsettled']} proven, {queue['failed']} given up"),
    ]
    return rows + ([("queue fault", queue["fault"])] if queue["fault"] else [])


def _pace(pace: dict[str, Any]) -> str:
    """What the prover measured when it started, against how often a command comes."""
    text = f"{pace['proof_ms']} ms a proof, {pace['period_ms']} ms a cycle"
    return text if pace["keeps_up"] else f"TOO SLOW: {text}"


def _latency(loop: dict[str, Any]) -> Table:
    latency = loop.get("latency", {})
    table = _table("latency, ms", "stage", "P50", "P99", "P99.9", "max")

    def row(name: str, values: dict[str, float]) -> None:
        cells = [f"{values[key]:.3f}" if key in values else "" for key in ("p50_ms", "p99_ms", "p999_ms", "max_ms")]
        table.add_row(name, *cells)

    for stage, values in latency.get("stages", {}).items():
        row(stage, values)
    row("frame to PLC acknowledged", latency)
    return table
