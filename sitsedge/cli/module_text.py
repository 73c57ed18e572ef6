"""What ``sitsctl module build`` and ``module inspect`` print for people; programs take ``--output json``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from attest import jsontext
from attest.files import named
from sitsedge.cli.files import put
from sitsedge.modules import Bundle, BundleConfig
from sitsedge.modules.config import Signal

SIGNALS_SHOWN = 32
"""Inputs and outputs listed; the rest is counted."""


def proof_key(config: BundleConfig) -> str:
    """Whose secrets are in the keys."""
    if config.proof.development:
        return "development: nobody else contributed, a production profile refuses it"
    return f"from a ceremony of {config.proof.contributors} contributors"


def accuracy_lines(report: dict[str, Any]) -> list[str]:
    """Errors on held-out rows, the goal, and what to read before believing them."""
    held, choice = report["accuracy"]["held_out"], report["quantisation"]
    if report.get("class_output", False):
        return [
            f"  accuracy     another class than the float network's in {choice['rms_of_span']:.2%} of calibration rows",
            *_warning_lines(report),
        ]
    lines = [
        f"  accuracy     {name}: rms {_number(entry['rms_error'], entry['unit'])}, "
        f"largest {_number(entry['max_error'], entry['unit'])}{_share(entry)}"
        for name, entry in list(held["outputs"].items())[:SIGNALS_SHOWN]
    ]
    goal = choice["goal"]
    if choice["goal_met"]:  # else the first warning says so
        lines.append(
            f"  goal         met: rms {choice['rms_of_span']:.2%} and largest {choice['max_of_span']:.2%} of the span "
            f"on calibration rows, wanted {goal['rms_of_span']:.2%} and {goal['max_of_span']:.2%}"
        )
    return [*lines, *_warning_lines(report)]


def _warning_lines(report: dict[str, Any]) -> list[str]:
    # Bundles made before reports had warnings have none.
    return [f"  warning      {text}" for text in report.get("warnings", ())]


def _share(entry: dict[str, Any]) -> str:
    share = entry["max_error_of_span"]
    return "" if share is None else f" ({share:.2%} of its span on held-out rows)"


def _number(value: float, unit: str) -> str:
    return f"{value:.4g}" if unit == "1" else f"{value:.4g} {unit}"


def pass_lines(rows: list[dict[str, Any]]) -> list[str]:
    """Node counts after each pass, one line a pass."""
    kinds = (", ".join(f"{kind} {count}" for kind, count in row["nodes"].items()) for row in rows)
    return [
        "  pass                 nodes",
        *(f"  {row['pass']:<20} {row['total']:>5}  {text}" for row, text in zip(rows, kinds, strict=True)),
    ]


def property_lines(rows: list[dict[str, Any]]) -> list[str]:
    """Every property with its verdict, method and time, one line a property."""
    return [
        f"  {row['verdict']:<12} {row['property']} ({row['method']}, {row['seconds']:.2f} s)"
        + (", proven in [{:g}, {:g}]".format(*row["proven_inside"]) if "proven_inside" in row else "")
        for row in rows
    ]


def inspect_lines(bundle: Bundle, runs: dict[str, str]) -> list[str]:
    """A verified bundle: who signed it, its signals, what it loses, what is proven."""
    config, report = bundle.config, bundle.report
    proof = report["proof"]
    return [
        f"module {bundle.digest.hex()}",
        f"  name         {config.name}",
        f"  signer       {bundle.signer}",
        f"  network      {'-'.join(map(str, report['network']))}",
        f"  runs         {', '.join(f'{variant} ({engine})' for engine, variant in runs.items())}",
        f"  proof        {config.proof.curve}, {config.proof.constraints} constraints, {proof['measured_ms']} ms on "
        f"the build machine: inline from cycles of {proof['inline_from_cycle_ms']} ms",
        f"  proof key    {proof_key(config)}",
        *_signal_lines("input", config.inputs),
        *_signal_lines("output", config.outputs),
        *_bound_lines(report["output_bounds"]),
        *accuracy_lines(report),
        *property_lines(report["properties"]),
        f"  not shown    {report['not_shown']}",
    ]


def _signal_lines(kind: str, signals: tuple[Signal, ...]) -> list[str]:
    lines = [
        f"  {kind:<12} {s.name} {s.range[0]:g} … {_number(s.range[1], s.unit)}, a count is {s.scale:g}"
        + (f", at most {s.max_rate:g} a second" if s.max_rate is not None else "")
        for s in signals[:SIGNALS_SHOWN]
    ]
    return lines + ([f"  {kind:<12} and {len(signals) - SIGNALS_SHOWN} more"] if len(signals) > SIGNALS_SHOWN else [])


def _bound_lines(bounds: dict[str, Any]) -> list[str]:
    return [
        f"  bounds       {name}: {entry['physical'][0]:.4g} … {_number(entry['physical'][1], entry['unit'])} for any "
        f"input, {'inside' if entry['proven_inside_limits'] else 'not proven inside'} its limits"
        for name, entry in list(bounds.items())[:SIGNALS_SHOWN]
    ]


def extract(bundle: Bundle, folder: Path) -> list[Path]:
    """Write a bundle's parts under names people and their tools know, into a new folder.

    Raises ``FileError`` (``file-exists``, …); the integer graph is the file to run in ONNX Runtime.
    """
    with named(folder):
        folder.mkdir(parents=True)
    parts = {
        "report.html": bundle.report_html,
        "report.json": jsontext.dumps(bundle.report, indent=1, ensure_ascii=False).encode(),
        "integer.onnx": bundle.integer_onnx,
        "module.wasm": bundle.wasm,
        "module-relaxed.wasm": bundle.wasm_relaxed,
        "circuit.bin": bundle.circuit,
        "verification.key": bundle.verification_key,
    }
    for name, data in parts.items():
        put(folder / name, data)
    return [folder / name for name in parts]
