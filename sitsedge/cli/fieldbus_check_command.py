"""``sitsctl fieldbus check``: the stations of a deployment met once, before it is started."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sitsedge.cli.common import StateOption
from sitsedge.cli.output import Exit, Output, OutputOption, emit, note, reported
from sitsedge.config import Deployment, load_deployment
from sitsedge.config.sources import Bridged
from sitsedge.config.stations import OpcUaStation
from sitsedge.supervisor.bridging import bridge_config
from sitsedge.supervisor.state import StateDir, state_dir_of

if TYPE_CHECKING:
    from sitsedge.bridge.checks import StationReport

VALUE_DIGITS = 6


def check_command(
    config: Annotated[Path, typer.Option("--config", help="deployment file")],
    state_dir: Annotated[Path | None, StateOption] = None,
    output: Output = OutputOption,
) -> None:
    """Connect to every station once, read every tag, say what is there and what is wrong; nothing is written."""
    with reported(output):
        deployment = load_deployment(config)
        state = state_dir_of(deployment, state_dir)
        _own_certificate(deployment, state)
        reports = meet(deployment, config.absolute().parent, state)
        ok = all(report.ok for report in reports)
        data = {"ok": ok, "stations": [report.as_data() for report in reports]}
        emit(output, data, lambda: _text(reports))
    raise typer.Exit(Exit.OK if ok else Exit.REFUSED)


def _own_certificate(deployment: Deployment, state: StateDir) -> None:
    """What the servers have to trust must be there before the first ``deploy``: a development profile makes it now."""
    from sitsedge.supervisor.prepare import application_identity  # loads the whole supervisor

    stations = deployment.source.all_stations() if isinstance(deployment.source, Bridged) else ()
    if any(isinstance(station, OpcUaStation) for station in stations):
        new = not (state.pki / "bridge.der").exists()
        identity = application_identity(deployment, state, "bridge")
        if new:
            note(f"made our client certificate {identity.certificate_path}: let the servers trust it")


def meet(deployment: Deployment, base: Path, state: StateDir) -> list[StationReport]:
    """Raises :class:`SitsError` ``source-unbridged``, CertificateError for our own files."""
    from fieldbus.opcua import quiet_asyncua
    from sitsedge.bridge.checks import check_stations

    quiet_asyncua()
    return asyncio.run(check_stations(bridge_config(deployment, base, state), base))


def _text(reports: list[StationReport]) -> None:
    for report in reports:
        print(f"{report.name}  {report.protocol}  {report.address}  {'ok' if report.ok else 'NOT USABLE'}")
        for fact, words in report.facts.items():
            print(f"    {fact}: {words}")
        width = max((len(tag.name) for tag in report.tags), default=0)
        for tag in report.tags:
            value = f"{tag.value:.{VALUE_DIGITS}g}" if isinstance(tag.value, float) else str(tag.value)
            shown = f"{value} {tag.unit}" if tag.value is not None else f"no value, status {tag.status:#010x}"
            print(f"    {tag.name:<{width}}  {tag.type or '?'}  {shown}")
        for word in report.faults:
            print(f"    FAULT {word}")
        for word in report.warnings:
            print(f"    warning {word}")
