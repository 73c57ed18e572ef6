"""One running deployment: prepared, verified, started; stopped in the order that leaves the plant in MAN."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from attest import jsontext
from attest.command import SessionKey
from attest.errors import AttestError
from attest.evidence.verdict import Check, Verdict
from sitsedge.config.deployment import ReplayPlant, RollingMillPlant
from sitsedge.config.sources import Bridged, OpcUaSource, UadpSource
from sitsedge.errors import SitsError
from sitsedge.gate.control import request_mode
from sitsedge.gate.evidence import evidence_verifier, remembered
from sitsedge.loop.epoch import AttestationSetup, make_evidence
from sitsedge.supervisor.children import Children
from sitsedge.supervisor.groupkeys import key_path
from sitsedge.supervisor.prepare import Prepared, measure_application, prepare
from sitsedge.supervisor.revision import commit_revision
from sitsedge.supervisor.sealfiles import RESIDENT, seal_authority
from sitsedge.supervisor.serverpart import SERVER_MODULE, Revival, server_config, server_words
from sitsedge.supervisor.state import StateDir, deferred_lane
from sitsedge.telemetry import Snapshot, read_snapshot
from sitsedge.telemetry.process import END_COMMANDS

FIRST_COMMAND_TIMEOUT_S = 30.0
POLL_S = 0.05
END_POLL_S = 0.01
SILENCE_S = 3.0  # snapshots come twice a second
NONCE_BYTES = 32
BRIDGE_MODULE = "sitsedge.bridge.main"
PROVER_MODULE = "sitsedge.prover.main"
PROVER_RESTART_S = 0.5
PROVER_RESTART_S_MAX = 30.0
PROOFS_WAIT_S = 20.0
PROOFS_STILL_S = 3.0
END_WAIT_S = 0.2  # for answers on their way; well below a gate's silence_ms_max, so that no heartbeat is missed
TPM_RETRY_S = 5.0
PROVER_STABLE_S = 60.0  # one that ran this long may start again at once


@dataclass(frozen=True, slots=True)
class BootVerdict:
    """The outcome of ``--verify-on-boot``; ``verdict`` is ``None`` without evidence (mode ``none``, TPM lost)."""

    verdict: Verdict | None
    line: str
    ok: bool

    @property
    def checks(self) -> tuple[Check, ...]:
        return self.verdict.checks if self.verdict is not None else ()


@dataclass(frozen=True, slots=True)
class SessionOptions:
    """How a deployment is started; the overrides exist for demonstrations with an attacker in between."""

    attestation_mode: str = "tpm2"
    verify_on_boot: bool = True
    gate_socket: Path | None = None
    publish_port: int | None = None
    recordings: tuple[Path, ...] = ()
    replay_speed: float | None = None
    bundle: Path | None = None
    publisher: Path | None = None


class Session:
    """Use as a context manager: on leaving, everything that was started is stopped."""

    def __init__(self, path: Path, state: StateDir, options: SessionOptions, *, say: Callable[[str], None]) -> None:
        self.path = path
        self.state = state
        self.options = options
        self._say = say
        self._children = Children(state.run, state.logs)
        self.prepared: Prepared | None = None
        self._silent: set[str] = set()
        self._withdrawn: str | None = None
        self._prover_slow = False
        self._prover_started = 0.0
        self._prover_due: float | None = None
        self._prover_wait_s = PROVER_RESTART_S
        self._phase: str | None = None
        self._tpm_unmeasured = False
        self._tpm_retry = 0.0
        self._bridge: Revival | None = None
        self._server: Revival | None = None

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def prepare(self) -> Prepared:
        """Everything before the first process. Raises as :func:`sitsedge.supervisor.prepare.prepare`."""
        options = self.options
        self.prepared = prepare(
            self.path.absolute(),
            self.state,
            options.attestation_mode,
            say=self._say,
            bundle=options.bundle,
            publisher=options.publisher,
        )
        return self.prepared

    def verify_boot(self) -> BootVerdict:
        """Quote and verify once, as the gate will; anything but success caps the mode at ADVISORY until one succeeds.

        A TPM that does not answer is a failure with its reason, not an exception.
        """
        prepared = self._ready()
        mark = self.state.attestation_failed
        if self.options.attestation_mode == "none":
            mark.unlink(missing_ok=True)
            return BootVerdict(None, _line_without_attestation(prepared), ok=False)
        mark.write_text("the verification did not end", encoding="utf-8")  # whatever happens from here, fail closed
        key, nonce = SessionKey.generate(), os.urandom(NONCE_BYTES)
        try:
            evidence = make_evidence(self.attestation_setup(), key=key, nonce=nonce)
        except (AttestError, OSError) as error:
            code, found = _named(error)
            mark.write_text(f"{code}: {found}", encoding="utf-8")
            return BootVerdict(None, _line_without_evidence(prepared, f"{code} ({found})"), ok=False)
        finally:
            key.erase()
        verify = evidence_verifier(
            self.state,
            prepared.deployment,
            self.options.attestation_mode,
            module=prepared.bundle.digest,
            deployed=prepared.deployment_digest,
        )
        verdict = verify(evidence, nonce, time.time_ns(), remembered(self.state, prepared.gate_key))
        if verdict.ok:
            mark.unlink(missing_ok=True)
        else:
            failed = verdict.failed
            mark.write_text("no checks" if failed is None else f"{failed.name}: {failed.found}", encoding="utf-8")
        return BootVerdict(verdict, _line(prepared, verdict), ok=verdict.ok)

    @property
    def has_plc(self) -> bool:
        """Whether there is a PLC that will be left in MAN."""
        return self.prepared is not None and self.prepared.gate.plc is not None

    def attestation_setup(self) -> AttestationSetup:
        """What the loop process will attest with."""
        prepared = self._ready()
        tpm = prepared.tpm
        return AttestationSetup(
            mode=prepared.attestation_mode,
            device_id=prepared.deployment.device_id,
            gate_id=prepared.deployment.gate_id,
            module_digest=prepared.bundle.digest,
            deployment_digest=prepared.deployment_digest,
            gate_socket=self.state.gate_socket,
            ledger=self.state.device_ledger,
            tcti=None if tpm is None else tpm.tcti,
            record=b"" if tpm is None else (self.state.trust / "device-record.cbor").read_bytes(),
            event_log=self.state.event_log,
            ima=tpm is not None and prepared.deployment.attestation.ima,
            application_pcr=None if tpm is None else prepared.deployment.attestation.application_pcr,
            restarting=self.state.tpm_restarting,
            seal_authority=seal_authority(self.state) if prepared.attestation_mode == RESIDENT else None,
        )

    def start(self) -> None:
        """Plant (where simulated), gate, prover (deferred lane), loop, bridge. Raises ``ChildError``: call ``stop``.

        Before the first of them, the TPM's counter moves to this deployment's revision; raises ``TpmError``.
        """
        prepared = self._ready()
        self._commit_revision(prepared)
        files = ["--config", str(prepared.path), "--state-dir", str(self.state.root)]
        arguments = [*files, "--attestation-mode", prepared.attestation_mode]
        if prepared.deployment.profile == "production":
            self._children.without_old_bytecode()
        if isinstance(prepared.deployment.simulation, RollingMillPlant):
            self._say("starting the simulated mill and its PLC")
            config = self._write_plant_config(prepared, prepared.deployment.simulation)
            self._children.start("plant", "sitsedge.plant", ["--config", str(config)])
        if isinstance(prepared.deployment.simulation, ReplayPlant):
            self._say("starting the replay of recorded files")
            config = self._write_replay_config(prepared, prepared.deployment.simulation)
            self._children.start("plant", "sitsedge.replay", ["--config", str(config)])
        self._say("starting the gate")
        self._children.start("gate", "sitsedge.gate.main", arguments)
        if deferred_lane(prepared.deployment, self.state):
            self._say("starting the prover")
            self._children.start("prover", PROVER_MODULE, self._prover_arguments(), restartable=True)
        self._say("starting the loop")
        loop_arguments = [*arguments]
        if prepared.tpm is not None:
            loop_arguments += ["--tcti", prepared.tpm.tcti]
        if self.options.gate_socket is not None:
            loop_arguments += ["--gate-socket", str(self.options.gate_socket)]
        self._children.start("sitsd", "sitsedge.loop.main", loop_arguments)
        if isinstance(prepared.deployment.source, Bridged):
            self._say("starting the bridge")
            self._children.start("bridge", BRIDGE_MODULE, files, restartable=True)
            self._bridge = Revival(self._children, "bridge", BRIDGE_MODULE, files, self._say)
        if prepared.deployment.server is not None:
            self._say(f"starting the OPC UA server at {prepared.deployment.server.endpoint}")
            for word in server_words(prepared.deployment, prepared.path, self.state)[1:]:
                self._say(f"warning: {word}")
            data = server_config(prepared.deployment, prepared.gate, prepared.bundle, prepared.path, self.state)
            arguments = ["--config", str(self._write("server-config.json", data))]
            self._server = Revival(self._children, "server", SERVER_MODULE, arguments, self._say)
            self._server.start()

    @staticmethod
    def _commit_revision(prepared: Prepared) -> None:
        if prepared.tpm is None or prepared.deployment.revision is None:
            return
        from attest.tpm import TpmDevice

        with TpmDevice(prepared.tpm.tcti) as tpm:
            commit_revision(tpm, prepared.deployment)

    def _prover_arguments(self) -> list[str]:
        return ["--config", str(self._ready().path), "--state-dir", str(self.state.root)]

    def _revive_prover(self) -> None:
        """The prover is started again, ever later: its queue is on disk, and the gate counts what comes too late."""
        now = time.monotonic()
        said = self._children.reap("prover")
        if said is not None:
            if now - self._prover_started > PROVER_STABLE_S:
                self._prover_wait_s = PROVER_RESTART_S
            self._say(f"the prover ended with {said}; starting it again in {self._prover_wait_s:.1f} s")
            self._prover_due = now + self._prover_wait_s
            self._prover_wait_s = min(2 * self._prover_wait_s, PROVER_RESTART_S_MAX)
        if self._prover_due is not None and now >= self._prover_due:
            self._prover_due, self._prover_started = None, now
            self._children.spawn("prover", PROVER_MODULE, self._prover_arguments(), restartable=True)

    def check(self) -> None:
        """Raise ``ChildError`` when a process ended by itself; a simulated TPM that died is power-cycled.

        The open epoch does not need the TPM, so the plant notices nothing; the next epoch does. A prover that died is
        started again, and so is a bridge: without it no command is made, and gate and PLC fail safe meanwhile.
        """
        self._revive_prover()
        for revival in (self._bridge, self._server):
            if revival is not None:
                revival.check()
        self._children.check()
        self._watch_silence()
        self._watch_verified()
        self._watch_prover()
        self._watch_attestation()
        self._revive_tpm()

    def _revive_tpm(self) -> None:
        """A simulated TPM that died is power-cycled; if that fails, it is tried again, and the open epoch runs on."""
        swtpm = self._ready().swtpm
        if swtpm is None or (swtpm.pid is not None and not self._tpm_unmeasured):
            return
        now = time.monotonic()
        if now < self._tpm_retry:
            return
        self._say("the simulated TPM died: restarting it and measuring again, as after a power cycle")
        try:
            self.restart_tpm()
        except AttestError as error:
            self._say(f"warning: the simulated TPM does not come back: {error}; trying again")
            self._tpm_retry = time.monotonic() + TPM_RETRY_S

    def _watch_attestation(self) -> None:
        """Say once what the gate makes of this machine's attestation while it runs."""
        snapshot = read_snapshot(self.state.run, "gate")
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

    def _watch_silence(self) -> None:
        """Say once when a living process stops telling how it is (stopped, starved, hung), and when it is back."""
        for name in ("sitsd", "gate", "plant", "bridge", "prover", "server"):
            snapshot = read_snapshot(self.state.run, name)
            silent = snapshot is not None and snapshot.alive and snapshot.age_s > SILENCE_S
            if silent and name not in self._silent:
                harm = "only who looks is concerned" if name == "server" else "gate and PLC fail safe by themselves"
                self._say(f"warning: {name} has said nothing for {SILENCE_S:.0f} s; {harm}")
                self._silent.add(name)
            elif not silent and name in self._silent:
                self._say(f"{name} answers again")
                self._silent.discard(name)

    def _watch_verified(self) -> None:
        """Say once when the gate withdraws "verified" because of owed proofs, and when it stands by it again."""
        snapshot = read_snapshot(self.state.run, "gate")
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

    def _watch_prover(self) -> None:
        """Say once when the prover, by its own measurement at the start, cannot keep up with the cycle."""
        snapshot = read_snapshot(self.state.run, "prover")
        pace = {} if snapshot is None else snapshot.data.get("pace") or {}
        slow = pace.get("keeps_up") is False
        if slow and not self._prover_slow:
            self._say(
                f"warning: prover-slow: a proof takes {pace['proof_ms']} ms, a command comes every "
                f"{pace['period_ms']} ms; proofs will be overdue. Raise cycle.period_ms or cycle.proof_threads"
            )
        self._prover_slow = slow

    def wait_for_commands(self, count: int, *, timeout_s: float = FIRST_COMMAND_TIMEOUT_S) -> None:
        """Until the loop had ``count`` accepted commands. Raises :class:`SitsError` ``no-commands``."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            self.check()
            snapshot = self.loop_snapshot()
            if snapshot is not None and int(snapshot.data.get("accepted", 0)) >= count:
                return
            time.sleep(POLL_S)
        snapshot = self.loop_snapshot()
        refused = snapshot.data.get("refused") if snapshot is not None else None
        raise SitsError(
            "no-commands",
            found=f"fewer than {count} accepted commands in {timeout_s:.0f} s (refused: {refused})",
            expected="a running loop",
            hint=f"see sitsd.log and gate.log in {self.state.logs}",
        )

    def loop_snapshot(self) -> Snapshot | None:
        """What the loop last said."""
        return read_snapshot(self.state.run, "sitsd")

    def stop(self) -> None:
        """Loop first, then gate (it puts the PLC in MAN), plant last, TPM at the very end.

        Where proofs are owed, the PLC is put in MAN first and the prover is given some time for them.
        """
        self._await_proofs()
        for name in ("server", "bridge", "sitsd", "prover", "gate", "plant"):
            self._children.stop(name)
        self._children.stop_all()
        if self.prepared is not None and self.prepared.swtpm is not None:
            self.prepared.swtpm.stop()

    def _await_proofs(self) -> None:
        """While something moves and the limit lasts; what is left waits on disk for the next start."""
        owed = self._proofs_owed()
        if not owed:
            return
        self._end_commands()
        try:
            request_mode(self.state.gate_control, "OFF", [], "stop")
        except SitsError:
            return  # a gate that does not answer will confirm no proof either
        self._say(f"waiting for {owed} owed proofs")
        end = time.monotonic() + PROOFS_WAIT_S
        moved = time.monotonic()
        while (left := self._proofs_owed()) and time.monotonic() < min(end, moved + PROOFS_STILL_S):
            if left < owed:
                owed, moved = left, time.monotonic()
            time.sleep(POLL_S)
        if left:
            self._say(f"{left} proofs still owed: they are made after the next start")

    def _end_commands(self) -> None:
        """The loop decides nothing more: in mode OFF each command would be a refusal with a signed record."""
        self._children.signal("sitsd", END_COMMANDS)
        end = time.monotonic() + END_WAIT_S
        while time.monotonic() < end:
            snapshot = self.loop_snapshot()
            if snapshot is None or (snapshot.data.get("ending") and not snapshot.data.get("pending")):
                return
            time.sleep(END_POLL_S)

    def _proofs_owed(self) -> int:
        """As the gate last said; none where one of the three processes that bring proofs home does not run."""
        snapshots = [read_snapshot(self.state.run, name) for name in ("gate", "sitsd", "prover")]
        if not all(snapshot is not None and snapshot.alive and snapshot.state == "running" for snapshot in snapshots):
            return 0
        gate = snapshots[0]
        return 0 if gate is None else int(gate.data.get("proofs", {}).get("owed", 0))

    def restart_tpm(self) -> None:
        """Power-cycle a simulated TPM and measure again: what a reboot would do."""
        prepared = self._ready()
        if prepared.swtpm is None or prepared.tpm is None:
            raise SitsError("tpm-hardware", found="a hardware TPM", expected="a simulated one", hint="reboot instead")
        from attest.boot import measure
        from attest.tpm import TpmDevice

        self._tpm_unmeasured = True
        self.state.tpm_restarting.touch()
        prepared.swtpm.stop()
        prepared.swtpm.start()
        with TpmDevice(prepared.tpm.tcti) as tpm:
            measure.measure_software(tpm, log_path=self.state.event_log)
            measure_application(tpm, prepared)
        self.state.tpm_restarting.unlink(missing_ok=True)
        self._tpm_unmeasured = False

    def _ready(self) -> Prepared:
        assert self.prepared is not None, "prepare first"
        return self.prepared

    def _write_plant_config(self, prepared: Prepared, plant: RollingMillPlant) -> Path:
        source = prepared.deployment.source
        assert isinstance(source, UadpSource)
        assert prepared.gate.plc is not None
        pki = self.state.pki
        config: dict[str, Any] = {
            "version": 1,
            "seed": plant.seed,
            "publish": {
                "address": source.address,
                "port": self.options.publish_port or source.port,
                "hz": plant.publish_hz,
                "publisher_id": source.publisher_id,
                "writer_group_id": source.writer_group_id,
                "data_set_writer_id": source.data_set_writer_id,
            },
            "opcua": {
                "endpoint": prepared.gate.plc.endpoint,
                "certificate": str(pki / "plc.der"),
                "private_key": str(pki / "plc.key.pem"),
                "trusted": str(pki / "plc-trusted"),
                "gate": str(pki / "plc-gate"),
                "operator": str(pki / "plc-operator"),
            },
            "run_dir": str(self.state.run),
            "log_dir": str(self.state.logs),
            "record": str(self.state.run / "plant-record.npz"),
        }
        if source.security is not None:
            keys = str(key_path(source.security, self.state).absolute())
            config["publish"]["security"] = {**source.security.model_dump(exclude={"credential"}), "keys": keys}
        if prepared.deployment.cycle.fifo_priority is not None:
            config["fifo_priority"] = max(1, prepared.deployment.cycle.fifo_priority - 2)
        return self._write("plant-config.json", config)

    def _write_replay_config(self, prepared: Prepared, plant: ReplayPlant) -> Path:
        source = prepared.deployment.source
        assert isinstance(source, OpcUaSource)
        pki = self.state.pki
        config: dict[str, Any] = {
            "version": 1,
            "recordings": [str(path.absolute()) for path in self.options.recordings],
            "columns": [column.model_dump() for column in plant.columns],
            "time_column": plant.time_column,
            "delimiter": plant.delimiter,
            "endpoint": source.endpoint,
            "namespace": source.namespace,
            "certificate": str(pki / "server.der"),
            "private_key": str(pki / "server.key.pem"),
            "trusted": str(pki / "server-trusted"),
            "speed": plant.speed if self.options.replay_speed is None else self.options.replay_speed,
            "gap_s_max": plant.gap_s_max,
            "journal": str(self.state.run / "replay-journal.csv"),
            "run_dir": str(self.state.run),
            "log_dir": str(self.state.logs),
        }
        return self._write("replay-config.json", config)

    def _write(self, name: str, config: dict[str, Any]) -> Path:
        path = self.state.run / name
        path.write_text(jsontext.dumps(config, indent=1), encoding="utf-8")
        return path


def _line(prepared: Prepared, verdict: Verdict) -> str:
    """The summary line; ``OK`` only when every check was made and passed."""
    assert prepared.tpm is not None
    fields = [
        f"DeviceID={_handle(prepared)}",
        f"ModelSHA256={prepared.bundle.digest.hex()}",
    ]
    if verdict.ok:
        fields += [
            "PolicySig=valid",
            f"BootPolicy={verdict.policy_name} v{verdict.policy_version} ({verdict.boot_state})",
        ]
        fields.append(f"AK={verdict.ak_name.hex()}")
        head = "Verified: [OK]"
    else:
        failed = verdict.failed
        signature = next((check for check in verdict.checks if check.name == "boot-policy-signature"), None)
        fields.append(f"PolicySig={'valid' if signature is not None and signature.ok else 'invalid'}")
        fields.append(f"Failed={'no checks' if failed is None else f'{failed.name} ({failed.found})'}")
        fields.append("Mode<=ADVISORY")
        head = "Verified: [FAILED]"
    fields += [f"TPM={prepared.tpm.kind}", f"Device={prepared.deployment.device_id}"]
    fields.append(f"ProofKey={'development' if prepared.bundle.config.proof.development else 'ceremony'}")
    fields.append(f"Profile={prepared.deployment.profile}")
    return f"{head} {' | '.join(fields)}"


def _line_without_attestation(prepared: Prepared) -> str:
    return (
        f"Verified: [NOT ATTESTED] DeviceID=none | ModelSHA256={prepared.bundle.digest.hex()} | PolicySig=none"
        f" | TPM=none | Device={prepared.deployment.device_id} | Profile={prepared.deployment.profile}"
    )


def _line_without_evidence(prepared: Prepared, failed: str) -> str:
    assert prepared.tpm is not None
    return (
        f"Verified: [FAILED] DeviceID=unavailable | ModelSHA256={prepared.bundle.digest.hex()} | Failed={failed}"
        f" | Mode<=ADVISORY | TPM={prepared.tpm.kind} | Device={prepared.deployment.device_id}"
        f" | Profile={prepared.deployment.profile}"
    )


def _handle(prepared: Prepared) -> str:
    """The AK's handle. The evidence is made by now: a TPM lost since then is not what the line is about."""
    from attest.tpm import TpmDevice

    assert prepared.tpm is not None
    try:
        with TpmDevice(prepared.tpm.tcti) as tpm:
            return f"TPM2:0x{tpm.ak().handle:08X}"
    except AttestError:
        return "unavailable"


def _named(error: AttestError | OSError) -> tuple[str, str]:
    if isinstance(error, AttestError):
        return error.code, error.found
    return "evidence-file", str(error)
