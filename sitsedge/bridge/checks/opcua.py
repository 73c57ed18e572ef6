"""One look at an OPC UA server: who it is, each tag with type and unit, what it makes of the intervals asked for."""

from __future__ import annotations

import asyncio
from pathlib import Path

from fieldbus.opcua import OpcUaError, ReadResult, SecureClient, SharedIdentity, ValueSubscription
from fieldbus.opcua.inspection import ServerFacts
from sitsedge.bridge.checks.report import StationReport, TagReport
from sitsedge.bridge.sample import BAD_WAITING
from sitsedge.bridge.stations.opcua import BAD_NODE_UNKNOWN, LATENCY_CLAIM
from sitsedge.bridge.stations.opcua_client import make_client, subscription_options
from sitsedge.config.stations import OpcUaStation

VALUES_S_MAX = 2.0
"""How long first values are waited for."""

FAULTS = frozenset(
    {LATENCY_CLAIM, "node-missing", "namespace-missing", "item-refused", "deadband-no-range", "deadband-refused"}
)
"""Findings of the client that keep the deployment from working."""


async def check_server(
    station: OpcUaStation, *, identity: SharedIdentity, base: Path, source_age_ms_max: float, leads: bool
) -> StationReport:
    """Never raises for what the server does. ``leads``: its samples make those of the whole."""
    report = StationReport(station.name, "opcua", station.endpoint)
    client: SecureClient | None = None
    try:
        client, paths = make_client(station, identity=identity, base=base, missing_ok=True)
        await client.connect()
        report.reached = True
        options = subscription_options(station, source_age_ms_max=source_age_ms_max)
        subscription = await client.subscribe(tuple(paths), options)
        facts = await client.describe()
        report.facts |= _facts(facts, subscription)
        values = await _values(subscription, [tag for tag in paths if tag not in client.missing])
        _tags(station, report, facts, values, client.missing)
        if leads and station.trigger is None:
            _times(report, values)
        for finding in client.findings:
            words = f"{finding.code}: {finding.text}"
            (report.faults if finding.code in FAULTS else report.warnings).append(words)
        report.facts |= {f"certificate ({term.label})": f"{term.days_left} days left" for term in client.certificates}
    except OpcUaError as error:
        report.faults.append(f"{error.code}: {error.found}; {error.hint or error.expected}")
    finally:
        if client is not None:
            await client.close()
    return report


async def _values(subscription: ValueSubscription, expected: list[str]) -> dict[str, ReadResult]:
    """The latest of each tag, once all have come or the time is over."""
    found: dict[str, ReadResult] = {}
    loop = asyncio.get_running_loop()
    end = loop.time() + VALUES_S_MAX
    while len(found) < len(expected) and (left := end - loop.time()) > 0:
        found |= {value.tag: value for value in await subscription.get(left)}
    return found


def _facts(facts: ServerFacts, subscription: ValueSubscription) -> dict[str, str]:
    revised = subscription.revisions
    return {
        "server": " ".join(part for part in (facts.manufacturer, facts.product, facts.version) if part) or "not told",
        "state": facts.state or "not told",
        "publishing": f"every {revised.publishing_ms:g} ms",
        "latency": f"a change is published within {revised.latency_ms:g} ms",
        "keep-alive": f"every {revised.keep_alive_ms:g} ms",
    }


def _times(report: StationReport, values: dict[str, ReadResult]) -> None:
    """A sample is made of values of one source time; a server that stamps each tag on its own never has one."""
    known = sorted((value.t_source_ns, value.tag) for value in values.values() if value.t_source_ns is not None)
    if known and known[0][0] != known[-1][0]:
        apart_ms = (known[-1][0] - known[0][0]) / 10**6
        report.warnings.append(
            f"times-differ: {known[0][1]} and {known[-1][1]} are {apart_ms:.3f} ms apart; without 'trigger' a sample "
            "needs one source time for all tags, so there will be none if this stays so"
        )


def _tags(
    station: OpcUaStation,
    report: StationReport,
    facts: ServerFacts,
    values: dict[str, ReadResult],
    missing: tuple[str, ...],
) -> None:
    for tag in station.tags:
        known, value = facts.variables.get(tag.name), values.get(tag.name)
        status = BAD_NODE_UNKNOWN if tag.name in missing else BAD_WAITING if value is None else value.status
        kind = "" if known is None else known.type
        content = value.value if value is not None and isinstance(value.value, bool | int | float | str) else None
        report.tags.append(TagReport(tag.name, tag.unit, kind, content, status))
        if known is None:
            continue
        if kind in ("", "Boolean", "String", "ByteString", "DateTime"):
            report.faults.append(f"tag-type: {tag.name} is {kind or 'no scalar'} on the server, a number is needed")
        if known.unit and known.unit != tag.unit:
            report.faults.append(f"unit: {tag.name} is in {known.unit!r} on the server, declared is {tag.unit!r}")
    report.judge_tags()
