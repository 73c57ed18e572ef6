"""Checking a sealed export with its files alone, and openings against it.

 1. manifest, rules and key are readable and belong together; the key and the gate's key are those the caller trusts
 2. the checkpoint is of the gate's ledger and signed by the gate
 3. each epoch record is signed by the gate, included under the checkpoint, and of this device, module and rules
 4. there is one file for each command of the manifest and no other
and for each command
 5. its file is well formed and of the name it has
 6. ctx is the hash of its header
 7. the header is of a known epoch: device, gate, module, deployment, opened before it was decided and not expired
 8. the receipt is signed by the gate, included under the checkpoint, for this epoch and sequence, and accepted exactly
    these outputs; it says that the open proof was verified where the rules demand one
 9. ages at acceptance, mode, output limits and relations between outputs are as the rules demand
10. no other command has the same commitment
11. the sealed proof verifies: committed inputs in the box, relations kept, outputs the model's

Not among them, because inputs would be needed: rates of change of inputs; that the commitment is to the inputs that the
signed command carries (an opening shows that for one command); and that the circuit under the key is that of the
module, which whoever has the module's circuit and the set-up's transcript checks (docs/sealed.md).

A check that cannot be made is a finding.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

from attest.command.enums import Mode, ProofPolicy
from attest.command.records import EpochOpened, Receipt, Record, parse_record
from attest.command.rules import GateRules
from attest.disclosure import format as fmt
from attest.disclosure.errors import DisclosureError
from attest.disclosure.format import IncludedRecord, Manifest, SealedRecord, command_name, place, sha256
from attest.disclosure.opening import OPENING_BYTES_MAX, Opening
from attest.errors import AttestError
from attest.ledger.merkle import leaf_hash, verify_inclusion
from attest.ledger.note import NOTE_BYTES_MAX, Checkpoint, parse_checkpoint
from attest.proof.circuit import Curve
from attest.proof.errors import CHECKS
from attest.proof.sealed.prover import verify_sealed
from attest.proof.verifier import NativeVerifier, ProofVerifier, PyEccVerifier

Engine = Literal["native", "py-ecc"]
FINDINGS_MAX: Final = 1000
_NS_PER_MS: Final = 1_000_000
_R = TypeVar("_R", bound=Record)
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Trust:
    """What the third party knows by a way of its own; for ``None`` the export's word is taken."""

    gate_public: bytes | None = None
    vk_sha256: bytes | None = None


@dataclass(frozen=True, slots=True)
class SealedFinding:
    """One thing that is wrong; ``command`` is empty where it is about the whole.

    Codes: ``export-io``, ``export-format``, ``gate-key``, ``rules``, ``checkpoint``, ``epoch``, ``command-missing``,
    ``command-unknown``, ``ctx``, ``header``, ``receipt``, ``inclusion``, ``age``, ``mode``, ``output-limit``,
    ``output-relation``, ``commitment-repeated``, ``development-key``, ``opening-…``, and the names of the verifier's
    checks (``key-hash`` … ``proof-pairing``).
    """

    code: str
    command: str
    found: str
    expected: str

    def __str__(self) -> str:
        where = f"command {self.command}: " if self.command else ""
        return f"{self.code}: {where}got {self.found}, expected {self.expected}"


