"""``sitsctl proof``: check the proof of one recorded command, or take it out in the snarkjs layout."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from attest.ledger import Ledger, RecordKind
from attest.ledger.anchors import ModuleAnchor, load_anchors
from attest.ledger.audit import Extracted, extract
from attest.proof import NativeVerifier, ProofRefused, ProofVerifier, PyEccVerifier
from attest.proof.keys import VerificationKey
from attest.proof.signals import to_signals
from attest.proof.snarkjs import export_proof, export_public, export_verification_key
from sitsedge.cli import ceremony_commands
from sitsedge.cli.audit_commands import DirArgument, EngineOption, find_ledgers
from sitsedge.cli.output import Exit, Output, OutputOption, complain, emit, note, reported
from sitsedge.errors import SitsError

app = typer.Typer(
    name="proof", help="Check and export the zero-knowledge proofs of recorded commands.", no_args_is_help=True
)

RecordOption = Annotated[int | None, typer.Option("--record", help="record number (default: the newest command)")]
LedgerOption = Annotated[str, typer.Option("--ledger", help="device or gate")]


@app.command("verify")
def verify_command(
    directory: DirArgument,
    record: RecordOption = None,
    ledger: LedgerOption = "device",
    engine: EngineOption = "native",
    output: Output = OutputOption,
) -> None:
    """Verify one command's proof with the chosen engine and the key that the anchors pin."""
    with reported(output):
        if engine not in ("native", "py-ecc"):
            complain(f"--engine {engine}", "native or py-ecc")
            raise typer.Exit(Exit.USAGE)
        index, command, module = _load(find_ledgers(directory), ledger, record)
        failed: str | None = None
        try:
            make: type[NativeVerifier | PyEccVerifier] = PyEccVerifier if engine == "py-ecc" else NativeVerifier
            verifier: ProofVerifier = make(module.verification_key, vk_sha256=module.vk_sha256)
            verifier.verify(command.inputs, command.outputs, command.ctx, command.proof)
        except ProofRefused as refused:
            failed = refused.code
        data: dict[str, Any] = {
            "ok": failed is None,
            "failed": failed,
            "engine": engine,
            "ledger": ledger,
            "record": index,
        }
        data |= {"inputs": command.inputs, "outputs": command.outputs, "ctx": command.ctx}
        data |= {"vk_sha256": module.vk_sha256, "development_key": module.development}
        emit(output, data, lambda: _print(data))
    raise typer.Exit(Exit.OK if failed is None else Exit.REFUSED)


@app.command("export")
def export_command(
    directory: Annotated[Path, typer.Argument(help="ledger folder, ceremony folder, or phase 1 file")],
    out: Annotated[Path, typer.Argument(help="folder for the files; for a phase 1 the .ptau file")],
    record: RecordOption = None,
    ledger: LedgerOption = "device",
) -> None:
    """Write a command's proof, public signals and key, a ceremony's keys, or a phase 1, as snarkjs reads them."""
    with reported():
        if ceremony_commands.export(directory, out):
            return
        index, command, module = _load(find_ledgers(directory), ledger, record)
        out.mkdir(parents=True, exist_ok=True)
        key = module.verification_key
        curve = VerificationKey.curve_of(key)
        n_public = len(command.inputs) + len(command.outputs) + 1
        signals = to_signals(command.inputs, command.outputs, command.ctx, n_public=n_public, curve=curve)
        files = {
            "proof.json": export_proof(command.proof, curve=curve),
            "public.json": export_public(signals, curve=curve),
            "verification_key.json": export_verification_key(key),
        }
        for name, content in files.items():
            (out / name).write_text(content, encoding="utf-8")
        note(f"record {index} of the {ledger} ledger written to {out}")


def _load(ledgers: Path, name: str, record: int | None) -> tuple[int, Extracted, ModuleAnchor]:
    """Record number, its statement and proof, and the module with its verification key and pinned hash."""
    anchors = load_anchors(ledgers / "anchors")
    opened = Ledger.open_readonly(ledgers / name / "ledger.db")
    try:
        index = record
        if index is None:
            newest = opened.last(RecordKind.COMMAND)
            if newest is None:
                raise SitsError("no-command", found="no command in the ledger", expected="at least one")
            index = newest.index
        command = extract(opened, index)
    finally:
        opened.close()
    module = anchors.modules.get(command.module_digest)
    if module is None or not module.verification_key:
        raise SitsError(
            "no-key",
            found=f"no key for module {command.module_digest.hex()}",
            expected="its verification key in anchors/modules",
        )
    return index, command, module


def _print(data: dict[str, Any]) -> None:
    verdict = "verifies" if data["ok"] else f"REFUSED: {data['failed']}"
    print(f"{data['ledger']} record {data['record']} ({data['engine']}): {verdict}")
    print(f"  inputs  {list(data['inputs'])}")
    print(f"  outputs {list(data['outputs'])}")
    print(f"  ctx     {data['ctx'].hex()}")
    mark = " (development: nobody contributed to it)" if data["development_key"] else ""
    print(f"  key     {data['vk_sha256'].hex()}{mark}")
