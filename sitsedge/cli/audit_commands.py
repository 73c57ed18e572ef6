"""``sitsctl audit``: check two ledgers with files alone, and look at single records."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.table import Table

from attest.ledger import Ledger
from attest.ledger.audit import Progress, show, verify
from attest.ledger.report import AuditReport
from sitsedge.cli.output import Exit, Output, OutputOption, complain, emit, note, reported

app = typer.Typer(
    name="audit", help="Verify and read the ledgers; needs no device and no network.", no_args_is_help=True
)

FINDINGS_SHOWN = 20
TERMINAL_EVERY_S = 1.0
LOG_EVERY_S = 5.0  # where stderr is a file or a pipe: an audit shorter than this says nothing
NOT_SHOWN = (
    "verified means: enrolled device, approved boot, approved model, exact arithmetic, limits and order kept; "
    "it does not mean that the model is right or that a sensor tells the truth"
)

DirArgument = Annotated[Path, typer.Argument(help="folder with device/, gate/ and anchors/ (STATE/ledger)")]
EngineOption = Annotated[str, typer.Option("--engine", help="native, or py-ecc (0.5 s a proof)")]


@app.command("verify")
def verify_command(
    directory: DirArgument,
    proofs: Annotated[str, typer.Option("--proofs", help="all, none, or how many chosen at random")] = "all",
    engine: EngineOption = "native",
    output: Output = OutputOption,
) -> None:
    """Check each ledger alone, every epoch, command, proof and receipt, then reconcile the two."""
    with reported(output):
        which = parse_proofs(proofs)
        if engine not in ("native", "py-ecc"):
            complain(f"--engine {engine}", "native or py-ecc")
            raise typer.Exit(Exit.USAGE)
        report = verify(
            find_ledgers(directory),
            proofs=which,
            engine="py-ecc" if engine == "py-ecc" else "native",
            progress=ProgressNotes(terminal=sys.stderr.isatty()),
        )
        emit(output, report.to_dict(), lambda: print_report(report))
    raise typer.Exit(Exit.OK if report.ok else Exit.REFUSED)


class ProgressNotes:
    """How far a long audit is, on stderr: once a second on a terminal, elsewhere every five seconds."""

    def __init__(self, *, terminal: bool) -> None:
        self._every_s = TERMINAL_EVERY_S if terminal else LOG_EVERY_S
        self._due = time.monotonic() + self._every_s

    def __call__(self, progress: Progress) -> None:
        now = time.monotonic()
        if now >= self._due:
            self._due = now + self._every_s
            of = f"{progress.records} of {progress.records_total} records read"
            note(f"audit: {of}, {progress.proofs} proofs checked")


@app.command("show")
def show_command(
    directory: DirArgument,
    index: Annotated[int, typer.Argument(help="record number")],
    ledger: Annotated[str, typer.Option("--ledger", help="device or gate")] = "gate",
    output: Output = OutputOption,
) -> None:
    """Show one record of one ledger."""
    with reported(output):
        opened = Ledger.open_readonly(find_ledgers(directory) / ledger / "ledger.db")
        try:
            data = show(opened.read(index).data)
        finally:
            opened.close()
        emit(output, data, lambda: _print_fields(data))


def find_ledgers(directory: Path) -> Path:
    """``directory`` itself, or its ``ledger`` folder when a state folder was given."""
    inner = directory / "ledger"
    return inner if inner.is_dir() and not (directory / "anchors").is_dir() else directory


def parse_proofs(text: str) -> Literal["all", "none"] | int:
    """``all``, ``none`` or a number; anything else is a usage error."""
    if text == "all":
        return "all"
    if text == "none":
        return "none"
    if text.isdigit():
        return int(text)
    complain(f"--proofs {text}", "all, none, or a number")
    raise typer.Exit(Exit.USAGE)


def print_report(report: AuditReport, console: Console | None = None) -> None:
    """A summary for people, findings first."""
    out = console or Console()
    table = Table(title=f"audit: {'OK' if report.ok else 'FAILED'}", title_justify="left")
    for column in ("ledger", "records", "checkpoints", "closed"):
        table.add_column(column)
    for name, ledger in report.ledgers.items():
        table.add_row(name, str(ledger.size), str(ledger.checkpoints), "yes" if ledger.closed else "no")
    out.print(table)
    out.print(
        f"accepted {report.accepted}, proofs checked {report.proofs_checked} ({report.engine}), "
        f"refused {sum(report.refused.values())}, epochs {len(report.epochs)}, unclean tail "
        f"{report.tail_device + report.tail_gate}"
    )
    if report.proofs_owed or report.proofs_late:
        out.print(f"proofs still owed {report.proofs_owed}, proofs that came late {report.proofs_late}")
    for epoch in report.epochs:
        key = ", development proof key" if epoch.development_key else ""
        out.print(
            f"  epoch {epoch.number}: {epoch.accepted} accepted, evidence {epoch.evidence}, TPM {epoch.tpm_kind}{key}"
        )
    for reason, count in sorted(report.refused.items()):
        out.print(f"  refused {reason}: {count}")
    for finding in report.findings[:FINDINGS_SHOWN]:
        out.print(f"  FINDING {finding}", markup=False)
    if report.findings_total > FINDINGS_SHOWN:
        out.print(f"  … and {report.findings_total - FINDINGS_SHOWN} more")
    out.print(NOT_SHOWN, style="dim")


def _print_fields(data: dict[str, Any]) -> None:
    width = max(map(len, data))
    for key, value in data.items():
        print(f"{key:{width}}  {value}")
