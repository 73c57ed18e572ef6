"""``sitsctl module``: from one ONNX file to a signed bundle, and what is in one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from attest.proof import Curve
from attest.proof.ceremony_folder import CeremonyFolder
from sitsedge.cli.ceremony_commands import judged
from sitsedge.cli.common import ConfigOption, StateOption, existing_state
from sitsedge.cli.module_text import accuracy_lines, extract, inspect_lines, pass_lines, proof_key, property_lines
from sitsedge.cli.output import Exit, Output, OutputOption, complain, emit, note, reported
from sitsedge.modules import Bundle, ModuleStore, PublisherTrust, read_bundle
from sitsedge.sandbox import variant_for
from sitsedge.sandbox.engine import ENGINES
from sitsedge.supervisor.keys import ensure_key, signing_key

app = typer.Typer(name="module", help="Build, inspect, verify and list module bundles.", no_args_is_help=True)

TrustOption = Annotated[list[Path], typer.Option("--trust", help="PEM public key of a publisher; may be repeated")]


@app.command("build")
def build_command(
    model: Annotated[Path, typer.Argument(help="ONNX file with float layers")],
    calibration: Annotated[Path, typer.Option("--calibration", help="CSV: input names, physical units")],
    limits: Annotated[Path, typer.Option("--limits", help="units, scales, ranges and rates of every signal")],
    out: Annotated[Path, typer.Option("--out", help="bundle folder to make; must not exist")],
    key: Annotated[Path, typer.Option("--key", help="publisher's Ed25519 key (PEM, 0600); made if missing")],
    name: Annotated[
        str | None, typer.Option("--name", help="name of the module (default: of the folder the model is in)")
    ] = None,
    curve: Annotated[
        str, typer.Option("--curve", help="bn254 (the loop), or bls12-381 (about 128-bit security)")
    ] = "bn254",
    keys: Annotated[
        Path | None, typer.Option("--keys", help="ceremony folder with the keys (default: development keys)")
    ] = None,
    prefer: Annotated[
        Literal["rows", "speed"],
        typer.Option("--prefer", help="rows (a small circuit), or speed (7-bit activations where accurate)"),
    ] = "rows",
    explain: Annotated[bool, typer.Option("--explain", help="print node counts of each pass")] = False,
    allow_refuted: Annotated[
        bool, typer.Option("--allow-refuted", help="build although an input breaks a property of the limits file")
    ] = False,
    output: Output = OutputOption,
) -> None:
    """Build integer graph, WASM, circuit, keys and report, check that all four agree, and sign the bundle."""
    from sitsedge.compiler import build  # loads the compiler: not for the other commands

    ceremony = _ceremony(keys)
    with judged(output):
        chosen = Curve.named(curve)
        if not key.exists():
            note(f"no key at {key}: making a publisher key")
        ensure_key(key, key.with_suffix(".pub"), may_create=True, what="publisher")
        signer = signing_key(key)
        result = build(
            model,
            calibration,
            limits,
            out,
            signer=signer,
            name=name,
            prefer=prefer,
            curve=chosen,
            ceremony=ceremony,
            allow_refuted=allow_refuted,
        )
        data: dict[str, Any] = {
            "digest": result.digest,
            "path": str(result.path),
            "publisher": str(key.with_suffix(".pub")),
            "curve": result.config.proof.curve,
            "constraints": result.config.proof.constraints,
            "development_key": result.config.proof.development,
            "contributors": result.config.proof.contributors,
            "report": result.report,
        }

        def text() -> None:
            print(f"module {result.digest.hex()}")
            print(f"  bundle       {result.path}")
            print(f"  publisher    {key.with_suffix('.pub')}")
            print(f"  proof curve  {result.config.proof.curve}")
            print(f"  constraints  {result.config.proof.constraints}")
            print(f"  proof key    {proof_key(result.config)}")
            for line in (*accuracy_lines(result.report), *property_lines(result.report["properties"])):
                print(line)
            if explain:
                print("\n".join(pass_lines(result.report["passes"])))
            print(f"  report       sitsctl module inspect {out} --trust {key.with_suffix('.pub')} --extract DIR")

        emit(output, data, text)


@app.command("inspect")
def inspect_command(
    bundle: Annotated[Path, typer.Argument(help="bundle folder")],
    trust: TrustOption,
    folder: Annotated[
        Path | None, typer.Option("--extract", help="new folder for report.html, integer.onnx and the other parts")
    ] = None,
    output: Output = OutputOption,
) -> None:
    """Verify a bundle and show its signals, accuracy, proven bounds and keys; --output json has the whole report."""
    with reported(output):
        loaded = read_bundle(bundle, PublisherTrust.from_files(trust))
        files = extract(loaded, folder) if folder is not None else []
        data = _describe(loaded) | {"extracted": list(map(str, files))}

        def text() -> None:
            print("\n".join(inspect_lines(loaded, data["runs"])))
            for file in files:
                print(f"  extracted    {file}")

        emit(output, data, text)


@app.command("verify")
def verify_command(
    bundle: Annotated[Path, typer.Argument(help="bundle folder")],
    trust: TrustOption,
    output: Output = OutputOption,
) -> None:
    """Check every digest and the publisher's signature."""
    with reported(output):
        loaded = read_bundle(bundle, PublisherTrust.from_files(trust))
        data = {"ok": True, "digest": loaded.digest, "signer": loaded.signer}
        emit(output, data, lambda: print(f"module {loaded.digest.hex()} signed by {loaded.signer}"))


@app.command("list")
def list_command(config: ConfigOption = None, state_dir: StateOption = None, output: Output = OutputOption) -> None:
    """List the modules of a deployment; the active one is marked."""
    with reported(output):
        state = existing_state(config, state_dir)
        store = ModuleStore(state.modules, PublisherTrust.from_files(sorted(state.trust.glob("publisher*.pub"))))
        active, digests = store.active(), store.digests()
        data = {"active": active, "modules": list(digests)}

        def text() -> None:
            for digest in digests:
                print(f"{'*' if digest == active else ' '} {digest.hex()}")

        emit(output, data, text)
    raise typer.Exit(Exit.OK)


def _ceremony(path: Path | None) -> CeremonyFolder | None:
    if path is None:
        return None
    folder = CeremonyFolder.found_at(path)
    if folder is None:
        complain(f"--keys {path}", "a ceremony folder, as sitsctl proof setup makes it")
        raise typer.Exit(Exit.USAGE)
    return folder


def _describe(bundle: Bundle) -> dict[str, Any]:
    return {
        "digest": bundle.digest,
        "signer": bundle.signer,
        "config": bundle.config.model_dump(mode="json"),
        "runs": {engine: variant_for(bundle, engine) for engine in ENGINES},
        "report": bundle.report,
    }
