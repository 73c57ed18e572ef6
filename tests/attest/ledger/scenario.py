"""A device and a gate that really sign, prove, judge and record, for audits to look at."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from attest.command import (
    Accepted,
    Command,
    CommandHeader,
    CycleRefused,
    EpochClosed,
    EpochOpened,
    GateRules,
    GateState,
    InputRule,
    LateProof,
    LedgerClosed,
    Mode,
    ModeChange,
    OpenEpoch,
    OutputRule,
    ProofKind,
    ProofReceipt,
    ProofStatus,
    ReadBack,
    Receipt,
    Refusal,
    Relation,
    SessionKey,
    TimeQuality,
    Witness,
    judge,
    sign_command,
    sign_record,
)
from attest.evidence.none import build_none
from attest.ledger import Ledger
from attest.ledger.anchors import write_anchors
from attest.proof import (
    CircuitBuilder,
    Curve,
    Groth16Prover,
    Interval,
    NativeVerifier,
    development_setup,
    key_hash,
)
from attest.proof.circuit import on_curve
from attest.proof.commitment import statement_commitment
from tests.attest.evidence import forge
from tests.attest.evidence.forge import POLICY_SIGNER, Case

RECORD = replace(forge.RECORD, device_id="TPM2:0x81000001")
RECORD_FILE, POLICY_FILE = RECORD.sign(POLICY_SIGNER), forge.POLICY.sign(POLICY_SIGNER)
T0 = 1_790_000_000_000_000_000
MS = 1_000_000


def tiny_circuit() -> bytes:
    """y = max(0, x0 + 2 x1)."""
    builder = CircuitBuilder(n_inputs=2, n_outputs=1)
    x0, x1 = builder.inputs()
    builder.add_out(0, builder.relu_shift(x0 + x1 * 2, Interval(-3000, 3000)))
    return builder.finish().encode()


CIRCUIT = tiny_circuit()
CIRCUIT_LAYER = {"mediaType": "application/vnd.sits.circuit", "digest": f"sha256:{hashlib.sha256(CIRCUIT).hexdigest()}"}
MODULE_MANIFEST = json.dumps({"layers": [CIRCUIT_LAYER]}).encode()
MODULE = hashlib.sha256(MODULE_MANIFEST).digest()
DEPLOYMENT = hashlib.sha256(b"deployment").digest()
DEVICE_ID, GATE_ID = "TPM2:0x81000001", "gate-1"
DEVICE_ORIGIN, GATE_ORIGIN = "sits/device/stand-1", "sits/gate/stand-1"

RULES = GateRules(
    gate_id=GATE_ID,
    inputs=(InputRule("force", -1000, 1000, 50_000_000), InputRule("gap", -1000, 1000)),
    outputs=(OutputRule("trim", -500, 2500, 400_000_000, supervised=(-100, 100), first_step_max=2500),),
    relations=(Relation("sum", ((0, 1), (1, 1)), ((0, 1),), 5000),),
    source_age_ms_max=50,
    decision_age_ms_max=20,
    decide_ms_max=30,
    future_ms_max=2,
)


@dataclass(frozen=True)
class Model:
    """y = max(0, x0 + 2 x1) as a circuit, with its keys and both ends of its proof."""

    verification_key: bytes
    prover: Groth16Prover
    verifier: NativeVerifier

    @staticmethod
    def run(inputs: Sequence[int]) -> tuple[int, ...]:
        return (max(0, inputs[0] + 2 * inputs[1]),)


def model(curve: Curve = Curve.BN254) -> Model:
    """Made once a curve: the set-up takes most of a test's time."""
    return _model(curve)


@cache
def _model(curve: Curve) -> Model:
    circuit = on_curve(CIRCUIT, curve)
    proving_key, verification_key = development_setup(circuit)
    verifier = NativeVerifier(verification_key, vk_sha256=key_hash(verification_key))
    return Model(verification_key, Groth16Prover(circuit, proving_key), verifier)