@dataclass(slots=True)
class SealedReport:
    """The result. ``gate_key_trusted`` and ``vk_trusted`` say whether the caller gave what the export was held to;
    ``declared`` names the members that are the export's own word all the same."""

    engine: str
    commands: int = 0
    proofs_checked: int = 0
    openings_checked: int = 0
    curve: str = ""
    profile: str = ""
    module_digest: str = ""
    circuit_sha256: str = ""
    vk_sha256: str = ""
    development: bool = True
    contributors: int = 0
    gate_key_trusted: bool = False
    vk_trusted: bool = False
    declared: tuple[str, ...] = fmt.DECLARED
    inputs: list[dict[str, Any]] = field(default_factory=list)
    relations: list[str] = field(default_factory=list)
    findings: list[SealedFinding] = field(default_factory=list)
    findings_total: int = 0

    @property
    def ok(self) -> bool:
        """No finding."""
        return self.findings_total == 0

    def add(self, code: str, command: str, found: str, expected: str) -> None:
        """Keeps the first thousand; the rest is only counted."""
        self.findings_total += 1
        if len(self.findings) < FINDINGS_MAX:
            self.findings.append(SealedFinding(code, command, found[:400], expected[:400]))

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ``ok`` among them."""
        return {"ok": self.ok, **asdict(self)}


def verify_export(
    folder: Path, *, engine: Engine = "native", trust: Trust | None = None, openings: tuple[Path, ...] = ()
) -> SealedReport:
    """Check the export in ``folder``, and ``openings`` of some of its commands. Raises nothing for bad content."""
    report = SealedReport(engine=engine)
    check = _ExportCheck(folder, report, engine, Trust() if trust is None else trust)
    try:
        check.frame()
    except AttestError as error:
        report.add(error.code, "", error.found, error.expected)
        return report
    check.commands()
    for path in openings:
        check.opening(path)
    return report


class _ExportCheck:
    def __init__(self, folder: Path, report: SealedReport, engine: Engine, trust: Trust) -> None:
        self._folder, self._report, self._engine, self._trust = folder, report, engine, trust
        self._epochs: dict[int, EpochOpened] = {}
        self._records: dict[str, tuple[SealedRecord, Receipt]] = {}
        self._commitments: dict[bytes, str] = {}

    def frame(self) -> None:
        """Steps 1 to 4: what all commands share. Raises ``AttestError`` where nothing more can be said."""
        self._manifest = Manifest.decode(self._read(fmt.MANIFEST_FILE, fmt.MANIFEST_BYTES_MAX))  # 1
        self._curve = Curve.named(self._manifest.curve)
        self._gate_public = self._trusted_gate_key()
        self._rules = self._read_rules()
        self._verifier = self._make_verifier()
        self._describe()
        self._checkpoint = self._read_checkpoint()  # 2
        names = self._manifest.commands
        for number in sorted({place(name)[0] for name in names}):  # 3
            self._guarded("epoch", f"epoch {number}", partial(self._read_epoch, number))
        present = {path.name for path in (self._folder / fmt.COMMANDS).glob("*")}
        for extra in sorted(present - {f"{name}{fmt.SUFFIX}" for name in names})[:FINDINGS_MAX]:  # 4
            self._report.add("command-unknown", "", f"a file {extra}", "the commands of the manifest only")

    def commands(self) -> None:
        """Steps 5 to 11 for each command."""
        for name in self._manifest.commands:
            self._report.commands += 1
            self._guarded("export-format", name, partial(self._command, name))

    def opening(self, path: Path) -> None:
        """That the opened command is the one of the receipt, signed in its epoch, and its inputs the committed ones."""
        self._guarded("opening-wrong", path.name, partial(self._opening, path))

    def _guarded(self, code: str, command: str, work: Callable[[], None]) -> None:
        """What a part of it raises is a finding, under its own code where the report has that code."""
        try:
            work()
        except AttestError as error:
            own = error.code.startswith(("export-", "opening")) or error.code in CHECKS
            self._report.add(error.code if own else code, command, error.found, error.expected)

    def _read(self, name: str, limit: int) -> bytes:
        return fmt.read_file(self._folder / name, limit)

    def _trusted_gate_key(self) -> bytes:
        stated = bytes.fromhex(self._manifest.gate_public)
        self._report.gate_key_trusted = self._trust.gate_public is not None
        if self._trust.gate_public not in (None, stated):
            raise DisclosureError("gate-key", found=stated.hex(), expected=(self._trust.gate_public or b"").hex())
        return stated

    def _read_rules(self) -> GateRules:
        data = self._read(fmt.RULES_FILE, fmt.RULES_BYTES_MAX)
        if sha256(data) != self._manifest.rules_sha256:
            raise DisclosureError("rules", found=f"SHA-256 {sha256(data)}", expected=self._manifest.rules_sha256)
        rules = _typed("rules", partial(GateRules.decode, data))
        if rules.gate_id != self._manifest.gate_id:
            raise DisclosureError("rules", found=f"rules of {rules.gate_id}", expected=self._manifest.gate_id)
        return rules

    def _make_verifier(self) -> ProofVerifier:
        data = self._read(fmt.KEY_FILE, fmt.KEY_BYTES_MAX)
        self._report.vk_trusted = self._trust.vk_sha256 is not None
        stated = bytes.fromhex(self._manifest.vk_sha256)
        if self._trust.vk_sha256 not in (None, stated):
            expected = (self._trust.vk_sha256 or b"").hex()
            raise DisclosureError("key-hash", found=stated.hex(), expected=expected)
        make: type[NativeVerifier | PyEccVerifier] = PyEccVerifier if self._engine == "py-ecc" else NativeVerifier
        verifier: ProofVerifier = make(data, vk_sha256=stated)
        expected_signals = len(self._rules.outputs) + 2
        if verifier.curve is not self._curve or verifier.n_public != expected_signals:
            found = f"a key on {verifier.curve.text} for {verifier.n_public} signals"
            raise DisclosureError("signal-count", found=found, expected=f"{self._curve.text}, {expected_signals}")
        return verifier

    def _describe(self) -> None:
        manifest, report = self._manifest, self._report
        report.curve, report.profile, report.module_digest = manifest.curve, manifest.profile, manifest.module_digest
        report.circuit_sha256, report.vk_sha256 = manifest.circuit_sha256, manifest.vk_sha256
        report.development, report.contributors = manifest.development, manifest.contributors
        report.inputs = [{"name": r.name, "low": r.low, "high": r.high} for r in self._rules.inputs]
        report.relations = [relation.name for relation in self._rules.relations]
        if manifest.development and manifest.profile == "production":
            report.add("development-key", "", "a key that nobody contributed to", "a key from a ceremony")

    def _read_checkpoint(self) -> Checkpoint:
        data = self._read(fmt.CHECKPOINT_FILE, NOTE_BYTES_MAX)
        note = _typed("checkpoint", partial(parse_checkpoint, data))
        if note.checkpoint.origin != self._manifest.gate_origin:
            raise DisclosureError("checkpoint", found=note.checkpoint.origin, expected=self._manifest.gate_origin)
        if note.signed_by([self._gate_public]) is None:
            raise DisclosureError("checkpoint", found="no signature of the gate", expected="the gate's")
        return note.checkpoint

    def _included(self, record: IncludedRecord, kind: type[_R]) -> _R:
        """The record, signed by the gate and under the checkpoint. Raises ``AttestError``."""
        parsed = parse_record(record.data)
        if not isinstance(parsed.record, kind):
            raise DisclosureError("receipt", found=parsed.record.KIND, expected=kind.KIND)
        parsed.verify(self._gate_public)
        leaf, checkpoint = leaf_hash(record.data), self._checkpoint
        verify_inclusion(leaf, record.index, checkpoint.size, record.path, checkpoint.root)
        return parsed.record

    def _read_epoch(self, number: int) -> None:
        data = self._read(f"{fmt.EPOCHS}/{number}{fmt.SUFFIX}", fmt.RECORD_FILE_BYTES_MAX)
        epoch = self._included(IncludedRecord.decode(data), EpochOpened)
        manifest = self._manifest
        found = (epoch.epoch, epoch.gate_id, epoch.device_id, epoch.module_digest.hex(), epoch.rules_digest.hex())
        expected = (number, manifest.gate_id, manifest.device_id, manifest.module_digest, manifest.rules_sha256)
        if found != expected:
            raise DisclosureError("epoch", found=f"an epoch record of {found}", expected=f"{expected}")
        self._epochs[number] = epoch

    def _command(self, name: str) -> None:
        path = self._folder / fmt.COMMANDS / f"{name}{fmt.SUFFIX}"
        if not path.exists():
            self._report.add("command-missing", name, "no file", "the command of the manifest")
            return
        record = SealedRecord.decode(fmt.read_file(path, fmt.RECORD_FILE_BYTES_MAX), self._curve)  # 5
        found = command_name(record.header)
        if found != name:
            self._report.add("header", name, f"the header of {found}", name)
            return
        if record.ctx != record.header.ctx():  # 6
            self._report.add("ctx", name, record.ctx.hex(), f"{record.header.ctx().hex()} of the header")
        self._check_header(name, record)  # 7
        receipt = self._check_receipt(name, record)  # 8
        self._check_rules(name, record, receipt)  # 9
        other = self._commitments.setdefault(record.commitment, name)
        if other != name:  # 10
            self._report.add("commitment-repeated", name, f"the commitment of command {other}", "one of its own")
        # 11: under the header's own ctx, so that a wrong ctx field cannot help a proof
        verify_sealed(self._verifier, record.commitment, record.outputs, record.header.ctx(), record.proof)
        self._report.proofs_checked += 1
        if receipt is not None:
            self._records[name] = (record, receipt)

    def _check_header(self, name: str, record: SealedRecord) -> None:
        header, epoch = record.header, self._epochs.get(record.header.epoch)
        if epoch is None:
            self._report.add("epoch", name, f"no record of epoch {header.epoch}", "one that was checked")
            return
        found = (header.gate_id, header.device_id, header.module_digest.hex(), header.deployment_digest.hex())
        expected = (epoch.gate_id, epoch.device_id, epoch.module_digest.hex(), epoch.deployment_digest.hex())
        if found != expected:
            self._report.add("header", name, f"a header of {found}", f"{expected}")

    def _check_receipt(self, name: str, record: SealedRecord) -> Receipt | None:
        try:
            receipt = self._included(record.receipt, Receipt)
        except AttestError as error:
            code = "inclusion" if error.code == "merkle-proof" else "receipt"
            self._report.add(code, name, error.found, error.expected)
            return None
        header, epoch = record.header, self._epochs.get(record.header.epoch)
        found = (receipt.gate_id, receipt.epoch, receipt.sequence, receipt.accepted)
        expected = (header.gate_id, header.epoch, header.sequence, record.outputs)
        if found != expected:
            self._report.add("receipt", name, f"a receipt of {found}", f"{expected}")
        if self._rules.proof_policy is ProofPolicy.INLINE and not receipt.proof_verified:
            self._report.add("receipt", name, "accepted without its proof", "a proof as the rules demand")
        if epoch is not None and not epoch.t_opened_ns <= receipt.t_accepted_ns < epoch.expires_ns:
            self._report.add("age", name, "accepted outside its epoch", "between its opening and its end")
        return receipt

    def _check_rules(self, name: str, record: SealedRecord, receipt: Receipt | None) -> None:
        """What the gate's judgement of the command says without its inputs (attest.command.judge, checks 10 to 19)."""
        header, rules, add = record.header, self._rules, self._report.add
        if header.mode not in rules.modes:
            add("mode", name, header.mode.name, " or ".join(mode.name for mode in sorted(rules.modes)))
        if receipt is not None:
            self._check_ages(name, record, receipt)
        if len(record.outputs) != len(rules.outputs):
            add("output-limit", name, f"{len(record.outputs)} outputs", f"{len(rules.outputs)}")
            return
        for rule, value in zip(rules.outputs, record.outputs, strict=True):
            narrow = rule.supervised if header.mode is Mode.SUPERVISED else None
            low, high = narrow or (rule.low, rule.high)
            if not low <= value <= high:
                add("output-limit", name, f"{rule.name} = {value}", f"{low}..{high}")
        for relation in rules.relations:
            if not relation.inputs and relation.left((), record.outputs) > relation.bound:
                left = relation.left((), record.outputs)
                add("output-relation", name, f"{relation.name} = {left}", f"at most {relation.bound}")

    def _check_ages(self, name: str, record: SealedRecord, receipt: Receipt) -> None:
        rules, now = self._rules, receipt.t_accepted_ns
        source, decided = record.header.t_source_ns, record.header.t_decided_ns
        for what, age_ns, most_ms in (
            ("ahead of the gate", max(source, decided) - now, rules.future_ms_max),
            ("sample age", now - source, rules.source_age_ms_max),
            ("decision age", now - decided, rules.decision_age_ms_max),
            ("time to decide", decided - source, rules.decide_ms_max),
            ("sample after decision", source - decided, 0),
        ):
            if age_ns > most_ms * _NS_PER_MS:
                self._report.add("age", name, f"{what}: {age_ns / _NS_PER_MS:.3f} ms", f"at most {most_ms} ms")

    def _opening(self, path: Path) -> None:
        opening = Opening.decode(fmt.read_file(path, OPENING_BYTES_MAX))
        parsed = opening.parsed()
        name = command_name(parsed.command.header)
        known = self._records.get(name)
        if known is None:
            raise DisclosureError("opening-unknown", found=f"command {name}", expected="one whose record verifies")
        record, receipt = known
        if parsed.digest != receipt.command_digest:
            raise DisclosureError("opening-wrong", found=parsed.digest.hex(), expected=receipt.command_digest.hex())
        parsed.verify(self._epochs[receipt.epoch].command_key)
        if (parsed.command.header, parsed.command.outputs) != (record.header, record.outputs):
            raise DisclosureError("opening-wrong", found="another header or outputs", expected="those of the export")
        commitment = opening.commitment(self._curve)
        if commitment != record.commitment:
            raise DisclosureError("opening-wrong", found=commitment.hex(), expected=record.commitment.hex())
        self._report.openings_checked += 1


def _typed(code: str, work: Callable[[], _T]) -> _T:
    """The result, or what it raises under the report's own code."""
    try:
        return work()
    except AttestError as error:
        raise DisclosureError(code, found=error.found, expected=error.expected) from error
