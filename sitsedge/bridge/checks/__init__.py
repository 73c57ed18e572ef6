"""Every station of a source met once, before anything depends on it: what a commissioning engineer runs first.

Reads only. Each station is asked on connections of its own, all at the same time, each within a bounded time.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from sitsedge.bridge.checks.report import StationReport, TagReport
from sitsedge.bridge.checks.vendor import check_controller
from sitsedge.bridge.config import BridgeConfig
from sitsedge.config.stations import OpcUaStation, Station

__all__ = ["StationReport", "TagReport", "check_stations"]

CHECK_S_MAX = 60.0
"""For one station: a controller that answers each request just in time is given up then."""


async def check_stations(config: BridgeConfig, base: Path) -> list[StationReport]:
    """A report for each station of the bridge's configuration, in order. Raises CertificateError for our own files."""

    async def check(station: Station) -> StationReport:
        if isinstance(station, OpcUaStation):
            return await _server(station, config, base)
        return await check_controller(
            station,
            base,
            poll_ms=config.poll_ms,
            source_age_ms_max=config.source_age_ms_max,
            future_ms_max=config.future_ms_max,
        )

    async def bounded(station: Station) -> StationReport:
        try:
            async with asyncio.timeout(CHECK_S_MAX):
                return await check(station)
        except TimeoutError:
            report = StationReport(station.name, station.protocol, "")
            report.faults.append(f"deadline: not done in {CHECK_S_MAX:g} s")
            return report

    return list(await asyncio.gather(*map(bounded, config.stations)))


async def _server(station: OpcUaStation, config: BridgeConfig, base: Path) -> StationReport:
    from sitsedge.bridge.checks.opcua import check_server  # loads asyncua: not where only controllers are met
    from sitsedge.bridge.stations.opcua_client import own_identity

    identity = own_identity(config, base, look_only=True)
    return await check_server(
        station,
        identity=identity,
        base=base,
        source_age_ms_max=config.source_age_ms_max,
        leads=station.name == config.trigger,
    )
