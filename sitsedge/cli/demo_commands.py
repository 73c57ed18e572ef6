"""``sitsctl demo`` and ``sitsctl bench loop``; the group that ``sitsctl bench proof`` is in."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from sitsedge.cli.audit_commands import print_report
from sitsedge.cli.bench_commands import bench_inference, bench_proof
from sitsedge.cli.common import parse_duration
from sitsedge.cli.output import Exit, Output, OutputOption, complain, emit, note, reported
from sitsedge.config import load_deployment
from sitsedge.config.deployment import RollingMillPlant
from sitsedge.demo.runner import (
    AttackVerdict,
    Run,
    Thickness,
    bench_object,
    compare_thickness,
    fresh_state,
    run_attacks,
    run_main_job,
    write_summary,
)
from sitsedge.errors import SitsError
from sitsedge.supervisor.state import StateDir

ATTACK_NAMES = (
    "replay", "reorder", "stale-frame", "tampered-output", "tampered-input", "forged-proof",
    "proof-moved", "wrong-model", "unapproved-boot", "old-quote", "over-limit", "cut-ledger",
)  # fmt: skip
EXAMPLE = Path("examples/rolling-mill/deployment.yaml")
DEFAULT_SECONDS = "60s"
ACCEPTED_SHARE_MIN = 0.95

bench = typer.Typer(name="bench", help="Measure on this machine.", no_args_is_help=True)

ConfigArgument = Annotated[Path | None, typer.Option("--config", help="deployment file (default: the rolling mill)")]
ForOption = Annotated[str, typer.Option("--for", help="how long: 30s, 2m")]
StateArgument = Annotated[
    Path | None, typer.Option("--state-dir", help="state folder; emptied if an earlier demo made it")
]


bench.command("proof")(bench_proof)
bench.command("inference")(bench_inference)


@bench.callback()
def _bench() -> None:
    """Measure on this machine."""


def demo(
    attack: Annotated[str | None, typer.Option("--attack", help="one of the twelve attacks, or all")] = None,
    for_: ForOption = DEFAULT_SECONDS,
    config: ConfigArgument = None,
    state_dir: StateArgument = None,
    result: Annotated[Path, typer.Option("--result", help="folder for picture and summary")] = Path("demo-result"),
    output: Output = OutputOption,
) -> None:
    """Run the main job on the simulated mill and show what came of it; with --attack, attack it while it runs."""
    with reported(output):
        path = _example(config)
        seconds = parse_duration(for_)
        if attack is None:
            _demo(path, fresh_state(_state(state_dir, "demo")), seconds, result, output)
            return
        names = list(ATTACK_NAMES) if attack == "all" else [attack]
        if not set(names) <= set(ATTACK_NAMES):
            complain(f"--attack {attack}", f"one of {', '.join(ATTACK_NAMES)}, or all")
            raise typer.Exit(Exit.USAGE)
        verdicts = run_attacks(path, fresh_state(_state(state_dir, "attack")), names, say=note)
        emit(output, _attack_data(verdicts), lambda: _print_attacks(verdicts))
    raise typer.Exit(Exit.OK if all(verdict.ok for verdict in verdicts) else Exit.REFUSED)


@bench.command("loop")
def bench_loop(
    for_: ForOption = "30s",
    config: ConfigArgument = None,
    state_dir: StateArgument = None,
    output: Output = OutputOption,
) -> None:
    """Frame → PLC acknowledged, by stage, with the proof inside: percentiles of raw monotonic differences."""
    with reported(output):
        path = _example(config)
        state = fresh_state(_state(state_dir, "bench"))
        run = run_main_job(path, state, seconds=parse_duration(for_), say=note, progress=lambda *_: None)
        data = bench_object(run)
        emit(output, data, lambda: _print_latency(data, Console()))


def _example(config: Path | None) -> Path:
    if config is not None:
        return config
    for base in (Path.cwd(), Path(__file__).resolve().parent.parent.parent):
        if (base / EXAMPLE).exists():
            return base / EXAMPLE
    raise SitsError(
        "demo-example", found=f"no {EXAMPLE}", expected="the repository's examples", hint="run it in a checkout"
    )


def _state(state_dir: Path | None, name: str) -> Path:
    if state_dir is not None:
        return state_dir
    home = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    return home / "sits" / name


def _demo(path: Path, state: StateDir, seconds: float, result: Path, output: Output) -> None:
    try:
        result.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        found = f"{result}: {error.strerror}"
        raise SitsError(
            "demo-result", found=found, expected="a folder to write to", hint="choose one with --result"
        ) from error
    plant = load_deployment(path).simulation
    if not isinstance(plant, RollingMillPlant):
        raise SitsError("demo-example", found="a deployment without the mill", expected="simulation.kind: rolling-mill")
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn(), TextColumn("{task.fields[text]}"))
    with Progress(*columns, console=console, transient=False) as bar:
        task = bar.add_task("rolling", total=seconds, text="")

        def progress(elapsed: float, loop: dict[str, Any]) -> None:
            refused = sum(loop.get("refused", {}).values())
            p99 = loop.get("latency", {}).get("p99_ms")
            latency = "" if p99 is None else f", P99 {p99:.2f} ms"
            text = f"accepted {loop.get('accepted', 0)}, refused {refused}{latency}"
            bar.update(task, completed=min(elapsed, seconds), text=text)

        run = run_main_job(
            path, state, seconds=seconds, say=lambda text: console.print(text, highlight=False), progress=progress
        )
        bar.update(task, completed=seconds)
    thickness = compare_thickness(run, plant, result / "thickness.png")
    data = _demo_data(run, thickness, result)
    write_summary(result / "summary.json", data)
    emit(output, data, lambda: _print_demo(run, thickness, result, data))
    if not data["ok"]:
        raise typer.Exit(Exit.REFUSED)


def _demo_data(run: Run, thickness: Thickness, result: Path) -> dict[str, Any]:
    figures = bench_object(run)
    published = max(1, int(run.loop.get("cycles", 0)) + int(run.loop.get("superseded", 0)))
    share = figures["accepted"] / published
    return {
        "ok": run.audit.ok and run.boot is not None and run.boot.ok and thickness.with_um < thickness.without_um,
        "verified": None if run.boot is None else run.boot.line,
        "accepted_share": round(share, 4),
        "thickness_std_um": {"with": round(thickness.with_um, 2), "without": round(thickness.without_um, 2)},
        "seconds": run.seconds,
        **figures,
        "audit": {"ok": run.audit.ok, "proofs_checked": run.audit.proofs_checked, "findings": run.audit.findings_total},
        "picture": str(result / "thickness.png"),
        "state_dir": str(run.state.root),
    }


def _print_demo(run: Run, thickness: Thickness, result: Path, data: dict[str, Any]) -> None:
    console = Console()
    if run.boot is not None:
        print(run.boot.line)
    print()
    share = f"{100 * data['accepted_share']:.1f} % of frames"
    print(f"commands   accepted {data['accepted']} ({share}), refused by reason: {data['refused'] or 'none'}")
    deviation = f"{thickness.with_um:.1f} µm with the controller, {thickness.without_um:.1f} µm without"
    print(f"thickness  standard deviation {deviation} (same strip, {thickness.seconds:.0f} s)")
    print(f"picture    {result / 'thickness.png'}")
    print()
    _print_latency(data, console)
    print_report(run.audit, console)
    print(f"ledgers    {run.state.ledger}   (sitsctl audit verify {run.state.ledger})")


def _print_latency(data: dict[str, Any], console: Console) -> None:
    table = Table(title="latency, ms (frame received → PLC write acknowledged, proof inside)", title_justify="left")
    for column in ("stage", "P50", "P99", "P99.9", "max"):
        table.add_column(column, justify="left" if column == "stage" else "right")

    def row(name: str, values: dict[str, Any]) -> None:
        cells = [values.get(key) for key in ("p50_ms", "p99_ms", "p999_ms", "max_ms")]
        table.add_row(name, *("" if cell is None else f"{cell:.3f}" for cell in cells))

    for name, values in data["stages"].items():
        row(name, values)
    row("unattributed", {"p50_ms": data["unattributed_ms"], "p99_ms": data["unattributed_p99_ms"]})
    row("end to end", data)
    console.print(table)
    print(f"cycles {data['cycles']}, accepted {data['accepted']}, missed {data['missed']}, refused {data['refused']}")
    print("missed: frames without an accepted command (before the first epoch, superseded by a newer one, or refused)")


def _attack_data(verdicts: list[AttackVerdict]) -> dict[str, Any]:
    return {
        "ok": all(verdict.ok for verdict in verdicts),
        "attacks": [
            {
                "name": verdict.name,
                "ok": verdict.ok,
                "recovered": verdict.recovered,
                "attempts": [
                    {
                        "attacker": attempt.attacker,
                        "what": attempt.what,
                        "refused_with": attempt.got,
                        "expected": attempt.expected,
                        "found": attempt.found,
                        "ledger": attempt.ledger,
                        "record": index,
                    }
                    for attempt, index in zip(verdict.attempts, verdict.recorded, strict=True)
                ],
            }
            for verdict in verdicts
        ],
    }


def _print_attacks(verdicts: list[AttackVerdict]) -> None:
    for verdict in verdicts:
        print(f"{verdict.name}: {'refused' if verdict.ok else 'NOT AS IT MUST BE'}")
        for attempt, index in zip(verdict.attempts, verdict.recorded, strict=True):
            where = "audit finding" if attempt.ledger == "audit" else f"{attempt.ledger} record {index}"
            mark = "" if attempt.ok else f"  EXPECTED {attempt.expected}"
            print(f"    {attempt.got:18} {attempt.what}, by: {attempt.attacker} ({where}){mark}")
        if not verdict.recovered:
            print("    the honest loop did not recover")
    good = sum(verdict.ok for verdict in verdicts)
    print(f"{good} of {len(verdicts)} attacks refused for their own reason, recorded, and survived")
    if {"tampered-output", "tampered-input"} & {verdict.name for verdict in verdicts}:
        print("an audit of these ledgers names the commands that were altered on the wire: they never got an answer")
