"""``sits-gate``: the process. Reads its own files, connects to the PLC, serves the packet and control sockets."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import hashlib
import logging
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from attest import jsontext
from attest.command import (
    EpochOpened,
    GateKey,
    LedgerClosed,
    Mode,
    ProofKind,
    ProofVerifier,
    Witness,
    sign_record,
)
from attest.errors import AttestError
from attest.evidence.seen import NOTHING_SEEN
from attest.ledger import Checkpoint, LedgerError, RecordKind
from attest.ledger.writer import LedgerWriter
from attest.proof import NativeVerifier
from fieldbus.errors import FieldbusError
from sitsedge.config import ConfigError, GateFile, load_deployment, load_gate_file
from sitsedge.config.consistency import check
from sitsedge.config.deployment import deployment_digest
from sitsedge.errors import SitsError
from sitsedge.gate.book import GateBook
from sitsedge.gate.control import LINE_BYTES_MAX
from sitsedge.gate.core import Gate, GateSetup, ProofCheck
from sitsedge.gate.delivery import Delivery, DeliverySetup
from sitsedge.gate.epochs import DeskSetup, EpochDesk
from sitsedge.gate.evidence import evidence_verifier, last_record, last_seen
from sitsedge.gate.modes import IncidentLatch, ModeKeeper, parse_mode
from sitsedge.gate.plc import PlcPort
from sitsedge.gate.plc.make import make_port
from sitsedge.gate.proofs import DeskLimits, ProofDesk
from sitsedge.gate.rules import gate_rules
from sitsedge.gate.server import PacketServer
from sitsedge.modules import Bundle, ModuleStore, PublisherTrust
from sitsedge.modules.profile import require_ceremony_keys
from sitsedge.sandbox import Sandbox, SandboxError, SandboxLimits
from sitsedge.supervisor.sealfiles import MODES
from sitsedge.supervisor.state import StateDir, read_mark, state_dir_of
from sitsedge.telemetry import percentiles_ms, prepare_process, write_snapshot
from sitsedge.telemetry.process import freeze_garbage, notify

NS_PER_MS = 1_000_000
SNAPSHOT_S = 0.5
NEWEST = 1000
PLC_CLOSE_S = 5.0
MARK_S = 10.0
log = logging.getLogger("sitsedge.gate")


class GateProcess:
    """One gate with its sockets, its PLC and its ledger."""

    def __init__(self, config: Path, state: StateDir, attestation_mode: str) -> None:
        self.deployment = load_deployment(config)
        self.gate_path = config.parent / self.deployment.gate_file
        self.file: GateFile = load_gate_file(self.gate_path)
        self.state = state
        trust = PublisherTrust.from_files(sorted(state.trust.glob("publisher*.pub")))
        self._store = ModuleStore(state.modules, trust)
        self.bundle: Bundle = self._store.load_active()
        module = self.bundle.config
        require_ceremony_keys(self.deployment.profile, module)
        check(self.deployment, config, self.file, self.gate_path, inputs=module.inputs, outputs=module.outputs)
        self.key = GateKey.load(state.keys / "gate.key")
        self.rules = gate_rules(self.file, self.deployment, self.bundle.config)
        self.attestation_mode = attestation_mode
        self.deployed = deployment_digest(config)
        self.stopping = asyncio.Event()
        self._server = PacketServer(state.gate_socket, self._handle)
        self._plc = self._make_plc()
        self._ledger = LedgerWriter(
            state.gate_ledger,
            origin=self.deployment.gate_origin,
            signer=self.key,
            checkpoint_ms=self.deployment.ledger.checkpoint_ms,
        )
        self.latch = IncidentLatch(state.keys / "incident")
        self._delivery: Delivery | None = None
        self._gate = self._make_gate()
        self._mark_due = 0.0

    def _make_plc(self) -> PlcPort | None:
        if self.file.plc is None:
            return None
        return make_port(self.file, self.gate_path, self.state.pki, self.bundle.config.outputs)

    def _make_gate(self) -> Gate:
        deployment, bundle = self.deployment, self.bundle
        vk_digest = hashlib.sha256(bundle.verification_key).digest()
        trust = self.state.trust
        tpm = self.attestation_mode != "none"
        opened = last_record(self.state.gate_ledger, RecordKind.EPOCH_OPENED, self.key)
        witness = last_record(self.state.gate_ledger, RecordKind.WITNESS, self.key)
        desk = EpochDesk(
            DeskSetup(
                gate_id=deployment.gate_id,
                device_id=deployment.device_id,
                device_origin=deployment.device_origin,
                module_digest=bundle.digest,
                deployment_digest=self.deployed,
                rules_digest=self.rules.digest(),
                vk_digest=vk_digest if self.file.proof != "off" else b"",
                record_digest=_digest(trust / "device-record.cbor") if tpm else b"",
                policy_digest=_digest(trust / "boot-policy.cose") if tpm else b"",
                epoch_s_max=deployment.attestation.epoch_s_max,
            ),
            key=self.key,
            verify=evidence_verifier(
                self.state, deployment, self.attestation_mode, module=bundle.digest, deployed=self.deployed
            ),
            number=opened.epoch if isinstance(opened, EpochOpened) else 0,
            accepted=last_seen(self.state, opened if isinstance(opened, EpochOpened) else None)
            if tpm
            else NOTHING_SEEN,
            seen=Checkpoint(witness.origin, witness.size, witness.root) if isinstance(witness, Witness) else None,
        )
        guest = bundle.config.guest
        limits = SandboxLimits.of_guest(fuel_per_call=guest.fuel_per_call, memory_bytes=guest.memory_bytes)
        self._explainer = Sandbox.of(bundle, limits=limits, engine="pulley")
        book = GateBook(deployment.gate_id, self.key, self._ledger)
        silence_ns = round(self.file.silence_ms_max * NS_PER_MS)
        if self._plc is not None:
            scales = tuple(signal.scale for signal in bundle.config.outputs)
            delivery = DeliverySetup(scales, silence_ns, round(self.file.readback_ms_max * NS_PER_MS))
            self._delivery = Delivery(delivery, plc=self._plc, book=book)
        verifier = NativeVerifier(bundle.verification_key, vk_sha256=vk_digest)
        self._proofs = self._make_proofs(book)
        return Gate(
            GateSetup(self.rules, silence_ns),
            book=book,
            desk=desk,
            modes=self._make_modes(),
            delivery=self._delivery,
            proof=ProofCheck(verifier, self._explain),
            announce=self._server.broadcast,
            latch=self.latch,
            proofs=self._proofs,
        )

    def _explain(self, inputs: tuple[int, ...]) -> tuple[int, ...]:
        """The model's own outputs; none for inputs on which the module traps."""
        try:
            return self._explainer.infer(inputs)
        except SandboxError as error:
            log.error("the model on %s: %s", inputs, error)
            self._explainer.reset()
            return ()

    def _make_proofs(self, book: GateBook) -> ProofDesk:
        """What earlier lives of this gate are still owed comes from its ledger, where there was a deferred lane."""

        def key_of(module_digest: bytes) -> tuple[ProofVerifier, ProofKind]:
            module = self.bundle if module_digest == self.bundle.digest else self._store.load(module_digest)
            key = module.verification_key
            return NativeVerifier(key, vk_sha256=hashlib.sha256(key).digest()), module.config.proof.kind

        mark = self.state.gate_ledger.with_name("owed.json")
        limits = DeskLimits(self.rules.proof_deadline_ms * NS_PER_MS, self.rules.proof_backlog_max)
        desk = ProofDesk(limits, book=book, key_of=key_of, mark=mark)
        self._keeps_mark = self.file.proof == "deferred" or mark.exists()
        if self._keeps_mark:
            desk.replay(self.state.gate_ledger, self.key.public)
        return desk

    def _make_modes(self) -> ModeKeeper:
        if self._plc is None:
            return ModeKeeper(ceiling=Mode.SHADOW, ceiling_reason="the gate file names no PLC")
        if (failed := read_mark(self.state.attestation_failed)) is not None:
            return ModeKeeper(ceiling=Mode.ADVISORY, ceiling_reason=f"attestation failed at start: {failed}")
        return ModeKeeper(ceiling=Mode.AUTO, ceiling_reason="")

    async def _handle(self, connection: Any, message: dict[str, Any], received_mono_ns: int) -> None:
        await self._gate.handle(connection, message, received_mono_ns)

    async def run(self) -> None:
        """Serve until SIGTERM or SIGINT; then leave the PLC in MAN with the last applied value."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stopping.set)
        self._snapshot("starting")
        control: asyncio.Server | None = None
        try:
            if self._plc is not None and self._delivery is not None:
                await self._plc.connect()
                self._delivery.last_applied = await self._plc.read_back()
            self._server.start()
            control = await self._serve_control()
            self._enter_initial_mode()
            freeze_garbage(disable=False)
            notify("READY=1")
            await self._loop()
        finally:
            notify("STOPPING=1")
            await self._close(control)

    def _enter_initial_mode(self) -> None:
        """The deployment file's mode, unless something says that people have to look first."""
        wish = self.deployment.mode
        to, reason = Mode[wish.initial], "initial mode of the deployment file"
        incident = self.latch.read()
        if incident is not None and to > Mode.ADVISORY:
            log.error("the mode stays at ADVISORY until two people approve: %s", incident)
            to, reason = Mode.ADVISORY, f"latched: {incident}"
        self._gate.check_proofs(time.time_ns())  # what was owed at the stop may be overdue by now
        if self._proofs.withdrawn is not None and to > Mode.ADVISORY:
            log.error("the mode stays at ADVISORY until people approve: %s", self._proofs.withdrawn)
            to, reason = Mode.ADVISORY, f"verified withdrawn: {self._proofs.withdrawn}"
        if (failed := read_mark(self.state.attestation_failed)) is not None:
            self._gate.book.alarm("attestation-at-boot", failed, "an attested machine", sequence=0)
        modes = self._gate.modes
        if to > modes.ceiling:
            log.error("the mode stays at %s: %s", modes.ceiling.name, modes.ceiling_reason)
            to, reason = modes.ceiling, modes.ceiling_reason
        self._gate.change_mode(to, wish.approved_by or ["deployment"], reason)

    async def _loop(self) -> None:
        while not self.stopping.is_set():
            if (failure := self._failure()) is not None:
                raise failure
            self._gate.supervise()
            self._keep_mark()
            self._snapshot("running")
            notify("WATCHDOG=1")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(SNAPSHOT_S):
                    await self.stopping.wait()

    def _failure(self) -> BaseException | None:
        """Why this process must not look alive."""
        delivery = None if self._delivery is None else self._delivery.failure
        return self._server.worker_failure() or delivery

    def _keep_mark(self) -> None:
        if self._keeps_mark and time.monotonic() >= self._mark_due:
            self._mark_due = time.monotonic() + MARK_S
            self._proofs.keep_mark(self._ledger.size)

    async def _close(self, control: asyncio.Server | None) -> None:
        await self._server.close()
        if control is not None:
            control.close()
            self.state.gate_control.unlink(missing_ok=True)
        await self._gate.stop()
        if self._plc is not None:
            with contextlib.suppress(TimeoutError):  # a PLC that hangs must not keep the ledger from closing
                async with asyncio.timeout(PLC_CLOSE_S):
                    await self._plc.close()
        self._close_ledger()
        self._explainer.close()
        self._snapshot("stopped")

    def _close_ledger(self) -> None:
        try:
            size = self._ledger.flush(timeout_s=10.0)
            closed = LedgerClosed(self.deployment.gate_origin, size, "stopped", time.time_ns())
            self._ledger.submit(RecordKind.LEDGER_CLOSED, sign_record(closed, self.key))
            self._ledger.close()
        except LedgerError as error:
            log.error("the ledger did not close in order: %s", error)

    def _snapshot(self, state: str) -> None:
        gate, delivery = self._gate, self._delivery
        applied = None if delivery is None else delivery.last_applied
        data = {
            "mode": gate.modes.mode.name,
            "epoch": gate.epoch_number,
            "accepted": gate.accepted,
            "refused": dict(gate.refused),
            "alarms": dict(gate.book.alarms),
            "verify": percentiles_ms(gate.verify_ring.newest(NEWEST)),
            "write": {} if delivery is None else percentiles_ms(delivery.write_ring.newest(NEWEST)),
            "plc_connected": None if self._plc is None else self._plc.connected,
            "plc": None if self._plc is None else self._plc.health(),
            "superseded": 0 if delivery is None else delivery.superseded,
            "auto_active": None if applied is None else applied.auto_active,
            "ledger_size": self._ledger.size,
            "overflow": self._server.overflow,
            "attestation_mode": self.attestation_mode,
            "attestation": gate.watch.summary(),
            "incident": self.latch.read(),
            "ceiling": gate.modes.ceiling.name,
            "ceiling_reason": gate.modes.ceiling_reason or None,
            **self._verified(),
        }
        write_snapshot(self.state.run, "gate", state, data)

    def _verified(self) -> dict[str, Any]:
        """Whether what is accepted now counts as verified, or why not; and what is owed."""
        desk, policy = self._proofs, self.file.proof
        reason = "proofs are off" if policy == "off" else desk.withdrawn
        due = desk.oldest_due_ns()
        age_ms = None if not due else (time.time_ns() - due) // NS_PER_MS + self.rules.proof_deadline_ms
        proofs = {"policy": policy, "owed": desk.owed, "oldest_age_ms": age_ms, "received": desk.received}
        proofs["hold"] = desk.hold
        return {"verified": reason is None, "verified_reason": reason, "proofs": proofs | {"late": desk.late}}

    async def _serve_control(self) -> asyncio.Server:
        path = self.state.gate_control
        path.unlink(missing_ok=True)
        mask = os.umask(0o177)
        try:
            return await asyncio.start_unix_server(self._control, path=path, limit=LINE_BYTES_MAX)
        finally:
            os.umask(mask)

    async def _control(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(5.0):
                answer = self._answer(await reader.readline())
                writer.write(jsontext.dumps(answer).encode() + b"\n")
                await writer.drain()
        except (OSError, TimeoutError, ValueError) as error:
            log.warning("control socket: %s", error)
        finally:
            writer.close()

    def _answer(self, request_line: bytes) -> dict[str, Any]:
        try:
            request = jsontext.loads(request_line)
            action, names = request["do"], request.get("approved_by", [])
            if action != "mode" or not all(isinstance(name, str) for name in names):
                raise ValueError
        except (ValueError, KeyError, TypeError):
            return {"ok": False, "code": "control-request", "found": "another shape", "expected": "a mode request"}
        try:
            to = parse_mode(request.get("to"))
            if request.get("only_down"):
                self._gate.modes.require_down(to)
            change = self._gate.change_mode(to, names, str(request.get("reason") or "by hand"))
        except (SitsError, AttestError) as error:
            return {"ok": False, "code": error.code, "found": error.found, "expected": error.expected}
        return {"ok": True, "from": change.before.name, "to": change.after.name, "approved_by": change.approved_by}


def _digest(path: Path) -> bytes:
    return hashlib.sha256(path.read_bytes()).digest()


async def _serve(config: Path, state: StateDir, attestation_mode: str) -> None:
    await GateProcess(config, state, attestation_mode).run()


def main(argv: list[str] | None = None) -> int:
    """Exit codes: 0 stopped as asked, 1 failed while running, 2 wrong configuration."""
    parser = argparse.ArgumentParser(prog="sits-gate", description="verifies every command, then writes to the PLC")
    parser.add_argument("--config", type=Path, required=True, help="deployment file")
    parser.add_argument("--state-dir", type=Path, help="state folder")
    parser.add_argument("--attestation-mode", choices=MODES, default="tpm2")
    arguments = parser.parse_args(argv)
    try:
        deployment = load_deployment(arguments.config)
        state = state_dir_of(deployment, arguments.state_dir)
        state.create()
        priority = deployment.cycle.fifo_priority
        prepare_process("gate", state.logs, fifo_priority=None if priority is None else priority - 1)
        asyncio.run(_serve(arguments.config, state, arguments.attestation_mode))
    except ConfigError as error:
        log.error("%s", error)
        sys.stderr.write(f"{error}\n")
        return 2
    except (SitsError, AttestError, FieldbusError) as error:
        log.error("%s", error)
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
