"""One look at a vendor's controller: who it is, whether it runs, each tag, how long a poll takes, its clock."""

from __future__ import annotations

import time
from pathlib import Path

from fieldbus.cip.connector import CipConnector
from fieldbus.errors import FieldbusError
from fieldbus.polling import Connector
from fieldbus.s7.layout import find_member
from fieldbus.s7.times import zone
from fieldbus.sample import Sample, TimeSource
from sitsedge.bridge.checks.report import StationReport, TagReport
from sitsedge.bridge.stations.connectors import make_connector, s7_client, slmp_client
from sitsedge.config.layouts import read_layout
from sitsedge.config.stations import CipStation, PolledStation, S7Station, SlmpStation

POLLS = 5
_NS_PER_MS = 1e6


async def check_controller(
    station: PolledStation, base: Path, *, poll_ms: float, source_age_ms_max: float, future_ms_max: float
) -> StationReport:
    """Never raises for what the controller does; the keys are those of a checked deployment."""
    report = StationReport(station.name, station.protocol, f"{station.host}:{station.port}")
    try:
        connector = make_connector(station, base)
        await _facts(station, report)
        await _polls(station, connector, base, report, poll_ms, (source_age_ms_max, future_ms_max))
    except FieldbusError as error:
        report.faults.append(f"{error.code}: {error.found}; {error.hint or error.expected}")
    return report


async def _polls(
    station: PolledStation,
    connector: Connector,
    base: Path,
    report: StationReport,
    poll_ms: float,
    age_and_future_ms: tuple[float, float],
) -> None:
    took_ms: list[float] = []
    samples: tuple[Sample, ...] = ()
    try:
        await connector.connect()
        report.reached = True
        if isinstance(connector, CipConnector) and connector.identity is not None:
            _identity(connector, report)
        for _ in range(POLLS):
            start = time.monotonic_ns()
            samples = await connector.read()
            took_ms.append((time.monotonic_ns() - start) / _NS_PER_MS)
        now_ns = time.time_ns()
    finally:
        await connector.close()
    types = _types(station, base)
    report.tags = [
        TagReport(sample.tag, sample.unit, kind, sample.value, sample.status)
        for sample, kind in zip(samples, types, strict=True)
    ]
    report.judge_tags()
    report.facts["poll"] = f"{sorted(took_ms)[POLLS // 2]:.1f} ms, slowest of {POLLS} {max(took_ms):.1f} ms"
    age_ms, future_ms = age_and_future_ms
    if max(took_ms) > age_ms:
        report.faults.append(f"latency-claim: a poll took {max(took_ms):.1f} ms, the deployment allows {age_ms:g} ms")
    elif max(took_ms) > (station.poll_ms or poll_ms):
        report.warnings.append(f"poll-slow: a poll took longer than its period of {station.poll_ms or poll_ms:g} ms")
    if samples[0].time_source is TimeSource.PLC:
        off_ms = (now_ns - samples[0].t_source_ns) / _NS_PER_MS
        report.facts["time of the values"] = f"{off_ms:.1f} ms behind this machine's clock"
        if not -future_ms <= off_ms <= age_ms:
            report.faults.append(
                f"plc-clock: the values' own time is {off_ms:.1f} ms behind, allowed are {age_ms:g} ms"
            )


def _types(station: PolledStation, base: Path) -> list[str]:
    if isinstance(station, S7Station):
        blocks = [read_layout(layout, base) for layout in station.layouts]
        return [find_member(blocks, tag.path)[1].spec.type.value for tag in station.tags]
    if isinstance(station, CipStation):
        return [tag.type for tag in station.tags]
    return [tag.type or "bit" for tag in station.tags]


async def _facts(station: PolledStation, report: StationReport) -> None:
    """Who it is and whether it runs, on a connection before that of the polls."""
    report.warnings.append(f"no-security: {station.protocol} has neither encryption nor authentication")
    if isinstance(station, S7Station):
        await _s7(station, report)
    elif isinstance(station, SlmpStation):
        await _slmp(station, report)


async def _s7(station: S7Station, report: StationReport) -> None:
    client, clock = s7_client(station), zone(station.zone or "UTC")
    try:
        await client.connect()
        report.reached = True
        report.facts["PDU"] = f"{client.pdu_bytes} bytes"
        try:
            report.facts["mode"] = (await client.cpu_state(clock)).mode.value
        except FieldbusError as error:
            if not client.connected:
                raise
            report.facts["mode"] = "not told"
            if station.run_only:
                report.faults.append(f"{error.code}: the CPU does not tell its mode; it needs run_only: false")
        try:
            off_ms = (time.time_ns() - await client.clock_ns(clock)) / _NS_PER_MS
            report.facts["clock"] = f"{off_ms:.0f} ms behind this machine's, if it runs in {station.zone or 'UTC'}"
        except FieldbusError:
            if not client.connected:
                raise
            report.facts["clock"] = "not told"
    finally:
        await client.close()


async def _slmp(station: SlmpStation, report: StationReport) -> None:
    client = slmp_client(station)
    try:
        await client.connect()
        report.reached = True
        report.facts["model"] = (await client.model()).name
        state = await client.state()
        report.facts["mode"] = f"{state.mode.value}{f' by {state.cause}' if state.cause else ''}"
        if state.error or state.fault:
            report.warnings.append(f"cpu-error: the CPU's latest error is {state.error:#06x}")
    finally:
        await client.close()


def _identity(connector: CipConnector, report: StationReport) -> None:
    identity = connector.identity
    assert identity is not None
    report.facts["controller"] = f"{identity.name}, revision {identity.major}.{identity.minor}"
    report.facts["serial"] = f"{identity.serial:08x}"
    report.facts["mode"] = f"{identity.mode.value}, key switch {identity.key_switch.value}"
    if identity.major_fault or identity.minor_fault:
        kind = "major" if identity.major_fault else "minor"
        report.warnings.append(f"cpu-error: the controller has a {kind} fault")
