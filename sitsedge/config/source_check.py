"""What pydantic cannot see of a source: files, members, devices, and periods that must fit each other.

Everything here is found without a connection; what only the machines can tell is for ``sitsctl fieldbus check``.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from fieldbus.errors import FieldbusError
from sitsedge.config.source import ConfigFault, dotted, positions_of
from sitsedge.config.sources import Bridged, BridgeSource
from sitsedge.config.stations import CipStation, OpcUaStation, PolledStation, S7Station, SlmpStation, Station

if TYPE_CHECKING:
    from fieldbus.s7.layout import BlockLayout
    from sitsedge.config.deployment import Deployment

NO_UNIT = "1"
Finding = tuple[str, str, str]
"""Dotted key, what was found, what was expected."""


def check_source(path: Path, deployment: Deployment) -> list[ConfigFault]:
    """Faults of the bridged source of the deployment file at ``path``, with line and column."""
    source = deployment.source
    if not isinstance(source, Bridged):
        return []
    found: list[Finding] = []
    for i, station in enumerate(source.all_stations()):
        key = f"source.stations.{i}" if isinstance(source, BridgeSource) else "source"
        leads = station.name == source.trigger_station
        for where, got, wanted in _station(station, path.parent, deployment, leads):
            found.append((f"{key}.{where}", got, wanted))
    if not found:
        return []
    positions = positions_of(path)
    return [_fault(path, positions, finding) for finding in found]


def _fault(path: Path, positions: dict[tuple[str | int, ...], tuple[int, int]], finding: Finding) -> ConfigFault:
    where, found, expected = finding
    parts = tuple(int(part) if part.isdigit() else part for part in where.split("."))
    place = parts
    while place not in positions and place:
        place = place[:-1]  # a key that is missing: what it is missing from
    line, column = positions.get(place, (1, 1))
    return ConfigFault(str(path), line, column, dotted(parts), found, expected)


def _station(station: Station, base: Path, deployment: Deployment, leads: bool) -> Iterator[Finding]:
    name = "device" if isinstance(station, SlmpStation) else "path"
    places = [str(getattr(tag, name)) for tag in station.tags]
    for i, place in enumerate(places):
        if place in places[:i]:
            yield f"tags.{i}.{name}", f"{place!r} a second time", "each variable once"
    if isinstance(station, OpcUaStation):
        yield from _server(station, base, deployment)
        return
    yield from _pace(station, deployment, leads)
    if isinstance(station, S7Station):
        yield from _s7(station, base, production=deployment.profile == "production")
    elif isinstance(station, CipStation):
        yield from _cip(station)
    else:
        yield from _slmp(station)


def _server(station: OpcUaStation, base: Path, deployment: Deployment) -> Iterator[Finding]:
    for key in ("server_certificate", "next_server_certificate"):
        name = getattr(station, key)
        if name is not None and not (base / name).exists():
            yield key, f"no such file {name!r}", "the certificate that the server must have"
    secret = None if station.user is None else station.user.password_file
    if secret is not None and not secret.startswith("credential:") and not (base / secret).exists():
        yield "user.password_file", f"no such file {secret!r}", "a file of mode 0600 with the password in one line"
    age_ms = deployment.timing.source_age_ms_max
    if station.publishing_interval_ms > age_ms:
        yield "publishing_interval_ms", f"{station.publishing_interval_ms:g}", f"at most source_age_ms_max, {age_ms:g}"


def _pace(station: PolledStation, deployment: Deployment, leads: bool) -> Iterator[Finding]:
    """The trigger is polled once a cycle; the others so often that their values are never too old for it."""
    period_ms = deployment.cycle.period_ms
    poll_ms = period_ms if station.poll_ms is None else station.poll_ms
    if leads:
        if poll_ms != period_ms:
            yield "poll_ms", f"{poll_ms:g} for the trigger", f"the cycle's period_ms, {period_ms:g}, or nothing"
        return
    source, age_ms = deployment.source, deployment.timing.source_age_ms_max
    assert isinstance(source, BridgeSource)
    limit_ms = min(source.skew_ms_max or age_ms, age_ms)
    if poll_ms > limit_ms:
        yield "poll_ms", f"{poll_ms:g}", f"at most {limit_ms:g}, the lesser of skew_ms_max and source_age_ms_max"


def _s7(station: S7Station, base: Path, *, production: bool) -> Iterator[Finding]:
    from fieldbus.s7.times import zone

    if station.time_member is not None and station.zone is None:
        yield "zone", "nothing", "the time zone of the CPU's clock beside 'time_member', an IANA name or UTC"
    if station.zone is not None:
        if station.time_member is None:
            yield "zone", repr(station.zone), "no 'zone' without 'time_member'"
        try:
            zone(station.zone)
        except FieldbusError as error:
            yield "zone", error.found, error.expected
    if production:
        for i, layout in enumerate(station.layouts):
            if layout.sha256 is None:
                yield f"layouts.{i}.sha256", "nothing", "the file's SHA-256 in a production profile"
    layouts: list[BlockLayout] = []
    faults = list(_layouts(station, base, layouts))
    yield from faults
    if not faults:
        yield from _members(station, layouts)


def _layouts(station: S7Station, base: Path, layouts: list[BlockLayout]) -> Iterator[Finding]:
    from sitsedge.config.layouts import LayoutFileError, read_layout

    for i, layout in enumerate(station.layouts):
        try:
            block = read_layout(layout, base)
        except LayoutFileError as error:
            key = "sha256" if error.code == "layout-sha256" else "file"
            yield f"layouts.{i}.{key}", error.found, error.expected
        except FieldbusError as error:
            yield f"layouts.{i}.file", f"{error.code}: {error.found}", error.expected
        else:
            if block.name in [known.name for known in layouts]:
                yield f"layouts.{i}.file", f"the block {block.name!r} a second time", "each block once"
            layouts.append(block)


def _members(station: S7Station, layouts: list[BlockLayout]) -> Iterator[Finding]:
    from fieldbus.s7.connector import TIME_TYPES
    from fieldbus.s7.layout import find_member
    from fieldbus.s7.values import DataType

    texts = (DataType.CHAR, DataType.WCHAR, DataType.STRING, DataType.WSTRING, DataType.DATE)
    milliseconds = (DataType.TIME, DataType.S5TIME, DataType.TIME_OF_DAY)
    nanoseconds = (DataType.LTIME, DataType.LTIME_OF_DAY)
    for i, tag in enumerate(station.tags):
        try:
            kind = find_member(layouts, tag.path)[1].spec.type
        except FieldbusError as error:
            yield f"tags.{i}.path", error.found, error.expected
            continue
        if kind in texts or kind in TIME_TYPES or kind in nanoseconds:
            yield f"tags.{i}.path", f"{tag.path!r} of type {kind.value}", "a member that is a number"
        elif kind is DataType.BOOL and tag.unit != NO_UNIT:
            yield f"tags.{i}.unit", repr(tag.unit), f"{NO_UNIT!r}: a Bool is 1 or 0"
        elif kind in milliseconds and tag.unit != "ms":
            yield f"tags.{i}.unit", repr(tag.unit), f"'ms', the unit of a {kind.value}"
    if station.time_member is not None:
        try:
            kind = find_member(layouts, station.time_member)[1].spec.type
        except FieldbusError as error:
            yield "time_member", error.found, error.expected
        else:
            if kind not in TIME_TYPES:
                yield "time_member", f"a {kind.value}", "a DTL, Date_And_Time or LDT"


def _cip(station: CipStation) -> Iterator[Finding]:
    from fieldbus.cip.tags import split_path
    from fieldbus.cip.types import BY_NAME

    for i, tag in enumerate(station.tags):
        try:
            split_path(tag.path)
        except FieldbusError as error:
            yield f"tags.{i}.path", error.found, error.expected
        if tag.type not in BY_NAME:
            yield f"tags.{i}.type", repr(tag.type), f"a number: one of {', '.join(BY_NAME)}"
        elif tag.type == "BOOL" and tag.unit != NO_UNIT:
            yield f"tags.{i}.unit", repr(tag.unit), f"{NO_UNIT!r}: a BOOL is 1 or 0"


def _slmp(station: SlmpStation) -> Iterator[Finding]:
    from fieldbus.slmp.devices import Device, Series

    for i, tag in enumerate(station.tags):
        try:
            bit = Device.named(tag.device, Series(station.series)).bit
        except FieldbusError as error:
            yield f"tags.{i}.device", f"{tag.device!r}: {error.code}", error.expected
            continue
        if tag.type is None and not bit:
            yield f"tags.{i}.device", f"{tag.device!r} without 'type'", "a 'type' for a word device"
        elif tag.type is None and tag.unit != NO_UNIT:
            yield f"tags.{i}.unit", repr(tag.unit), f"{NO_UNIT!r}: a bit is 1 or 0"
