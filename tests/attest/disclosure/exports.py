"""A recorded deployment, its sealed export, and ways to falsify one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from attest.disclosure import Selection, Trust, verify_export, write_export
from attest.disclosure import format as fmt
from attest.disclosure.format import IncludedRecord, Manifest, SealedRecord
from attest.disclosure.verify import SealedReport
from attest.proof import Curve
from tests.attest.ledger.scenario import CIRCUIT, Scenario


@dataclass(frozen=True)
class Case:
    """Ledgers, export and openings of one scenario."""

    scenario: Scenario
    ledgers: Path
    out: Path
    openings: Path


def export(scenario: Scenario, folder: Path, *, curve: Curve = Curve.BN254, selection: Selection | None = None) -> Case:
    """Exports into ``folder`` with development keys."""
    out, openings = folder / "export", folder / "salts.json"
    write_export(scenario.folder, out, openings, curve=curve, find_circuit=lambda _: CIRCUIT, selection=selection)
    return Case(scenario, scenario.folder, out, openings)


def report(out: Path, **options: object) -> SealedReport:
    return verify_export(out, **options)  # type: ignore[arg-type]


def codes(out: Path, **options: object) -> set[str]:
    return {finding.code for finding in report(out, **options).findings}


def trusting(case: Case) -> Trust:
    manifest = manifest_of(case.out)
    return Trust(case.scenario.gate_key.public, bytes.fromhex(manifest.vk_sha256))


def manifest_of(out: Path) -> Manifest:
    return Manifest.decode((out / fmt.MANIFEST_FILE).read_bytes())


def change_manifest(out: Path, **changes: object) -> None:
    manifest = replace(manifest_of(out), **changes)  # type: ignore[arg-type]
    (out / fmt.MANIFEST_FILE).write_bytes(manifest.encode())


def command_path(out: Path, name: str) -> Path:
    return out / fmt.COMMANDS / f"{name}{fmt.SUFFIX}"


def record(out: Path, name: str) -> SealedRecord:
    return SealedRecord.decode(command_path(out, name).read_bytes(), Curve.named(manifest_of(out).curve))


def change_record(out: Path, name: str, change: Callable[[SealedRecord], SealedRecord]) -> None:
    command_path(out, name).write_bytes(change(record(out, name)).encode())


def change_epoch(out: Path, number: int, change: Callable[[IncludedRecord], IncludedRecord]) -> None:
    path = out / fmt.EPOCHS / f"{number}{fmt.SUFFIX}"
    path.write_bytes(change(IncludedRecord.decode(path.read_bytes())).encode())
