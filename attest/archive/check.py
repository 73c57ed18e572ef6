"""Checking an archive with its files alone, and against the ledger it was made from.

1. ``archive.json`` in its format and complete; as many lines as it says, with their digest
2. each module: manifest → module digest → circuit → the same rows on the archive's curve; the key's hash, curve, size
3. each line: in order, inside the range, the leaf hash of the command's bytes, words as the bytes say, module known
4. each proof, by the chosen engine, under that module's key
5. with a ledger: same origin, the tree head at the archive's size, every archived record the same bytes, and no command
   of the range left out; the module among the anchors' where they are there

What the key shows depends on who made it: with a development key it shows nothing to anybody else. That a key belongs
to its circuit is shown by a ceremony's transcript, not by this archive. Signatures and receipts are the ledger audit's.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from attest.archive.errors import ArchiveError
from attest.archive.format import (
    COMMANDS_FILE,
    KEY_BYTES_MAX,
    LINE_BYTES_MAX,
    MANIFEST_BYTES_MAX,
    MANIFEST_FILE,
    MODULE_MANIFEST_BYTES_MAX,
    ArchivedCommand,
    ArchiveManifest,
    ModuleEntry,
    circuit_digest,
    read_file,
    rows_sha256,
)
from attest.errors import AttestError
from attest.ledger.errors import LedgerError
from attest.ledger.kinds import RecordKind
from attest.ledger.merkle import leaf_hash
from attest.ledger.store import Ledger
from attest.proof.circuit import FILE_BYTES_MAX, Curve, curve_of, on_curve
from attest.proof.circuit import decode as decode_circuit
from attest.proof.verifier import NativeVerifier, ProofVerifier, PyEccVerifier

FINDINGS_MAX: Final = 1000
Engine = Literal["native", "py-ecc"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong; ``record`` is the ledger's, ``None`` where it is about the whole.

    Codes: ``archive-format``, ``archive-io``, ``archive-incomplete``, ``archive-module``, ``archive-keys``,
    ``archive-order``, ``leaf-hash``, ``proof``, ``ledger-other``, ``ledger-record``, ``ledger-missing``.
    """

    code: str
    record: int | None
    found: str
    expected: str

    def __str__(self) -> str:
        where = "archive" if self.record is None else f"record {self.record}"
        return f"{self.code}: {where}: got {self.found}, expected {self.expected}"


@dataclass(slots=True)
class ArchiveReport:
    """The result; ``ok`` means no finding at all. ``development`` counts modules whose key nobody contributed to."""

    engine: str
    curve: str = ""
    commands: int = 0
    proofs_checked: int = 0
    modules: int = 0
    development: int = 0
    ledger_compared: bool = False
    findings: list[Finding] = field(default_factory=list)
    findings_total: int = 0

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return self.findings_total == 0

    def add(self, code: str, record: int | None, found: str, expected: str) -> None:
        """Note a finding; beyond ``FINDINGS_MAX`` only the count grows."""
        self.findings_total += 1
        if len(self.findings) < FINDINGS_MAX:
            self.findings.append(Finding(code, record, found[:300], expected[:300]))

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {"ok": self.ok, **asdict(self)}


def verify_archive(folder: Path, *, engine: Engine = "native", ledger: Path | None = None) -> ArchiveReport:
    """Check ``folder``; ``ledger`` is the file of the ledger it was made from. Nothing is raised for bad content."""
    report = ArchiveReport(engine)
    try:
        manifest = ArchiveManifest.decode(read_file(folder / MANIFEST_FILE, MANIFEST_BYTES_MAX))  # 1
        checker = _Checker(folder, manifest, report, engine)
        checker.modules()  # 2
        checker.commands(ledger)  # 1, 3-5
    except (ArchiveError, LedgerError) as error:
        report.add(error.code, None, error.found, error.expected)
    return report


