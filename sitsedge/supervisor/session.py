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
from sitsedge.config.deployment import ReplayPlant, RollingMillPlant
from sitsedge.config.sources import Bridged
from sitsedge.errors import SitsError
from sitsedge.gate.control import request_mode
from sitsedge.gate.evidence import evidence_verifier, remembered
from sitsedge.loop.epoch import AttestationSetup, make_evidence
from sitsedge.supervisor.bootline import (
    BootVerdict,
    line_without_attestation,
    line_without_evidence,
    named,
    summary_line,
)
from sitsedge.supervisor.children import Children
from sitsedge.supervisor.plantfiles import mill_config, replay_config
from sitsedge.supervisor.prepare import Prepared, measure_application, prepare
from sitsedge.supervisor.revision import commit_revision
from sitsedge.supervisor.revival import Revival
from sitsedge.supervisor.sealfiles import RESIDENT, seal_authority
from sitsedge.supervisor.serverpart import SERVER_MODULE, server_config, server_words
from sitsedge.supervisor.state import StateDir, deferred_lane
from sitsedge.supervisor.watch import Watch
from sitsedge.telemetry import Snapshot, read_snapshot
from sitsedge.telemetry.process import END_COMMANDS

FIRST_COMMAND_TIMEOUT_S = 30.0
POLL_S = 0.05
END_POLL_S = 0.01
NONCE_BYTES = 32
BRIDGE_MODULE = "sitsedge.bridge.main"
PROVER_MODULE = "sitsedge.prover.main"
PROOFS_WAIT_S = 20.0
PROOFS_STILL_S = 3.0
END_WAIT_S = 0.2  # for answers on their way; well below a gate's silence_ms_max, so that no heartbeat is missed
TPM_RETRY_S = 5.0


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
        self._watch = Watch(state.run, say)
        self._revivals: list[Revival] = []
        self._tpm_unmeasured = False
        self._tpm_retry = 0.0

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
            return BootVerdict(None, line_without_attestation(prepared), ok=False)
        mark.write_text("the verification did not end", encoding="utf-8")  # whatever happens from here, fail closed
        key, nonce = SessionKey.generate(), os.urandom(NONCE_BYTES)
        try:
            evidence = make_evidence(self.attestation_setup(), key=key, nonce=nonce)
        except (AttestError, OSError) as error:
            code, found = named(error)
            mark.write_text(f"{code}: {found}", encoding="utf-8")
            return BootVerdict(None, line_without_evidence(prepared, f"{code} ({found})"), ok=False)
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
        return BootVerdict(verdict, summary_line(prepared, verdict), ok=verdict.ok)

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
            config = self._write(
                "plant-config.json",
                mill_config(prepared, prepared.deployment.simulation, publish_port=self.options.publish_port),
            )
            self._children.start("plant", "sitsedge.plant", ["--config", str(config)])
        if isinstance(prepared.deployment.simulation, ReplayPlant):
            self._say("starting the replay of recorded files")
            config = self._write(
                "replay-config.json",
                replay_config(
                    prepared,
                    prepared.deployment.simulation,
                    recordings=self.options.recordings,
                    speed=self.options.replay_speed,
                ),
            )
            self._children.start("plant", "sitsedge.replay", ["--config", str(config)])
        self._say("starting the gate")
        self._children.start("gate", "sitsedge.gate.main", arguments)
        if deferred_lane(prepared.deployment, self.state):
            self._say("starting the prover")
            self._children.start("prover", PROVER_MODULE, files, restartable=True)
            self._revivals.append(Revival(self._children, "prover", PROVER_MODULE, files, self._say))
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
            self._revivals.append(Revival(self._children, "bridge", BRIDGE_MODULE, files, self._say))
        if prepared.deployment.server is not None:
            self._say(f"starting the OPC UA server at {prepared.deployment.server.endpoint}")
            for word in server_words(prepared.deployment, prepared.path, self.state)[1:]:
                self._say(f"warning: {word}")
            data = server_config(prepared.deployment, prepared.gate, prepared.bundle, prepared.path, self.state)
            arguments = ["--config", str(self._write("server-config.json", data))]
            server = Revival(self._children, "server", SERVER_MODULE, arguments, self._say)
            server.start()
            self._revivals.append(server)

    @staticmethod
    def _commit_revision(prepared: Prepared) -> None:
        if prepared.tpm is None or prepared.deployment.revision is None:
            return
        from attest.tpm import TpmDevice

        with TpmDevice(prepared.tpm.tcti) as tpm:
            commit_revision(tpm, prepared.deployment)

    def check(self) -> None:
        """Raise ``ChildError`` when a process ended by itself; a simulated TPM that died is power-cycled.

        The open epoch does not need the TPM, so the plant notices nothing; the next epoch does. A prover that died is
        started again, and so is a bridge: without it no command is made, and gate and PLC fail safe meanwhile.
        """
        for revival in self._revivals:
            revival.check()
        self._children.check()
        self._watch.look()
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

    def _write(self, name: str, config: dict[str, Any]) -> Path:
        path = self.state.run / name
        path.write_text(jsontext.dumps(config, indent=1), encoding="utf-8")
        return path