@dataclass
class Scenario:
    """Both sides of one deployment; every step goes into both ledgers as the processes would do it."""

    folder: Path
    gate_key: SessionKey = field(default_factory=SessionKey.generate)
    session: SessionKey = field(default_factory=SessionKey.generate)
    epoch: int = 0
    sequence: int = 0
    now_ns: int = T0
    mode: Mode = Mode.OFF
    gate_keeps_commands: bool = True
    attested: bool = False
    rules: GateRules = RULES
    profile: str = "development"
    key_curve: Curve | None = None
    """Of the key, where it is not the one the rules demand: a fault."""

    @property
    def curve(self) -> Curve:
        """Of the proofs the rules demand."""
        return Curve(int(self.rules.proof_kind))

    @property
    def model(self) -> Model:
        return model(self.key_curve or self.curve)

    def __post_init__(self) -> None:
        for side in ("device", "gate"):
            (self.folder / side).mkdir(parents=True, exist_ok=True)
        self.open_ledgers()
        write_anchors(
            self.folder / "anchors",
            profile=self.profile,
            gate_id=GATE_ID,
            device_id=DEVICE_ID,
            gate_origin=GATE_ORIGIN,
            device_origin=DEVICE_ORIGIN,
            gate_public=self.gate_key.public,
            policy_public=POLICY_SIGNER.public if self.attested else None,
            module_digest=MODULE,
            deployment_digest=DEPLOYMENT,
            rules=self.rules,
            verification_key=self.model.verification_key,
            development_key=True,
            device_record=RECORD_FILE if self.attested else None,
            boot_policy=POLICY_FILE if self.attested else None,
        )

    def open_ledgers(self) -> None:
        self.device = Ledger.open(self.path("device"), origin=DEVICE_ORIGIN, signer=self.session)
        self.gate = Ledger.open(self.path("gate"), origin=GATE_ORIGIN, signer=self.gate_key)

    def path(self, side: str) -> Path:
        return self.folder / side / "ledger.db"

    def both(self, kind: str, record: object) -> None:
        data = sign_record(record, self.gate_key)  # type: ignore[arg-type]
        self.gate.append(kind, data)
        self.device.append(kind, data)

    def open_epoch(self) -> None:
        """Evidence of mode ``none``, the gate's record, and AUTO."""
        self.epoch += 1
        self.sequence = 0
        if self.epoch > 1:
            self.session = SessionKey.generate()
            self.device.signer = self.session
        nonce = hashlib.sha256(str(self.epoch).encode()).digest()
        evidence = self.evidence(nonce)
        self.device.append("evidence", evidence)
        self.gate.append("evidence", evidence)
        self.opened = EpochOpened(
            gate_id=GATE_ID,
            device_id=DEVICE_ID,
            epoch=self.epoch,
            evidence_digest=hashlib.sha256(evidence).digest(),
            nonce=nonce,
            session_public=self.session.public,
            module_digest=MODULE,
            deployment_digest=DEPLOYMENT,
            rules_digest=self.rules.digest(),
            vk_digest=key_hash(self.model.verification_key),
            record_digest=hashlib.sha256(RECORD_FILE).digest() if self.attested else b"",
            policy_digest=hashlib.sha256(POLICY_FILE).digest() if self.attested else b"",
            t_opened_ns=self.now_ns,
            expires_ns=self.now_ns + 3_600_000 * MS,
            ak_name=RECORD.ak_name if self.attested else b"",
            tpm_kind="swtpm" if self.attested else "none",
            boot_policy="none",
            reset_count=0,
            plant_outputs=(0,),
        )
        self.both("epoch-opened", self.opened)
        self.state = GateState(self.epoch, (0,))
        self.set_mode(Mode.AUTO)

    def evidence(self, nonce: bytes) -> bytes:
        if not self.attested:
            return build_none(signer=self.session, nonce=nonce, module_digest=MODULE, deployment_digest=DEPLOYMENT)
        return Case(
            nonce=nonce,
            module=MODULE,
            deployment=DEPLOYMENT,
            session=self.session,  # type: ignore[arg-type]
            record_id=RECORD.record_id,
        ).evidence()

    def set_mode(self, mode: Mode) -> None:
        self.both("mode-change", ModeChange(GATE_ID, self.mode, mode, ("ann", "bob"), "test", self.now_ns))
        self.mode = mode

    def command(self, **changes: object) -> bytes:
        """The next command, proved and signed; ``outputs`` may be falsified."""
        self.sequence += 1
        self.now_ns += 10 * MS
        header = CommandHeader(
            version=1,
            device_id=DEVICE_ID,
            gate_id=GATE_ID,
            epoch=self.epoch,
            sequence=self.sequence,
            t_source_ns=self.now_ns - 4 * MS,
            t_decided_ns=self.now_ns - MS,
            module_digest=MODULE,
            deployment_digest=DEPLOYMENT,
            mode=self.mode,
        )
        inputs = (self.sequence % 50, 3)
        proven = self.model.prover.prove(inputs, header.ctx())
        outputs = changes.get("outputs", proven.outputs)
        proof = changes.get("proof", proven.proof)
        assert isinstance(outputs, tuple)
        assert isinstance(proof, bytes)
        kind = self.rules.proof_kind
        if changes.get("deferred"):
            self.owed = proof
            vk_sha256 = key_hash(self.model.verification_key)
            proof = statement_commitment(vk_sha256, inputs, outputs, header.ctx(), curve=self.curve)
            kind = ProofKind.COMMITMENT
        return sign_command(Command(header, inputs, outputs, kind, proof, TimeQuality.NTP), self.session)

    def late_proof(self, data: bytes, proof: bytes, **changes: object) -> None:
        digest = hashlib.sha256(data).digest()
        record = LateProof(DEVICE_ID, self.epoch, self.sequence, digest, self.rules.proof_kind, proof, self.now_ns)
        self.device.append("proof", sign_record(replace(record, **changes), self.session))  # type: ignore[arg-type]

    def proof_receipt(self, data: bytes, *, late: bool = False) -> None:
        digest = hashlib.sha256(data).digest()
        record = ProofReceipt(GATE_ID, self.epoch, self.sequence, digest, digest, late, self.now_ns)
        self.both("proof-receipt", record)

    def proof_status(self, code: str, *, verified: bool) -> None:
        self.both("proof-status", ProofStatus(GATE_ID, verified, code, 1, "found", "expected", self.now_ns))

    def send(self, data: bytes, *, device: bool = True, gate: bool = True, reply: bool = True) -> None:
        """Device records, gate judges and records, device records the answer; each part can be lost."""
        if device:
            self.device.append("command", data)
        if not gate:
            return
        result = judge(
            data,
            self.rules,
            self.state,
            OpenEpoch.of(self.opened),
            self.now_ns,
            gate_mode=self.mode,
            verifier=self.model.verifier,
            explain=Model.run,
        )
        digest = hashlib.sha256(data).digest()
        if isinstance(result, Accepted):
            command = result.parsed.command
            if self.gate_keeps_commands:
                self.gate.append("command", data)
            kind, record = "receipt", sign_record(self.receipt(command, digest), self.gate_key)
        else:
            kind = "refusal"
            record = sign_record(
                Refusal(
                    gate_id=GATE_ID,
                    epoch=self.epoch,
                    sequence=self.sequence,
                    code=result.code,
                    check=result.check,
                    found=result.found,
                    expected=result.expected,
                    command_digest=digest,
                    refused=data,
                    t_ns=self.now_ns,
                ),
                self.gate_key,
            )
        self.gate.append(kind, record)
        if reply:
            self.device.append(kind, record)

    def receipt(self, command: Command, digest: bytes) -> Receipt:
        return Receipt(
            gate_id=GATE_ID,
            epoch=command.header.epoch,
            sequence=command.header.sequence,
            command_digest=digest,
            accepted=command.outputs,
            applied=command.outputs,
            read_back=command.outputs,
            state=ReadBack.OK,
            proof_verified=command.proof_kind is not ProofKind.COMMITMENT,
            t_accepted_ns=self.now_ns,
            t_written_ns=self.now_ns + 1,
            t_read_back_ns=self.now_ns + 2,
        )

    def unsent(self) -> None:
        """A command that missed its deadline: signed, recorded, not sent."""
        data = self.command()
        self.device.append("command", data)
        record = CycleRefused(DEVICE_ID, self.epoch, self.sequence, "deadline", "12.0 ms", "7.3 ms", 1, self.now_ns)
        self.device.append("cycle-refused", sign_record(record, self.session))

    def witness(self) -> None:
        self.device.checkpoint()
        record = Witness(GATE_ID, DEVICE_ORIGIN, self.device.size, self.device.root(), self.now_ns)
        self.gate.append("witness", sign_record(record, self.gate_key))
        self.gate.checkpoint()

    def run(self, count: int) -> None:
        for _ in range(count):
            self.send(self.command())

    def close(self, *, clean: bool = True) -> None:
        if clean:
            self.gate.append(
                "epoch-closed", sign_record(EpochClosed(GATE_ID, self.epoch, "stop", self.now_ns), self.gate_key)
            )
            for ledger, key in ((self.device, self.session), (self.gate, self.gate_key)):
                closed = LedgerClosed(ledger.origin, ledger.appended, "stop", self.now_ns)
                ledger.append("ledger-closed", sign_record(closed, key))
            self.witness()
        self.device.close()
        self.gate.close()


def whole(folder: Path, *, commands: int = 12, rules: GateRules = RULES) -> Scenario:
    """Two epochs with everything in them, closed cleanly."""
    scenario = Scenario(folder, rules=rules)
    scenario.open_epoch()
    scenario.run(commands // 2)
    scenario.send(scenario.command(outputs=(7,)))  # refused: proof-statement
    scenario.unsent()
    scenario.witness()
    scenario.open_epoch()
    scenario.run(commands - commands // 2)
    scenario.close()
    return scenario
