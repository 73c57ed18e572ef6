"""What the processes say of themselves, told to the person at the console: each change once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from sitsedge.telemetry import read_snapshot

SILENCE_S = 3.0  # snapshots come twice a second


class Watch:
    """Looks at the snapshots in ``run`` and remembers what was said."""

    def __init__(self, run: Path, say: Callable[[str], None]) -> None:
        self._run = run
        self._say = say
        self._silent: set[str] = set()
        self._withdrawn: str | None = None
        self._prover_slow = False
        self._phase: str | None = None

    def look(self) -> None:
        """Everything once."""
        self.silence()
        self.verified()
        self.prover()
        self.attestation()

    def attestation(self) -> None:
        """Say once what the gate makes of this machine's attestation while it runs."""
        snapshot = read_snapshot(self._run, "gate")
        known = {} if snapshot is None else snapshot.data.get("attestation") or {}
        phase, before = known.get("phase"), self._phase
        if phase == before or phase is None:
            return
        self._phase = phase
        if phase == "overdue":
            self._say(f"warning: attestation-overdue: {known.get('reason')}; the plant stays as it is until then")
        elif phase in ("ended", "failed"):
            self._say(
                f"warning: attestation-{phase}: {known.get('reason')}; at most ADVISORY until people confirm a mode"
            )
        elif phase == "attested" and before in ("overdue", "ended", "failed"):
            again = "nothing was interrupted" if before == "overdue" else "a mode waits for people (sitsctl mode)"
            self._say(f"attested again: {again}")

    def silence(self) -> None:
        """Say once when a living process stops telling how it is (stopped, starved, hung), and when it is back."""
        for name in ("sitsd", "gate", "plant", "bridge", "prover", "server"):
            snapshot = read_snapshot(self._run, name)
            silent = snapshot is not None and snapshot.alive and snapshot.age_s > SILENCE_S
            if silent and name not in self._silent:
                harm = "only who looks is concerned" if name == "server" else "gate and PLC fail safe by themselves"
                self._say(f"warning: {name} has said nothing for {SILENCE_S:.0f} s; {harm}")
                self._silent.add(name)
            elif not silent and name in self._silent:
                self._say(f"{name} answers again")
                self._silent.discard(name)

    def verified(self) -> None:
        """Say once when the gate withdraws "verified" because of owed proofs, and when it stands by it again."""
        snapshot = read_snapshot(self._run, "gate")
        if snapshot is None or snapshot.data.get("proofs", {}).get("policy") != "deferred":
            return
        reason = snapshot.data.get("verified_reason")
        if reason != self._withdrawn:
            if reason is not None:
                self._say(f"warning: verified is withdrawn: {reason}; at most ADVISORY now, commands wait for people")
            elif snapshot.data["proofs"].get("hold"):
                self._say("verified again: no proof is owed; commands wait until people confirm a mode (sitsctl mode)")
            else:
                self._say("verified again")
            self._withdrawn = reason

    def prover(self) -> None:
        """Say once when the prover, by its own measurement at the start, cannot keep up with the cycle."""
        snapshot = read_snapshot(self._run, "prover")
        pace = {} if snapshot is None else snapshot.data.get("pace") or {}
        slow = pace.get("keeps_up") is False
        if slow and not self._prover_slow:
            self._say(
                f"warning: prover-slow: a proof takes {pace['proof_ms']} ms, a command comes every "
                f"{pace['period_ms']} ms; proofs will be overdue. Raise cycle.period_ms or cycle.proof_threads"
            )
        self._prover_slow = slow
