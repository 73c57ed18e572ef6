"""The connector of a vendor's controller, made from the keys of its station."""

from __future__ import annotations

import ipaddress
from pathlib import Path

from fieldbus.cip.client import CipClient
from fieldbus.cip.connector import CipConnector, CipTag
from fieldbus.cip.path import Port
from fieldbus.polling import Connector
from fieldbus.s7.client import S7Client, selector
from fieldbus.s7.connector import S7Connector, S7Tag
from fieldbus.slmp.client import SlmpClient
from fieldbus.slmp.connector import SlmpConnector, SlmpTag
from fieldbus.slmp.devices import Series
from fieldbus.slmp.values import WordOrder, WordType
from fieldbus.slmp.wire import DataCode
from sitsedge.config.layouts import read_layout
from sitsedge.config.stations import CipStation, PolledStation, S7Station, SlmpStation

_CONNECTIONS = {"pg": 1, "op": 2, "basic": 3}
_MS_PER_S = 1000


def make_connector(station: PolledStation, base: Path) -> Connector:
    """The station's connector, not connected; layout files are relative to ``base``.

    Raises FieldbusError for keys that the protocol refuses, LayoutFileError.
    """
    if isinstance(station, S7Station):
        return s7_connector(station, base)
    return cip_connector(station) if isinstance(station, CipStation) else slmp_connector(station)


def s7_client(station: S7Station) -> S7Client:
    """A client of the CPU, not connected."""
    kind = _CONNECTIONS[station.connection or "basic"]
    called = bytes.fromhex(station.tsap) if station.tsap is not None else None
    return S7Client(
        station.host,
        station.port,
        called=called or selector(kind, station.rack or 0, 1 if station.slot is None else station.slot),
        deadline_s=station.deadline_ms / _MS_PER_S,
    )


def s7_connector(station: S7Station, base: Path) -> S7Connector:
    """Raises as :func:`make_connector`."""
    return S7Connector(
        s7_client(station),
        [read_layout(layout, base) for layout in station.layouts],
        tuple(S7Tag(tag.name, tag.path, tag.unit) for tag in station.tags),
        time_member=station.time_member,
        zone=station.zone or "UTC",
        run_only=station.run_only,
    )


def cip_connector(station: CipStation) -> CipConnector:
    """Raises as :func:`make_connector`."""
    hops = zip(station.route[::2], station.route[1::2], strict=True)
    client = CipClient(
        station.host,
        station.port,
        route=tuple(Port(int(port), _link(link)) for port, link in hops),
        deadline_s=station.deadline_ms / _MS_PER_S,
    )
    tags = tuple(CipTag(tag.name, tag.path, tag.type, tag.unit) for tag in station.tags)
    return CipConnector(client, tags, run_only=station.run_only)


def _link(link: int | str) -> bytes:
    return bytes((link,)) if isinstance(link, int) else str(ipaddress.IPv4Address(link)).encode("ascii")


def slmp_client(station: SlmpStation) -> SlmpClient:
    """A client of the CPU, not connected."""
    return SlmpClient(
        station.host,
        station.port,
        series=Series(station.series),
        data_code=DataCode(station.data_code),
        with_serial=station.frame == "4e",
        deadline_s=station.deadline_ms / _MS_PER_S,
    )


def slmp_connector(station: SlmpStation) -> SlmpConnector:
    """Raises as :func:`make_connector`."""
    tags = tuple(
        SlmpTag(tag.name, tag.device, None if tag.type is None else WordType(tag.type), tag.unit, WordOrder(tag.order))
        for tag in station.tags
    )
    return SlmpConnector(slmp_client(station), tags, run_only=station.run_only)
