"""Making a sealed export: recorded commands proven again as sealed statements.

The folder appears whole under its name or not at all. The salts go into another file, which stays with the plant.
"""

from __future__ import annotations

import hashlib
import os
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from attest.command.command import Command, parse_command
from attest.command.records import EpochOpened, Receipt, parse_record
from attest.command.rules import GateRules
from attest.disclosure import format as fmt
from attest.disclosure.errors import DisclosureError
from attest.disclosure.format import IncludedRecord, Manifest, SealedRecord, command_name, sha256
from attest.disclosure.opening import Openings
from attest.files import FULL, typed
from attest.ledger.anchors import Anchors, load_anchors
from attest.ledger.kinds import RecordKind
from attest.ledger.note import parse_checkpoint
from attest.ledger.store import Leaf, Ledger
from attest.proof.builder import Interval
from attest.proof.circuit import Curve
from attest.proof.circuit import decode as decode_circuit
from attest.proof.keys import VerificationKey, key_hash
from attest.proof.prover import development_setup
from attest.proof.sealed import LinearRelation, Salt, seal
from attest.proof.sealed.format import encode as encode_sealed
from attest.proof.sealed.prover import SealedProver

PART_SUFFIX: Final = ".part"
CANDIDATES_MAX: Final = 200_000
"""Commands of a range are known by digest while receipts are matched: some 30 MiB, half an hour at 100 Hz."""


@dataclass(frozen=True, slots=True)
class Keys:
    """Keys of a sealed circuit; without ``contributors`` they are development keys."""

    proving_key: bytes
    verification_key: bytes
    contributors: int = 0


@dataclass(frozen=True, slots=True)
class Selection:
    """Records ``first`` to ``last`` (``None``: the newest) of the device's ledger, at most ``count`` of the commands
    among them, chosen by the operating system's randomness."""

    first: int = 0
    last: int | None = None
    count: int | None = None


FindCircuit = Callable[[bytes], bytes]
"""``find(module_digest)``: the module's open circuit file."""
MakeKeys = Callable[[bytes], Keys]
"""``make(sealed_circuit)``."""


def development_keys(circuit: bytes) -> Keys:
    """Keys from this machine's randomness alone."""
    return Keys(*development_setup(circuit))


@dataclass(frozen=True, slots=True)
class Exported:
    """What was written: commands left out had no receipt that the checkpoint covers."""

    manifest: Manifest
    left_out: int


@dataclass(frozen=True, slots=True)
class _Chosen:
    """A command that the gate accepted, and the gate's receipt for it."""

    record: int
    command: Command
    receipt: Leaf


def sealed_circuit(open_circuit: bytes, rules: GateRules, curve: Curve) -> bytes:
    """The circuit file of the statement: the module's rows, the gate's box and relations. Always the same bytes.

    Raises ``CircuitError`` and ``SealedError``.
    """
    relations = [LinearRelation(r.name, r.inputs, r.outputs, high=r.bound) for r in rules.relations]
    circuit = seal(
        decode_circuit(open_circuit),
        box=[Interval(rule.low, rule.high) for rule in rules.inputs],
        output_limits=[Interval(rule.low, rule.high) for rule in rules.outputs],
        relations=relations,
        curve=curve,
    )
    return encode_sealed(circuit)


