"""From what the processes and ledgers say to which alarms are active. No I/O; all times are given.

Counters of a snapshot start again with their process; a value below the last one counts as a new start. What was
counted before this server looked for the first time is history, not an alarm.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from attest.command import ReadBack
from sitsedge.server.alarms import ALARMS, QUIET, Finding, Ne107
from sitsedge.server.news import News
from sitsedge.server.reader import Reader

HOLD_S: Final = 5.0  # an alarm about single cycles ends this long after the last one, so that it does not flutter
WINDOW_S: Final = 5.0
FRAMES_BAD_SHARE: Final = 0.05  # a deployment loses single frames all the time; one in twenty is for people
FRAMES_MIN: Final = 20  # of a window, to speak of a share
SILENT_CYCLES: Final = 20
SILENT_S_MIN: Final = 2.0
SNAPSHOT_FRESH_S: Final = 3.0  # as sitsctl status: processes write one to two a second
CERTIFICATE_DAYS: Final = 30
DAY_S: Final = 86_400

_CLOCK: Final = ("time-quality", "w-sync", "w-sync-empty", "clock-step")
_INPUT: Final = ("input-range", "input-rate", "input-not-finite", "input-type")
_OUTPUT: Final = ("output-limit", "output-rate", "output-relation")
_FRAMES: Final = ("frame", "stale-frame", "future-frame", "duplicate", "out-of-order", "bad-quality")
_PROCESSES: Final = {"gate": "GateDown", "sitsd": "LoopDown", "bridge": "BridgeDown", "prover": "ProverDown"}
_CONNECTING: Final = frozenset({"connecting", "degraded"})


@dataclass(frozen=True, slots=True)
class Process:
    """What is known of one process; ``data`` is its snapshot, empty where there is none that can be read."""

    alive: bool
    age_s: float
    state: str
    data: Mapping[str, Any]

    @property
    def well(self) -> bool:
        """Whether it runs and says so."""
        return self.alive and self.age_s <= SNAPSHOT_FRESH_S and self.state in ("ready", "running")

    @property
    def words(self) -> str:
        """What is wrong, in a few words."""
        if not self.data:
            return "never heard of"
        if not self.alive:
            return "stopped" if self.state == "stopped" else "ended by itself"
        if self.age_s > SNAPSHOT_FRESH_S:
            return "silent"  # for how long would be another text every second
        return self.state


NO_PROCESS: Final = Process(alive=False, age_s=0.0, state="none", data={})


@dataclass(frozen=True, slots=True)
class Facts:
    """One look at everything. ``certificates``: name → seconds until it ends (negative: since)."""

    processes: Mapping[str, Process]
    news: News
    certificates: Mapping[str, float]
    ledger_fault: str | None
    period_s: float


class _Rising:
    """When a counter last rose."""

    def __init__(self) -> None:
        self._value: int | None = None
        self.rose_s: float | None = None

    def update(self, value: int, now_s: float) -> bool:
        """Whether it rose within ``HOLD_S``."""
        before, self._value = self._value, value
        if before is not None and (value > before or 0 < value < before):
            self.rose_s = now_s
        return self.rose_s is not None and now_s - self.rose_s <= HOLD_S


class _Share:
    """How much of what came in a window was bad."""

    def __init__(self) -> None:
        self._points: deque[tuple[float, int, int]] = deque()

    def update(self, total: int, bad: int, now_s: float) -> float:
        """Share of bad in the window, 0 while there is too little to judge."""
        if self._points and (total < self._points[-1][1] or bad < self._points[-1][2]):
            self._points.clear()
        self._points.append((now_s, total, bad))
        while len(self._points) > 2 and now_s - self._points[1][0] >= WINDOW_S:
            self._points.popleft()
        _, first_total, first_bad = self._points[0]
        frames = total - first_total
        return (bad - first_bad) / frames if frames >= FRAMES_MIN else 0.0


class Judge:
    """Keeps what the alarms need to remember between two looks."""

    def __init__(self, expected: Iterable[str], *, has_plc: bool) -> None:
        """``expected``: processes this deployment runs. Without a PLC nothing is applied, so nothing can fail to be."""
        self._expected = tuple(expected)
        self._has_plc = has_plc
        self._rising: dict[str, _Rising] = {}
        self._frames = _Share()
        self._cycles = -1
        self._cycled_s: float | None = None
        self._silent = False

    def look(self, facts: Facts, now_s: float) -> dict[str, Finding]:
        """A finding for every alarm of the table; ``now_s`` is monotonic."""
        findings = dict.fromkeys(ALARMS, QUIET)
        findings |= self._down(facts)
        gate = facts.processes.get("gate", NO_PROCESS)
        loop = facts.processes.get("sitsd", NO_PROCESS)
        findings |= self._attestation(gate, facts.news)
        findings |= self._cycles_of(loop, gate, facts, now_s)
        findings |= self._frames_of(loop, facts, now_s)
        if self._has_plc:
            findings |= self._plant(gate, facts, now_s)
        findings["LaneWithdrawn"] = _lane(gate)
        if facts.ledger_fault is not None:
            findings["LedgerUnreadable"] = Finding(active=True, message=facts.ledger_fault)
        findings["CertificateExpiring"] = _certificates(facts.certificates)
        return findings

    def _down(self, facts: Facts) -> dict[str, Finding]:
        found = {}
        for name in self._expected:
            process = facts.processes.get(name, NO_PROCESS)
            if process.well:
                continue
            words = f"{name}: {process.words}"
            if name == "bridge" and process.state in _CONNECTING:
                words += f"; {_bridge_error(process.data)}"
            found[_PROCESSES[name]] = Finding(active=True, message=words)
        return found

    @staticmethod
    def _attestation(gate: Process, news: News) -> dict[str, Finding]:
        known = Reader(gate.data).below("attestation")
        phase, reason = known.text("phase"), known.text("reason")
        failed = phase in ("ended", "failed")
        at_start = Reader(gate.data).text("ceiling_reason") or ""
        if not failed and at_start.startswith("attestation"):
            failed, reason = True, at_start
        incident, told = Reader(gate.data).text("incident"), news.words.get("security-incident")
        return {
            "AttestationFailed": Finding(active=failed, message=f"attestation {phase}: {reason}"),
            "AttestationOverdue": Finding(active=phase == "overdue", message=str(reason)),
            "SecurityIncident": Finding(active=incident is not None, message=told.found if told else str(incident)),
        }

    def _cycles_of(self, loop: Process, gate: Process, facts: Facts, now_s: float) -> dict[str, Finding]:
        groups = {"ClockQuality": _CLOCK, "InputLimits": _INPUT, "OutputLimits": _OUTPUT}
        return {name: self._counted(name, codes, loop, gate, facts.news, now_s) for name, codes in groups.items()}

    def _counted(
        self, name: str, codes: tuple[str, ...], loop: Process, gate: Process, news: News, now_s: float
    ) -> Finding:
        # The loop counts the gate's refusals too; the gate's own count is for commands that did not come from it.
        rises = [
            self._rising.setdefault(f"{name} {who}", _Rising()).update(
                sum(Reader(process.data).below("refused").count(code) for code in codes), now_s
            )
            for who, process in (("loop", loop), ("gate", gate))
        ]
        if not any(rises):
            return QUIET
        told = [(word.t_ns, code, word) for code, word in news.words.items() if code in codes]
        if not told:
            return Finding(active=True)
        _, code, word = max(told, key=lambda item: item[0])
        return Finding(active=True, message=f"{code}: {word.found}, allowed {word.expected}")

    def _frames_of(self, loop: Process, facts: Facts, now_s: float) -> dict[str, Finding]:
        data = Reader(loop.data)
        refused = data.below("refused")
        dropped = data.count("kernel_dropped") + data.count("superseded")
        cycles = data.count("cycles")
        bad = sum(map(refused.count, _FRAMES)) + dropped
        share = self._frames.update(cycles + dropped, bad, now_s)
        found = {}
        if share >= FRAMES_BAD_SHARE:
            worst = max(_FRAMES, key=refused.count)
            word = facts.news.words.get(worst)
            text = f"{round(100 * share)} % of the frames" + (f"; {worst}: {word.found}" if word is not None else "")
            found["FramesLost"] = Finding(active=True, message=text)
        if cycles != self._cycles or self._cycled_s is None or not loop.well:
            self._cycles, self._cycled_s = cycles, now_s
        elif now_s - self._cycled_s > max(SILENT_S_MIN, SILENT_CYCLES * facts.period_s):
            found["SourceSilent"] = Finding(active=True, message="the loop gets no frames")
        return found

    def _plant(self, gate: Process, facts: Facts, now_s: float) -> dict[str, Finding]:
        news = facts.news
        found = {}
        if gate.well and gate.data.get("plc_connected") is False:
            found["PlcUnreachable"] = Finding(active=True)
        receipt = news.receipt
        writes = gate.data.get("mode") in ("AUTO", "SUPERVISED")
        if writes and receipt is not None and receipt.state is ReadBack.NOT_APPLIED and news.not_applied_ns:
            word = news.words.get("not-applied")
            text = "" if word is None else f"{word.found}, expected {word.expected}"
            found["NotApplied"] = Finding(active=True, message=text)
        data = Reader(gate.data)
        lost = self._rising.setdefault("heartbeat", _Rising()).update(
            data.below("alarms").count("heartbeat-lost"), now_s
        )
        accepted = self._rising.setdefault("accepted", _Rising()).update(data.count("accepted"), now_s)
        if lost or (self._silent and not accepted):
            word = news.words.get("heartbeat-lost")
            found["HeartbeatLost"] = Finding(active=True, message="" if word is None else word.found)
        self._silent = "HeartbeatLost" in found and writes
        return found


def _bridge_error(data: Mapping[str, Any]) -> str:
    """What the first station without a connection complains of."""
    stations = data.get("stations")
    for station in stations if isinstance(stations, list) else ():
        if isinstance(station, dict) and not station.get("connected"):
            own = Reader(station)
            return f"{own.text('name')}: {own.text('last_error') or 'waiting for the station'}"
    return "not all values can be had"


def _lane(gate: Process) -> Finding:
    data = Reader(gate.data)
    proofs = data.below("proofs")
    if proofs.text("policy") != "deferred" or data.flag("verified") is not False:
        return QUIET
    message = f"verified is withdrawn: {data.text('verified_reason')}; {proofs.count('owed')} proofs owed"
    return Finding(active=True, message=message)


def _certificates(left_s: Mapping[str, float]) -> Finding:
    """The one that ends first; an ended one is a failure, since no client can connect any more."""
    if not left_s:
        return QUIET
    name, seconds = min(left_s.items(), key=lambda item: item[1])
    if seconds > CERTIFICATE_DAYS * DAY_S:
        return QUIET
    if seconds <= 0:
        return Finding(active=True, message=f"the certificate {name} has ended", severity=850, ne107=Ne107.FAILURE)
    return Finding(active=True, message=f"the certificate {name} ends in {int(seconds // DAY_S)} days")
