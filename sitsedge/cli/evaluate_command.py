"""``sitsctl module evaluate``: what a network loses as integers, also one too large for a proof."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from attest import jsontext
from sitsedge.cli.output import Exit, Output, OutputOption, complain, emit, reported
from sitsedge.compiler.evaluate import Evaluation, evaluate
from sitsedge.compiler.quantiser.search import Prefer


def evaluate_command(
    model: Annotated[Path, typer.Argument(help="ONNX file with float layers")],
    calibration: Annotated[Path, typer.Option("--calibration", help=".npy file: rows of inputs, physical units")],
    held_out: Annotated[
        Path | None, typer.Option("--held-out", help=".npy file to judge on (default: every third calibration row)")
    ] = None,
    input_shape: Annotated[
        str | None, typer.Option("--input-shape", help="sizes the file leaves open, like 1,3,48,192")
    ] = None,
    input_scale: Annotated[
        float | None, typer.Option("--input-scale", help="physical value of one count (default: 2047 for the largest)")
    ] = None,
    prefer: Annotated[
        Prefer, typer.Option("--prefer", help="rows (a small circuit), or speed (7-bit activations where accurate)")
    ] = "speed",
    out: Annotated[Path | None, typer.Option("--out", help="folder to make for the modules and the report")] = None,
    output: Output = OutputOption,
) -> None:
    """Quantise a network, run it in every form and print what it loses; nothing is signed or proven."""
    shape = _shape(input_shape)
    if out is not None and out.exists():
        complain(f"{out} exists", "choose a folder that does not")
        raise typer.Exit(Exit.USAGE)
    with reported(output):
        found = evaluate(
            model,
            calibration,
            held_out=held_out,
            input_shape=shape,
            input_scale=input_scale,
            prefer=prefer,
        )
        if out is not None:
            _write(out, found)
        emit(output, found.report, lambda: print("\n".join(_lines(found.report))))


def _shape(text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    parts = text.split(",")
    if not all(part.isascii() and part.isdigit() and len(part) <= 6 for part in parts):
        complain(f"--input-shape {text}", "whole numbers with commas between, like 1,3,48,192")
        raise typer.Exit(Exit.USAGE)
    return tuple(map(int, parts))


def _write(folder: Path, found: Evaluation) -> None:
    folder.mkdir(parents=True)
    (folder / "module.wasm").write_bytes(found.wasm)
    (folder / "module.relaxed.wasm").write_bytes(found.wasm_relaxed)
    (folder / "integer.onnx").write_bytes(found.integer_onnx)
    (folder / "report.json").write_text(jsontext.dumps(found.report, indent=1, ensure_ascii=False), encoding="utf-8")


def _lines(report: dict[str, Any]) -> list[str]:
    lines = [f"{report['model']}: {report['nodes']} integer nodes, {report['inputs']['count']} inputs"]
    for rows in ("calibration", "held_out"):
        found = report["accuracy"][rows]
        same = f", same class {100 * found['same_class']:.1f} %" if "same_class" in found else ""
        lines.append(
            f"  {rows.replace('_', ' '):<12} {found['rows']} rows: rms {100 * found['rms']:.2f} %,"
            f" peak {100 * found['peak']:.2f} % of an output's span{same}"
        )
    if outside := report["accuracy"]["held_out"]["inputs_outside_box"]:
        lines.append(f"  range        {outside} held-out inputs outside the calibrated range were limited to it")
    for variant in ("simd128", "relaxed_simd"):
        run = report["runs"][variant]
        lines.append(
            f"  {variant.replace('_', ' '):<12} {run['call_ms_median']:.3f} ms a call, {run['fuel_per_call']} fuel"
        )
    lines.append(f"  agreement    {report['runs']['rows']} rows equal in reference, ONNX Runtime and both modules")
    proof = report["proof"]
    reason = "; ".join(proof["why_not"])
    estimate = f"{proof['constraints_estimated']} constraints (estimated)"
    lines.append(f"  proof        {'possible: ' + estimate if proof['possible'] else 'no proof: ' + reason}")
    lines.append("  signed       no: for judging a model; only what module build makes can run a plant")
    return lines