class ExportWriter:
    """Chooses the commands of one ledger; :attr:`circuit` is then what keys are needed for."""

    def __init__(self, ledgers: Path, selection: Selection, *, curve: Curve, find_circuit: FindCircuit) -> None:
        """Reads both ledgers and the anchors. Raises :class:`DisclosureError`: ``export-empty``, ``export-mixed``,
        ``export-limit``, ``export-rules``, and what ledgers and ``find_circuit`` raise.
        """
        self._curve = curve
        self._anchors: Anchors = load_anchors(ledgers / "anchors")
        with ExitStack() as stack:
            device = Ledger.open_readonly(ledgers / "device" / "ledger.db")
            stack.callback(device.close)
            gate = Ledger.open_readonly(ledgers / "gate" / "ledger.db")
            stack.callback(gate.close)
            commands = _commands(device, selection)
            receipts = self._read_gate(gate, commands)
            self.left_out = len(commands) - len(receipts)
            self._choose(device, gate, commands, receipts, selection.count)
        self._module, self._rules = self._common()
        self._open_circuit = find_circuit(self._module)
        self.circuit = sealed_circuit(self._open_circuit, self._rules, curve)

    def _read_gate(self, gate: Ledger, commands: dict[bytes, int]) -> dict[bytes, int]:
        """Epoch records, and the places of the commands' receipts, under the gate's newest checkpoint."""
        note = gate.last_checkpoint()
        if note is None:
            raise DisclosureError("export-empty", found="no checkpoint of the gate", expected="one over its receipts")
        self._note, self._size = note, parse_checkpoint(note).checkpoint.size
        self._epochs: dict[int, IncludedRecord] = {}
        self._records: dict[int, EpochOpened] = {}
        receipts: dict[bytes, int] = {}
        for leaf in _until(gate, self._size):
            if leaf.kind not in (RecordKind.RECEIPT, RecordKind.EPOCH_OPENED):
                continue
            record = parse_record(leaf.data).record
            if isinstance(record, EpochOpened):
                self._records[record.epoch] = record
                self._epochs[record.epoch] = IncludedRecord(leaf.data, leaf.index, ())
            elif isinstance(record, Receipt) and record.command_digest in commands:
                receipts.setdefault(record.command_digest, leaf.index)
        return receipts

    def _choose(
        self, device: Ledger, gate: Ledger, commands: dict[bytes, int], receipts: dict[bytes, int], count: int | None
    ) -> None:
        """All accepted commands, or ``count`` of them; their bytes, receipts and places in the gate's tree."""
        digests = list(receipts)
        if count is not None and count < len(digests):
            # By the operating system's randomness: nobody can say beforehand which commands a third party will see.
            digests = random.SystemRandom().sample(digests, count)
        if len(digests) > fmt.COMMANDS_MAX:
            raise DisclosureError(
                "export-limit",
                found=f"{len(digests)} accepted commands",
                expected=f"at most {fmt.COMMANDS_MAX}",
                hint="a shorter range, or --records",
            )
        self._chosen = []
        for digest in digests:
            data = device.read(commands[digest]).data
            command, receipt = parse_command(data, None).command, gate.read(receipts[digest])
            self._chosen.append(_Chosen(commands[digest], command, receipt))
        self._chosen.sort(key=lambda it: (it.command.header.epoch, it.command.header.sequence))
        used = {it.command.header.epoch for it in self._chosen}
        self._epochs = {number: record for number, record in self._epochs.items() if number in used}
        places = [it.receipt.index for it in self._chosen] + [record.index for record in self._epochs.values()]
        self._paths = {index: tuple(gate.inclusion(index, self._size)) for index in places}

    def _common(self) -> tuple[bytes, GateRules]:
        """The one module and the one set of rules of all chosen commands."""
        if not self._chosen:
            raise DisclosureError(
                "export-empty",
                found="no accepted command in the range that a checkpoint of the gate covers",
                expected="at least one",
            )
        found = set()
        for it in self._chosen:
            epoch = self._records.get(it.command.header.epoch)
            if epoch is None:
                raise DisclosureError("export-mixed", found="a command without epoch record", expected="its epoch's")
            found.add((epoch.module_digest, epoch.rules_digest))
        if len(found) != 1:
            raise DisclosureError(
                "export-mixed",
                found=f"{len(found)} modules or sets of rules in the range",
                expected="one, because a sealed circuit is of one module under one set of rules",
                hint="export the parts of the range on their own (--from, --to)",
            )
        module, digest = found.pop()
        rules = self._anchors.rules.get(digest)
        if rules is None:
            raise DisclosureError("export-rules", found=f"no rules {digest.hex()}", expected="them in the anchors")
        return module, rules

    def write(
        self, out: Path, openings: Path, keys: Keys, progress: Callable[[int], None] = lambda _: None
    ) -> Exported:
        """Prove every chosen command and write the folder ``out`` and the file ``openings``, which must not exist.

        Raises :class:`DisclosureError`: ``export-exists``, ``export-io``, ``export-keys``; and ``ProverError``.
        """
        self._check_keys(keys)
        for path in (out, openings):
            if path.exists():
                raise DisclosureError("export-exists", found=f"{path} exists", expected="a new name")
        if out.resolve() in openings.resolve().parents:
            raise DisclosureError("export-io", found=f"salts inside {out}", expected="a file that is not handed over")
        staged = out.with_name(out.name + PART_SUFFIX)
        kept = None
        try:
            shutil.rmtree(staged, ignore_errors=True)
            (staged / fmt.COMMANDS).mkdir(parents=True)
            (staged / fmt.EPOCHS).mkdir()
            kept = Openings.create(openings, self._curve)
            manifest = self._write_into(staged, kept, keys, progress)
            kept.save()
            staged.replace(out)
        except OSError as error:
            fault = typed(error, out, DisclosureError)
            if fault.code == FULL:
                raise fault from error
            raise DisclosureError("export-io", found=fault.found, expected="a writable folder") from error
        finally:
            if kept is not None and not out.exists():
                openings.unlink(missing_ok=True)
            shutil.rmtree(staged, ignore_errors=True)
        return Exported(manifest, self.left_out)

    def _check_keys(self, keys: Keys) -> None:
        key = VerificationKey.decode(keys.verification_key)
        if key.curve is not self._curve or key.n_public != len(self._rules.outputs) + 2:
            found = f"a key on {key.curve.text} for {key.n_public} signals"
            expected = f"{self._curve.text}, {len(self._rules.outputs) + 2}"
            raise DisclosureError("export-keys", found=found, expected=expected)
        if self._anchors.profile == "production" and not keys.contributors:
            raise DisclosureError(
                "export-keys",
                found="a development key in a production deployment",
                expected="a key from a ceremony",
                hint="sitsctl audit export --sealed --circuit-only, then sitsctl proof setup, and --keys",
            )

    def _write_into(self, staged: Path, kept: Openings, keys: Keys, progress: Callable[[int], None]) -> Manifest:
        prover = SealedProver(self.circuit, keys.proving_key)
        for done, it in enumerate(self._chosen, 1):
            record = self._prove(prover, it, kept)
            name = command_name(it.command.header)
            _write(staged / fmt.COMMANDS / f"{name}{fmt.SUFFIX}", record.encode())
            progress(done)
        for number, epoch in self._epochs.items():
            included = IncludedRecord(epoch.data, epoch.index, self._paths[epoch.index])
            _write(staged / fmt.EPOCHS / f"{number}{fmt.SUFFIX}", included.encode())
        rules = self._rules.encode()
        manifest = self._manifest(keys, rules)
        _write(staged / fmt.RULES_FILE, rules)
        _write(staged / fmt.KEY_FILE, keys.verification_key)
        _write(staged / fmt.CHECKPOINT_FILE, self._note)
        _write(staged / fmt.MANIFEST_FILE, manifest.encode())
        return manifest

    def _prove(self, prover: SealedProver, it: _Chosen, kept: Openings) -> SealedRecord:
        header, salt = it.command.header, Salt.generate()
        try:
            proven = prover.prove(it.command.inputs, salt, header.ctx())
            if proven.outputs != it.command.outputs:
                found = f"outputs {proven.outputs} for command {command_name(header)}"[:200]
                raise DisclosureError("export-outputs", found=found, expected=f"{it.command.outputs} as recorded"[:200])
            kept.add(command_name(header), record=it.record, commitment=proven.commitment, salt=salt)
        finally:
            salt.erase()
        receipt = IncludedRecord(it.receipt.data, it.receipt.index, self._paths[it.receipt.index])
        return SealedRecord(header, it.command.outputs, header.ctx(), proven.commitment, proven.proof, receipt)

    def _manifest(self, keys: Keys, rules: bytes) -> Manifest:
        return Manifest(
            curve=self._curve.text,
            profile=self._anchors.profile,
            gate_id=self._anchors.gate_id,
            device_id=self._anchors.device_id,
            gate_origin=self._anchors.gate_origin,
            gate_public=self._anchors.gate_public.hex(),
            module_digest=self._module.hex(),
            rules_sha256=sha256(rules),
            circuit_sha256=sha256(self.circuit),
            open_circuit_sha256=sha256(self._open_circuit),
            vk_sha256=key_hash(keys.verification_key).hex(),
            development=keys.contributors == 0,
            contributors=keys.contributors,
            commands=tuple(command_name(it.command.header) for it in self._chosen),
        )