class _Checker:
    def __init__(self, folder: Path, manifest: ArchiveManifest, report: ArchiveReport, engine: Engine) -> None:
        self._folder, self._manifest, self._report, self._engine = folder, manifest, report, engine
        self._verifiers: dict[bytes, ProofVerifier] = {}
        report.curve, report.modules = manifest.curve, len(manifest.modules)

    # --- 2 -----------------------------------------------------------------------------------------------------------

    def modules(self) -> None:
        """Chains of digests from the module to the key."""
        for name, entry in self._manifest.modules.items():
            self._report.development += entry.development
            try:
                self._module(name, entry)
            except AttestError as error:
                self._report.add("archive-module", None, f"module {name[:16]}: {error.found}", error.expected)

    def _module(self, name: str, entry: ModuleEntry) -> None:
        folder = self._folder / "modules" / name
        manifest = read_file(folder / "manifest.json", MODULE_MANIFEST_BYTES_MAX)
        source = read_file(folder / "circuit.bin", FILE_BYTES_MAX)
        key = read_file(folder / "verification_key.bin", KEY_BYTES_MAX)
        curve = Curve.named(self._manifest.curve)
        circuit = on_curve(source, curve)
        for what, found, expected in (
            ("module digest", hashlib.sha256(manifest).hexdigest(), name),
            ("circuit in the module", hashlib.sha256(source).hexdigest(), circuit_digest(manifest)),
            ("circuit", hashlib.sha256(source).hexdigest(), entry.source_circuit_sha256),
            ("circuit's own curve", curve_of(source).text, entry.source_curve),
            ("circuit on the archive's curve", hashlib.sha256(circuit).hexdigest(), entry.circuit_sha256),
            ("rows of the module's circuit", rows_sha256(source), entry.rows_sha256),
            ("rows on the archive's curve", rows_sha256(circuit), entry.rows_sha256),
            ("key", hashlib.sha256(key).hexdigest(), entry.vk_sha256),
        ):
            if found != expected:
                raise ArchiveError("archive-module", found=f"{what} {found}", expected=expected)
        make: type[NativeVerifier | PyEccVerifier] = PyEccVerifier if self._engine == "py-ecc" else NativeVerifier
        verifier = make(key, vk_sha256=bytes.fromhex(entry.vk_sha256))
        shape = decode_circuit(circuit)
        n_public = shape.n_inputs + shape.n_outputs + 1
        if verifier.curve is not curve or verifier.n_public != n_public:
            found = f"a key on {verifier.curve.text} with {verifier.n_public} public signals"
            raise ArchiveError("archive-keys", found=found, expected=f"{curve.text} with {n_public}")
        self._verifiers[bytes.fromhex(name)] = verifier

    # --- 1, 3, 4, 5 --------------------------------------------------------------------------------------------------

    def commands(self, ledger_path: Path | None) -> None:
        """Every line, and the ledger's commands beside it."""
        ledger = None if ledger_path is None else Ledger.open_readonly(ledger_path)
        try:
            beside = None if ledger is None else self._beside(ledger)
            digest, count, last = hashlib.sha256(), 0, self._manifest.first - 1
            for line in _lines(self._folder / COMMANDS_FILE):
                count += 1
                digest.update(line)
                archived = ArchivedCommand.decode(line, count)
                self._line(archived, last)
                last = archived.record
                if beside is not None:
                    self._compare(archived, beside)
            if beside is not None:
                for index, _ in beside:
                    self._report.add("ledger-missing", index, "no line in the archive", "every command of the range")
        finally:
            if ledger is not None:
                ledger.close()
        self._report.commands = count
        manifest = self._manifest
        if not manifest.complete:
            self._report.add("archive-incomplete", None, f"{count} commands and more to come", "a complete archive")
        elif (count, digest.hexdigest()) != (manifest.commands, manifest.commands_sha256):
            found = f"{count} commands, {digest.hexdigest()}"
            self._report.add("archive-format", None, found, f"{manifest.commands}, {manifest.commands_sha256}")

    def _line(self, archived: ArchivedCommand, last: int) -> None:
        record, report = archived.record, self._report
        if not last < record <= self._manifest.last:
            report.add("archive-order", record, f"after record {last}", f"above it, at most {self._manifest.last}")
        if leaf_hash(archived.data) != archived.leaf_hash:
            report.add("leaf-hash", record, archived.leaf_hash.hex(), leaf_hash(archived.data).hex())
        command = archived.command
        verifier = self._verifiers.get(command.header.module_digest)
        if verifier is None:
            found = f"module {command.header.module_digest.hex()[:16]}"
            report.add("archive-module", record, found, "a module of the archive, without a finding")
            return
        try:
            verifier.verify(command.inputs, command.outputs, command.header.ctx(), archived.proof)
        except AttestError as refusal:
            report.add("proof", record, f"check {refusal.code} failed", "a proof that verifies")
            return
        report.proofs_checked += 1

    def _beside(self, ledger: Ledger) -> Iterator[tuple[int, bytes]]:
        """(index, bytes) of the ledger's commands in the range, once the ledger is shown to be the one."""
        manifest = self._manifest
        self._report.ledger_compared = True
        if ledger.origin != manifest.origin:
            self._report.add("ledger-other", None, ledger.origin, manifest.origin)
        if ledger.size < manifest.size:
            self._report.add("ledger-other", None, f"{ledger.size} records", f"at least {manifest.size}")
        elif (root := ledger.root(manifest.size).hex()) != manifest.root:
            self._report.add("ledger-other", None, f"root {root} at {manifest.size}", manifest.root)
        return (
            (leaf.index, leaf.data)
            for leaf in ledger.iterate(manifest.first)
            if leaf.kind is RecordKind.COMMAND and leaf.index <= manifest.last
        )

    def _compare(self, archived: ArchivedCommand, beside: Iterator[tuple[int, bytes]]) -> None:
        for index, data in beside:
            if index < archived.record:
                self._report.add("ledger-missing", index, "no line in the archive", "every command of the range")
                continue
            if index > archived.record or data != archived.data:
                self._report.add("ledger-record", archived.record, "another record in the ledger", "the archived one")
            return
        self._report.add("ledger-record", archived.record, "no such command in the ledger", "the archived one")


def _lines(path: Path) -> Iterator[bytes]:
    """The lines, each bounded; the last one must be whole. Raises :class:`ArchiveError`."""
    try:
        with path.open("rb") as file:
            while line := file.readline(LINE_BYTES_MAX + 1):
                if not line.endswith(b"\n"):
                    raise ArchiveError("archive-format", found="a torn or endless line", expected="whole lines")
                yield line
    except OSError as error:
        raise ArchiveError("archive-io", found=f"{path.name}: {error.strerror}", expected="a readable file") from error
