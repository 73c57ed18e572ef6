"""``sitsctl``: one command line for the whole appliance."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from attest.command import Mode
from sitsedge.cli import (
    archive_commands,
    attest_commands,
    audit_commands,
    ceremony_commands,
    circuit_commands,
    delta_commands,
    demo_commands,
    deploy_commands,
    evaluate_command,
    fieldbus_capture_commands,
    fieldbus_check_command,
    fieldbus_commands,
    fieldbus_discover_command,
    fieldbus_key_commands,
    gate_commands,
    module_commands,
    proof_commands,
    sealed_commands,
    server_commands,
)
from sitsedge.cli import status as status_page
from sitsedge.cli.common import ConfigOption, StateOption, existing_state, find_state, parse_duration
from sitsedge.cli.output import Exit, Output, OutputOption, complain, emit, reported
from sitsedge.gate.control import request_mode

REASON_CHARACTERS_MAX = 500  # what a record's text field holds

app = typer.Typer(
    name="sitsctl",
    help="SITS Edge: a proof for every command that moves an actuator.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
module_commands.app.command("evaluate")(evaluate_command.evaluate_command)
module_commands.app.command("delta")(delta_commands.delta_command)
module_commands.app.command("import")(delta_commands.import_command)
module_commands.app.command("remove")(delta_commands.remove_command)
app.add_typer(module_commands.app, name="module")
app.add_typer(attest_commands.app, name="attest")
proof_commands.app.command("export-circuit")(circuit_commands.export_circuit)
proof_commands.app.command("setup")(ceremony_commands.setup)
proof_commands.app.command("contribute")(ceremony_commands.contribute)
proof_commands.app.command("verify-setup")(ceremony_commands.verify_setup)
proof_commands.app.command("import")(ceremony_commands.import_command)
proof_commands.app.command("archive")(archive_commands.archive_command)
proof_commands.app.command("verify-archive")(archive_commands.verify_archive_command)
app.add_typer(proof_commands.app, name="proof")
audit_commands.app.command("export")(sealed_commands.export_command)
audit_commands.app.command("verify-sealed")(sealed_commands.verify_command)
audit_commands.app.command("open")(sealed_commands.open_command_line)
app.add_typer(audit_commands.app, name="audit")
fieldbus_commands.app.command("check")(fieldbus_check_command.check_command)
fieldbus_commands.app.command("record")(fieldbus_capture_commands.record_command)
fieldbus_commands.app.command("replay")(fieldbus_capture_commands.replay_command)
fieldbus_commands.app.add_typer(fieldbus_key_commands.app, name="keys")
fieldbus_commands.app.command("discover")(fieldbus_discover_command.discover_command)
app.add_typer(fieldbus_commands.app, name="fieldbus")
app.add_typer(gate_commands.app, name="gate")
app.add_typer(server_commands.app, name="server")
app.add_typer(demo_commands.bench, name="bench")
app.command("deploy")(deploy_commands.deploy)
app.command("demo")(demo_commands.demo)


@app.command()
def status(config: ConfigOption = None, state_dir: StateOption = None, output: Output = OutputOption) -> None:
    """Show the processes, cycles, latencies and refusals of a deployment once."""
    with reported(output):
        state = find_state(config, state_dir)
        data = status_page.as_data(state)
        emit(output, data, lambda: Console().print(status_page.render(state)))
    raise typer.Exit(Exit.OK if data["running"] and data["healthy"] else Exit.REFUSED)


@app.command()
def watch(
    config: ConfigOption = None,
    state_dir: StateOption = None,
    for_: Annotated[str | None, typer.Option("--for", help="stop by itself after 30s, 2m, …")] = None,
) -> None:
    """Show the same live until interrupted."""
    seconds = None if for_ is None else parse_duration(for_)
    with reported():
        status_page.watch(existing_state(config, state_dir), Console(), seconds=seconds)


@app.command()
def mode(
    to: Annotated[str, typer.Argument(help="OFF, SHADOW, ADVISORY, SUPERVISED or AUTO")],
    approved_by: Annotated[list[str] | None, typer.Option("--approved-by", help="a name; repeat it for AUTO")] = None,
    reason: Annotated[str, typer.Option("--reason", help="why, for the ledger")] = "",
    config: ConfigOption = None,
    state_dir: StateOption = None,
    output: Output = OutputOption,
) -> None:
    """Change the operating mode. Going down is always allowed; AUTO needs two names."""
    if to.upper() not in Mode.__members__:
        complain(f"mode {to}", f"one of {', '.join(Mode.__members__)}")
        raise typer.Exit(Exit.USAGE)
    if len(reason) > REASON_CHARACTERS_MAX:
        complain(f"--reason of {len(reason)} characters", f"at most {REASON_CHARACTERS_MAX}")
        raise typer.Exit(Exit.USAGE)
    with reported(output):
        answer = request_mode(find_state(config, state_dir).gate_control, to, approved_by or [], reason)
        if answer["ok"]:
            emit(output, answer, lambda: print(f"mode {answer['from']} -> {answer['to']}"))
        else:
            emit(output, answer, lambda: complain(f"{answer['code']}: {answer['found']}", str(answer["expected"])))
    raise typer.Exit(Exit.OK if answer["ok"] else Exit.REFUSED)


def main() -> None:
    """Entry point of the ``sitsctl`` script; usage errors exit with 2 like every other wrong input."""
    app(prog_name=Path(sys.argv[0]).name)


if __name__ == "__main__":
    main()