def _commands(device: Ledger, selection: Selection) -> dict[bytes, int]:
    """Record numbers of the commands in the range, by command digest."""
    end = device.size if selection.last is None else min(selection.last + 1, device.size)
    found: dict[bytes, int] = {}
    for leaf in _until(device, end, selection.first):
        if leaf.kind is RecordKind.COMMAND:
            found[hashlib.sha256(leaf.data).digest()] = leaf.index
        if len(found) > CANDIDATES_MAX:
            raise DisclosureError(
                "export-limit", found=f"over {CANDIDATES_MAX} commands in the range", expected="fewer (--from, --to)"
            )
    return found


def _until(ledger: Ledger, end: int, start: int = 0) -> Iterator[Leaf]:
    for leaf in ledger.iterate(start):
        if leaf.index >= end:
            return
        yield leaf


def _write(path: Path, data: bytes) -> None:
    with path.open("xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def write_export(
    ledgers: Path,
    out: Path,
    openings: Path,
    *,
    curve: Curve,
    find_circuit: FindCircuit,
    selection: Selection | None = None,
    make_keys: MakeKeys = development_keys,
) -> Exported:
    """Everything in one step; see :class:`ExportWriter`."""
    chosen = Selection() if selection is None else selection
    writer = ExportWriter(ledgers, chosen, curve=curve, find_circuit=find_circuit)
    return writer.write(out, openings, make_keys(writer.circuit))
