"""``sitsctl fieldbus discover``: which controllers there are, what they are, which tags or blocks they have."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fieldbus.capture import Protocol, plain
from fieldbus.slmp.devices import Series
from sitsedge.cli.output import Exit, Output, OutputOption, complain, emit, reported

if TYPE_CHECKING:
    from fieldbus.cip.discovery import Found
    from fieldbus.cip.survey import CipSurvey
    from fieldbus.s7.survey import S7Survey
    from fieldbus.slmp.survey import SlmpSurvey

WAIT_S_MAX = 60.0
_DEFAULT_PORTS = {Protocol.CIP: 44_818, Protocol.S7: 102, Protocol.SLMP: 5_007}


def discover_command(
    host: Annotated[str | None, typer.Argument(help="controller to ask; cip: all that answer, without one")] = None,
    protocol: Annotated[Protocol, typer.Option("--protocol", help="cip, s7 or slmp")] = Protocol.CIP,
    port: Annotated[int | None, typer.Option("--port", min=1, max=65535, help="another port than usual")] = None,
    broadcast: Annotated[str, typer.Option("--broadcast", help="cip: address to ask all at")] = "255.255.255.255",
    local: Annotated[str, typer.Option("--local", help="cip: own address of the interface to ask on")] = "",
    rack: Annotated[int, typer.Option("--rack", min=0, max=7, help="s7: rack of the CPU")] = 0,
    slot: Annotated[int | None, typer.Option("--slot", min=0, max=255, help="s7: slot; cip: behind a module")] = None,
    series: Annotated[Series, typer.Option("--series", help="slmp: MELSEC series")] = Series.Q,
    ascii_: Annotated[bool, typer.Option("--ascii", help="slmp: ASCII data code")] = False,
    without_serial: Annotated[bool, typer.Option("--3e", help="slmp: 3E frames")] = False,
    zone: Annotated[str, typer.Option("--zone", help="s7, slmp: time zone of the CPU's clock")] = "UTC",
    wait_s: Annotated[float, typer.Option("--wait", min=0.1, max=WAIT_S_MAX, help="seconds to wait for answers")] = 2.0,
    output: Output = OutputOption,
) -> None:
    """Ask what is there; nothing is written to any device. Exit 1 where nobody answers a broadcast."""
    number = port or _DEFAULT_PORTS.get(protocol, 0)
    if protocol is Protocol.UADP or (host is None and protocol is not Protocol.CIP):
        complain(f"no way to discover {protocol}", "--protocol cip, or a HOST with --protocol s7 or slmp")
        raise typer.Exit(Exit.USAGE)
    with reported(output):
        if host is None:
            from fieldbus.cip.discovery import list_identity

            found = list_identity(broadcast, number, wait_s=wait_s, local_address=local)
            emit(output, plain(found), lambda: print("\n".join(_devices(found)) or "no answers"))
            raise typer.Exit(Exit.OK if found.devices else Exit.REFUSED)
        if protocol is Protocol.CIP:
            survey = asyncio.run(_cip(host, number, slot, wait_s))
            emit(output, plain(survey), lambda: print("\n".join(_cip_lines(survey))))
        elif protocol is Protocol.S7:
            cpu = asyncio.run(_s7(host, number, rack, 2 if slot is None else slot, zone, wait_s))
            emit(output, plain(cpu), lambda: print("\n".join(_s7_lines(cpu))))
        else:
            melsec = asyncio.run(_slmp(host, number, series, ascii_, not without_serial, zone, wait_s))
            emit(output, plain(melsec), lambda: print("\n".join(_slmp_lines(melsec))))


async def _cip(host: str, port: int, slot: int | None, deadline_s: float) -> CipSurvey:
    from fieldbus.cip.client import CipClient, backplane
    from fieldbus.cip.survey import survey

    client = CipClient(host, port, route=() if slot is None else backplane(slot), deadline_s=deadline_s)
    await client.connect()
    try:
        return await survey(client)
    finally:
        await client.close()


async def _s7(host: str, port: int, rack: int, slot: int, zone: str, deadline_s: float) -> S7Survey:
    from fieldbus.s7.client import S7Client, selector
    from fieldbus.s7.survey import survey
    from fieldbus.s7.times import zone as time_zone

    clock = time_zone(zone)
    client = S7Client(host, port, called=selector(3, rack, slot), deadline_s=deadline_s)
    await client.connect()
    try:
        return await survey(client, clock)
    finally:
        await client.close()


async def _slmp(
    host: str, port: int, series: Series, ascii_code: bool, with_serial: bool, zone: str, deadline_s: float
) -> SlmpSurvey:
    from fieldbus.s7.times import zone as time_zone
    from fieldbus.slmp.client import SlmpClient
    from fieldbus.slmp.survey import survey
    from fieldbus.slmp.wire import DataCode

    clock = time_zone(zone)
    code = DataCode.ASCII if ascii_code else DataCode.BINARY
    client = SlmpClient(host, port, series=series, data_code=code, with_serial=with_serial, deadline_s=deadline_s)
    await client.connect()
    try:
        return await survey(client, clock)
    finally:
        await client.close()


def _devices(found: Found) -> Iterator[str]:
    for device in found.devices:
        one = device.identity.identity
        yield f"{device.address:15} {one.name}, revision {one.major}.{one.minor}, serial {one.serial:08X}, {one.mode}"


def _cip_lines(survey: CipSurvey) -> Iterator[str]:
    one = survey.identity
    fault = "major fault" if survey.major_fault else "minor fault" if survey.minor_fault else "no fault"
    yield f"{one.name}, revision {one.major}.{one.minor}, serial {one.serial:08X}"
    yield f"mode {survey.mode}, key switch {survey.key_switch}, {fault}"
    yield from (f"  {tag.path:40} {tag.text}" for tag in survey.tags)
    for structure in survey.structures:
        yield f"{structure.name}:"
        yield from (f"  .{member.path:39} {member.text}" for member in structure.members)
    yield from _refused(survey.refused)


def _s7_lines(cpu: S7Survey) -> Iterator[str]:
    yield ", ".join(f"{name} {text}" for name, text in cpu.names.items()) or "a CPU without names"
    if cpu.order_number is not None:
        yield f"order number {cpu.order_number}"
    if cpu.state is not None:
        yield f"mode {cpu.state.mode}, before {cpu.state.previous}: {cpu.state.event}"
    blocks = ", ".join(f"{number} {kind}" for kind, number in cpu.blocks.items())
    yield f"PDU {cpu.pdu_bytes} bytes; blocks {blocks or 'not told'}"
    if cpu.data_blocks:
        yield f"data blocks {', '.join(map(str, cpu.data_blocks))}"
    yield from (f"  {entry.event_id:04x} {entry.event}" for entry in cpu.diagnostics)
    yield from _refused(cpu.refused)


def _slmp_lines(cpu: SlmpSurvey) -> Iterator[str]:
    yield f"{cpu.model.name}, model code {cpu.model.code:04X}"
    if cpu.state is not None:
        fault = f"error {cpu.state.error:04X}" if cpu.state.fault else "no error"
        yield f"mode {cpu.state.mode}, by {cpu.state.cause or 'nobody said what'}, {fault}"
    yield from _refused(cpu.refused)


def _refused(refused: dict[str, Any]) -> Iterator[str]:
    yield from (f"not told: {what} ({code})" for what, code in refused.items())
