"""``sitsctl proof archive`` and ``verify-archive``: commands of an old ledger proven again on another curve."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from attest.archive import ArchiveReport, ArchiveWriter, ModuleSource, verify_archive
from attest.archive.format import MANIFEST_BYTES_MAX, MANIFEST_FILE, ArchiveManifest, read_file
from attest.archive.write import FindModule, Keys, development_keys
from attest.command import parse_command
from attest.ledger import Ledger, RecordKind
from attest.proof import Curve
from attest.proof.circuit import on_curve
from sitsedge.cli.audit_commands import DirArgument, EngineOption, find_ledgers
from sitsedge.cli.output import Exit, Output, OutputOption, complain, emit, note, reported
from sitsedge.cli.recorded_modules import ceremony_keys, find_parts
from sitsedge.errors import SitsError

FINDINGS_SHOWN: Final = 20

LedgerName = Annotated[str, typer.Option("--ledger", help="device or gate")]
BundleOption = Annotated[
    list[Path] | None, typer.Option("--bundle", help="a module's bundle; repeat it (default: the STATE/modules store)")
]


def archive_command(
    directory: DirArgument,
    out: Annotated[Path, typer.Argument(help="folder of the archive; an interrupted one is continued")],
    first: Annotated[int, typer.Option("--from", min=0, help="first record")] = 0,
    last: Annotated[int | None, typer.Option("--to", min=0, help="last record (default: the newest)")] = None,
    ledger: LedgerName = "device",
    curve: Annotated[str, typer.Option("--curve", help="bls12-381 or bn254")] = Curve.BLS12_381.text,
    bundle: BundleOption = None,
    keys: Annotated[
        Path | None, typer.Option("--keys", help="ceremony folder with the keys (default: development keys)")
    ] = None,
    circuits_only: Annotated[
        bool,
        typer.Option("--circuits-only", help="write the modules' circuits on that curve, for a ceremony, and stop"),
    ] = False,
    output: Output = OutputOption,
) -> None:
    """Prove recorded commands again, on BLS12-381 for the archive; the folder can be checked without anything else."""
    with reported(output):
        if ledger not in ("device", "gate"):
            complain(f"--ledger {ledger}", "device or gate")
            raise typer.Exit(Exit.USAGE)
        ledgers = find_ledgers(directory)
        opened = Ledger.open_readonly(ledgers / ledger / "ledger.db")
        try:
            end = _last_record(out, opened) if last is None else last
            if circuits_only:
                _write_circuits(out, opened, first, end, Curve.named(curve), lambda d: _find(d, ledgers, bundle or ()))
                return
            writer = ArchiveWriter(
                out,
                opened,
                name=ledger,
                first=first,
                last=end,
                curve=Curve.named(curve),
                find_module=lambda digest: _find(digest, ledgers, bundle or ()),
                make_keys=development_keys if keys is None else lambda _, circuit: _ceremony_keys(keys, circuit),
            )
            manifest = writer.run(lambda done: note(f"{done} commands"))
        finally:
            opened.close()
        development = any(entry.development for entry in manifest.modules.values())
        data: dict[str, Any] = {
            "ok": True,
            "path": str(out),
            "curve": manifest.curve,
            "ledger": manifest.ledger,
            "commands": manifest.commands,
            "modules": sorted(manifest.modules),
            "development_key": development,
        }
        emit(output, data, lambda: _print_archived(data))


def verify_archive_command(
    directory: Annotated[Path, typer.Argument(help="folder of the archive")],
    ledger: Annotated[Path | None, typer.Option("--ledger", help="folder of the ledger it was made from")] = None,
    engine: EngineOption = "native",
    output: Output = OutputOption,
) -> None:
    """Check an archive with its files alone, and against the ledger where one is given."""
    with reported(output):
        if engine not in ("native", "py-ecc"):
            complain(f"--engine {engine}", "native or py-ecc")
            raise typer.Exit(Exit.USAGE)
        path = None if ledger is None else _ledger_file(directory, find_ledgers(ledger))
        report = verify_archive(directory, engine="py-ecc" if engine == "py-ecc" else "native", ledger=path)
        emit(output, report.to_dict(), lambda: _print_report(report))
    raise typer.Exit(Exit.OK if report.ok else Exit.REFUSED)


def _write_circuits(out: Path, ledger: Ledger, first: int, last: int, curve: Curve, find: FindModule) -> None:
    """``circuit-MODULE.bin`` for every module that decided a command of the range."""
    modules = {
        parse_command(leaf.data, None).command.header.module_digest
        for leaf in takewhile(lambda leaf: leaf.index <= last, ledger.iterate(first))
        if leaf.kind is RecordKind.COMMAND
    }
    out.mkdir(parents=True, exist_ok=True)
    for digest in sorted(modules):
        path = out / f"circuit-{digest.hex()}.bin"
        path.write_bytes(on_curve(find(digest).circuit, curve))
        note(f"{path}: begin a ceremony with sitsctl proof setup --circuit")


def _last_record(out: Path, ledger: Ledger) -> int:
    """The newest command now, or what an archive begun earlier has as its end."""
    if (out / MANIFEST_FILE).exists():
        return ArchiveManifest.decode(read_file(out / MANIFEST_FILE, MANIFEST_BYTES_MAX)).last
    newest = ledger.last(RecordKind.COMMAND)
    if newest is None:
        raise SitsError("no-command", found="no command in the ledger", expected="at least one")
    return newest.index


def _find(digest: bytes, ledgers: Path, bundles: Sequence[Path]) -> ModuleSource:
    """The module among the bundles given, else in the store beside the ledgers."""
    parts = find_parts(digest, ledgers, bundles)
    return ModuleSource(parts.manifest, parts.circuit)


def _ceremony_keys(folder: Path, circuit: bytes) -> Keys:
    """The keys of a ceremony, recomputed from its transcript for this very circuit on the archive's curve."""
    made = ceremony_keys(folder, circuit)
    return Keys(made.proving_key, made.verification_key, made.contributions)


def _ledger_file(archive: Path, ledgers: Path) -> Path:
    name = ArchiveManifest.decode(read_file(archive / MANIFEST_FILE, MANIFEST_BYTES_MAX)).ledger
    return ledgers / ("gate" if name == "gate" else "device") / "ledger.db"


def _print_archived(data: dict[str, Any]) -> None:
    print(f"{data['commands']} commands of the {data['ledger']} ledger proven again on {data['curve']}: {data['path']}")
    if data["development_key"]:
        print("proof key: development, nobody else contributed: it shows nothing to anybody else")


def _print_report(report: ArchiveReport) -> None:
    print(f"archive: {'OK' if report.ok else 'FAILED'}")
    print(f"{report.commands} commands on {report.curve}, {report.proofs_checked} proofs checked ({report.engine})")
    print(f"compared with the ledger: {'yes' if report.ledger_compared else 'no'}")
    if report.development:
        print(f"{report.development} of {report.modules} proof keys are development keys: they show nothing to others")
    for finding in report.findings[:FINDINGS_SHOWN]:
        print(f"  FINDING {finding}")
    if report.findings_total > FINDINGS_SHOWN:
        print(f"  … and {report.findings_total - FINDINGS_SHOWN} more")
