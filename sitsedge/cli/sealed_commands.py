"""``sitsctl audit export --sealed``, ``verify-sealed``, ``open``: commands for a third party without their inputs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final

import typer
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from attest.disclosure import Keys, SealedReport, Selection, Trust, open_command, verify_export
from attest.disclosure.errors import DisclosureError
from attest.disclosure.format import read_file
from attest.disclosure.write import Exported, ExportWriter, development_keys
from attest.files import EXISTS, FileError, named, require
from attest.proof import Curve
from sitsedge.cli.audit_commands import DirArgument, EngineOption, find_ledgers
from sitsedge.cli.output import Exit, Output, OutputOption, complain, emit, note, reported
from sitsedge.cli.recorded_modules import ceremony_keys, find_parts

FINDINGS_SHOWN: Final = 20
PEM_BYTES_MAX: Final = 4096
PROGRESS_EVERY: Final = 100
OPENING_REFUSED: Final = frozenset({"opening-unknown", "opening-wrong"})
NOT_SHOWN: Final = (
    "shown: some inputs in the box give these outputs, and the gate accepted them; "
    "not shown without an opening: that they are the inputs the command was signed with"
)

ExportArgument = Annotated[Path, typer.Argument(help="folder of the export")]


def export_command(
    directory: DirArgument,
    out: Annotated[Path, typer.Argument(help="folder to hand over; must not exist")],
    sealed: Annotated[bool, typer.Option("--sealed", help="without inputs: the one kind of export there is")] = False,
    first: Annotated[int, typer.Option("--from", min=0, help="first record of the device's ledger")] = 0,
    last: Annotated[int | None, typer.Option("--to", min=0, help="last record (default: the newest)")] = None,
    records: Annotated[int | None, typer.Option("--records", min=1, help="at most so many, chosen at random")] = None,
    openings: Annotated[
        Path | None, typer.Option("--openings", help="file for the salts, which stays here (default: OUT.openings)")
    ] = None,
    curve: Annotated[str, typer.Option("--curve", help="bn254 or bls12-381")] = Curve.BN254.text,
    bundle: Annotated[
        list[Path] | None,
        typer.Option("--bundle", help="a module's bundle; repeat it (default: the STATE/modules store)"),
    ] = None,
    keys: Annotated[
        Path | None, typer.Option("--keys", help="ceremony folder with the keys (default: development keys)")
    ] = None,
    circuit_only: Annotated[
        bool, typer.Option("--circuit-only", help="write the sealed circuit to OUT, for a ceremony, and stop")
    ] = False,
    output: Output = OutputOption,
) -> None:
    """Prove recorded commands again with the inputs hidden behind salted commitments, for a third party."""
    if not sealed:
        complain("an export without --sealed", "the ledgers themselves are the export that shows inputs")
        raise typer.Exit(Exit.USAGE)
    with reported(output):
        ledgers = find_ledgers(directory)
        writer = ExportWriter(
            ledgers,
            Selection(first, last, records),
            curve=Curve.named(curve),
            find_circuit=lambda digest: find_parts(digest, ledgers, bundle or ()).circuit,
        )
        if circuit_only:
            with named(out), out.open("xb") as file:
                file.write(writer.circuit)
            note(f"{out}: begin a ceremony with sitsctl proof setup --circuit")
            return
        chosen = development_keys(writer.circuit) if keys is None else _ceremony_keys(keys, writer.circuit)
        kept = out.with_name(f"{out.name}.openings") if openings is None else openings
        with named(out):
            exported = writer.write(out, kept, chosen, _progress)
        manifest = exported.manifest
        data: dict[str, Any] = {
            "ok": True,
            "path": str(out),
            "openings": str(kept),
            "commands": len(manifest.commands),
            "left_out": exported.left_out,
            "curve": manifest.curve,
            "circuit_sha256": manifest.circuit_sha256,
            "vk_sha256": manifest.vk_sha256,
            "development_key": manifest.development,
        }
        emit(output, data, lambda: _print_exported(out, kept, exported))


def verify_command(
    directory: ExportArgument,
    engine: EngineOption = "native",
    gate_key: Annotated[
        Path | None, typer.Option("--gate-key", help="the gate's public key (PEM), got by a way of your own")
    ] = None,
    vk_sha256: Annotated[
        str | None, typer.Option("--vk-sha256", help="hash of the verification key, got by a way of your own")
    ] = None,
    opening: Annotated[
        list[Path] | None, typer.Option("--opening", help="an opened command of this export; repeat it")
    ] = None,
    output: Output = OutputOption,
) -> None:
    """Check a sealed export with its files alone: no inputs, no ledger, no device."""
    with reported(output):
        if engine not in ("native", "py-ecc"):
            complain(f"--engine {engine}", "native or py-ecc")
            raise typer.Exit(Exit.USAGE)
        require(directory, folder=True)
        for path in opening or ():
            require(path)
        trust = Trust(_gate_key(gate_key), _digest(vk_sha256))
        report = verify_export(
            directory,
            engine="py-ecc" if engine == "py-ecc" else "native",
            trust=trust,
            openings=tuple(opening or ()),
        )
        emit(output, report.to_dict(), lambda: _print_report(report))
    raise typer.Exit(Exit.OK if report.ok else Exit.REFUSED)


def open_command_line(
    openings: Annotated[Path, typer.Argument(help="file of salts that the export left here")],
    directory: DirArgument,
    command: Annotated[str, typer.Argument(help="EPOCH-SEQUENCE, as the export names it")],
    out: Annotated[Path, typer.Argument(help="file to hand over; must not exist")],
) -> None:
    """Reveal one exported command to whoever holds the export: its signed bytes, inputs included, and its salt."""
    with reported():
        require(openings)
        if out.exists():
            raise FileError(EXISTS, found=f"{out} exists", expected="a new file", hint="give another name")
        try:
            opened = open_command(openings, find_ledgers(directory) / "device" / "ledger.db", command)
        except DisclosureError as error:
            if error.code not in OPENING_REFUSED:
                raise
            complain(f"{error.code}: got {error.found}, expected {error.expected}", error.hint)
            raise typer.Exit(Exit.REFUSED) from None
        with named(out), out.open("xb") as file:
            file.write(opened.encode())
        note(f"{out}: command {command} with its inputs; sitsctl audit verify-sealed OUT --opening {out.name}")


def _ceremony_keys(folder: Path, circuit: bytes) -> Keys:
    """The keys of a ceremony, recomputed from its transcript for this very circuit."""
    made = ceremony_keys(folder, circuit)
    return Keys(made.proving_key, made.verification_key, made.contributions)


def _gate_key(path: Path | None) -> bytes | None:
    if path is None:
        return None
    try:
        key = load_pem_public_key(read_file(path, PEM_BYTES_MAX))
    except ValueError:
        key = None
    if not isinstance(key, Ed25519PublicKey):
        complain(f"--gate-key {path}", "an Ed25519 public key in PEM (anchors/gate.pub)")
        raise typer.Exit(Exit.USAGE)
    return key.public_bytes_raw()


def _digest(text: str | None) -> bytes | None:
    if text is None:
        return None
    try:
        digest = bytes.fromhex(text)
    except ValueError:
        digest = b""
    if len(digest) != 32:
        complain(f"--vk-sha256 {text}", "64 hex digits")
        raise typer.Exit(Exit.USAGE)
    return digest


def _progress(done: int) -> None:
    if done % PROGRESS_EVERY == 0:
        note(f"{done} commands")


def _print_exported(out: Path, openings: Path, exported: Exported) -> None:
    manifest = exported.manifest
    print(f"{len(manifest.commands)} commands sealed on {manifest.curve}: {out}")
    if exported.left_out:
        print(f"{exported.left_out} commands left out: no receipt that a checkpoint of the gate covers")
    print(f"salts, to stay here: {openings}")
    print(f"circuit {manifest.circuit_sha256}, key {manifest.vk_sha256}")
    if manifest.development:
        print("proof key: development, nobody else contributed: it shows nothing to anybody else")


def _print_report(report: SealedReport) -> None:
    print(f"sealed export: {'OK' if report.ok else 'FAILED'}")
    print(f"{report.commands} commands on {report.curve}, {report.proofs_checked} proofs checked ({report.engine})")
    if report.openings_checked:
        print(f"{report.openings_checked} opened commands checked against the gate's receipts")
    print(f"module  {report.module_digest}")
    print(f"circuit {report.circuit_sha256} (by the export's own word: it is not part of it)")
    print(f"key     {report.vk_sha256}" + ("" if report.vk_trusted else " (by the export's own word: --vk-sha256)"))
    if not report.gate_key_trusted:
        print("gate key by the export's own word (--gate-key)")
    for item in report.inputs:
        print(f"  input {item['name']}: {item['low']} to {item['high']} counts")
    if report.relations:
        print(f"  relations: {', '.join(report.relations)}")
    if report.development:
        print("proof key: development, nobody else contributed: it shows nothing to anybody else")
    for finding in report.findings[:FINDINGS_SHOWN]:
        print(f"  FINDING {finding}")
    if report.findings_total > FINDINGS_SHOWN:
        print(f"  … and {report.findings_total - FINDINGS_SHOWN} more")
    print(NOT_SHOWN)
