"""``sitsctl gate``: the gate's PLC, looked at without writing anything."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from fieldbus.opcua import CertificateError, load_certificate
from sitsedge.cli.common import StateOption, existing_state, find_state
from sitsedge.cli.output import Exit, Output, OutputOption, emit, note, reported
from sitsedge.config import Deployment
from sitsedge.config.consistency import check
from sitsedge.config.gatefile import OutputLimit
from sitsedge.config.plc import OpcUaPlc
from sitsedge.errors import SitsError
from sitsedge.gate.plc import Applied, PlcPort
from sitsedge.gate.plc.make import make_port, opcua_port
from sitsedge.modules import ModuleStore, PublisherTrust, Signal
from sitsedge.supervisor.prepare import application_identity, load_files
from sitsedge.supervisor.state import StateDir

app = typer.Typer(help="The gate's PLC.", no_args_is_help=True)


@app.callback()
def gate() -> None:
    """The gate's PLC."""


@app.command("check")
def check_command(
    config: Annotated[Path, typer.Option("--config", help="deployment file")],
    state_dir: StateOption = None,
    output: Output = OutputOption,
) -> None:
    """Connect to the PLC, compare its request block with the files, read what is applied; nothing is written.

    Exit 1 where the controller does not run.
    """
    with reported(output):
        port, endpoint, outputs = _port(config, state_dir)
        applied, health = asyncio.run(_look(port))
        values = {signal.name: value for signal, value in zip(outputs, applied.values, strict=True)}
        still = health.get("standstill")
        data = {"ok": not still, "endpoint": endpoint, "auto_active": applied.auto_active, "applied": values} | health

        def text() -> None:
            print(f"{endpoint}: the request block is as the files say")
            print(f"the PLC {'is in AUTO' if applied.auto_active else 'is in MAN'} and applies")
            for signal in outputs:
                print(f"  {signal.name} {values[signal.name]:g} {signal.unit}")
            if still:
                print(f"it does not run: {still}; the gate would write nothing (run_only in the gate file)")

        emit(output, data, text)
    raise typer.Exit(Exit.REFUSED if still else Exit.OK)


def _port(config: Path, state_dir: Path | None) -> tuple[PlcPort, str, Sequence[Signal | OutputLimit]]:
    deployment, gate_file, gate_path = load_files(config)
    if gate_file.plc is None:
        raise SitsError("plc-missing", found="no 'plc' in the gate file", expected="a PLC to look at")
    if isinstance(gate_file.plc, OpcUaPlc):
        state = find_state(config, state_dir)
        _certificates(deployment, state)
        if not state.modules.is_dir() or ModuleStore(state.modules, PublisherTrust.from_files([])).active() is None:
            # Its block has names and Doubles, which the gate file knows; only a vendor's needs the module's scales.
            names = [output.name for output in gate_file.outputs]
            return opcua_port(gate_file, state.pki, names), gate_file.plc.endpoint, gate_file.outputs
    state = existing_state(config, state_dir)
    trust = PublisherTrust.from_files(sorted(state.trust.glob("publisher*.pub")))
    module = ModuleStore(state.modules, trust).load_active().config
    check(deployment, config, gate_file, gate_path, inputs=module.inputs, outputs=module.outputs)
    port = make_port(gate_file, gate_path, state.pki, module.outputs)
    return port, gate_file.plc.endpoint, list(module.outputs)


def _certificates(deployment: Deployment, state: StateDir) -> None:
    """The gate's certificate, which the PLC has to trust before the first ``deploy`` (a development profile makes it
    now), and the PLC's, which the gate trusts."""
    new = not (state.pki / "gate.der").exists()
    identity = application_identity(deployment, state, "gate")
    if new:
        note(f"made the gate's certificate {identity.certificate_path}: let the PLC trust it")
    pinned = state.pki / "plc.der"
    try:
        load_certificate(pinned)
    except CertificateError as error:
        if error.code == "file-unreadable":
            error.hint = f"copy the PLC's certificate to {pinned}; of the simulated mill, 'sitsctl deploy' makes it"
        raise


async def _look(port: PlcPort) -> tuple[Applied, dict[str, Any]]:
    try:
        await port.connect()
        return await port.read_back(), port.health()
    finally:
        await port.close()
