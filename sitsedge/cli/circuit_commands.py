"""``sitsctl proof export-circuit``: a module's circuit, and one witness, in the files that circom's tools read."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from attest.proof.circuit import FILE_BYTES_MAX, Circuit, Curve, decode, on_curve
from attest.proof.r1cs import write_r1cs, write_sym, write_wtns
from attest.proof.signals import CTX_BYTES
from attest.proof.snarkjs import export_public, export_verification_key
from attest.proof.witness import witness
from sitsedge.cli.output import Exit, complain, note, reported
from sitsedge.modules import PublisherTrust, read_bundle

_INPUTS = re.compile(r"-?\d{1,19}(,-?\d{1,19})*")
_CTX = re.compile(rf"[0-9a-f]{{{2 * CTX_BYTES}}}")
_CTX_ZERO = "00" * CTX_BYTES


def export_circuit(
    source: Annotated[Path, typer.Argument(help="bundle folder (with --trust), or a circuit file")],
    out: Annotated[Path, typer.Argument(help="folder for circuit.r1cs, circuit.sym and what else is asked for")],
    trust: Annotated[
        list[Path] | None, typer.Option("--trust", help="PEM public key of the bundle's publisher")
    ] = None,
    curve: Annotated[
        str | None, typer.Option("--curve", help="bn254 or bls12-381 (default: the circuit's own)")
    ] = None,
    inputs: Annotated[
        str | None, typer.Option("--inputs", help="counts, comma-separated: writes a witness too")
    ] = None,
    ctx: Annotated[str, typer.Option("--ctx", help="the witness's 31-byte context in hex")] = _CTX_ZERO,
) -> None:
    """Write a circuit as .r1cs and .sym, with --inputs also witness.wtns and public.json, for circom's tools."""
    if inputs is not None and _INPUTS.fullmatch(inputs) is None:
        complain(f"--inputs {inputs}", "integers separated by commas, such as --inputs=3,-5")
        raise typer.Exit(Exit.USAGE)
    if _CTX.fullmatch(ctx) is None:
        complain(f"--ctx {ctx}", f"{2 * CTX_BYTES} lower-case hex digits")
        raise typer.Exit(Exit.USAGE)
    if source.is_dir() and not trust:
        complain(f"{source} without --trust", "the publisher's public key beside a bundle")
        raise typer.Exit(Exit.USAGE)
    with reported():
        data, key = load_circuit(source, trust or [])
        circuit = decode(data if curve is None else on_curve(data, Curve.named(curve)))
        files: dict[str, bytes | str] = {"circuit.r1cs": write_r1cs(circuit), "circuit.sym": write_sym(circuit)}
        if key is not None and curve in (None, decode(data).curve.text):
            files["verification_key.json"] = export_verification_key(key)
        if inputs is not None:
            files |= _witness(circuit, [int(value) for value in inputs.split(",")], bytes.fromhex(ctx))
        out.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            (out / name).write_bytes(content.encode() if isinstance(content, str) else content)
        note(f"{', '.join(files)} on {circuit.curve.text} written to {out}")


def load_circuit(source: Path, trust: list[Path]) -> tuple[bytes, bytes | None]:
    """The circuit and, from a bundle, its verification key."""
    if not source.is_dir():
        with source.open("rb") as file:
            return file.read(FILE_BYTES_MAX + 1), None
    bundle = read_bundle(source, PublisherTrust.from_files(trust))
    return bundle.circuit, bundle.verification_key


def _witness(circuit: Circuit, inputs: list[int], ctx: bytes) -> dict[str, bytes | str]:
    wires = witness(circuit, inputs, ctx)
    public = wires[1 : circuit.ctx_wire + 1]
    return {"witness.wtns": write_wtns(circuit, wires), "public.json": export_public(public, curve=circuit.curve)}
