"""Where the values of a deployment come from: every form of ``source`` in the deployment file."""

from __future__ import annotations

import ipaddress
from abc import abstractmethod
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self

from pydantic import Discriminator, Field, Tag, field_validator, model_validator

from sitsedge.config.stations import (
    CipKeys,
    CipStation,
    OpcUaKeys,
    OpcUaStation,
    S7Keys,
    S7Station,
    SlmpKeys,
    SlmpStation,
    Station,
    StationName,
)
from sitsedge.config.strict import FIELDS_MAX, FieldName, Milliseconds, Port, Quantity, Strict
from sitsedge.config.uadp import AnyPublisherId, FieldKind, MessageForm, UadpSecurity, UnusedField

UDP_SOURCES_MAX = 10
STATIONS_MAX = 16
MacAddress = Annotated[str, Field(pattern=r"^[0-9a-f]{2}(:[0-9a-f]{2}){5}$")]


@dataclass(frozen=True, slots=True)
class Place:
    """One field of the DataSet: name, unit, and the dotted key of its declaration."""

    name: str
    unit: str
    key: str


class SourceField(Quantity):
    """One field of the DataSet, in wire order, of the built-in ``type``."""

    type: FieldKind = "double"


def _field_form(value: object) -> str:
    return "unused" if isinstance(value, UnusedField) or (isinstance(value, dict) and "unused" in value) else "input"


DataSetField = Annotated[
    Annotated[SourceField, Tag("input")] | Annotated[UnusedField, Tag("unused")], Discriminator(_field_form)
]


class UadpPublisher(Strict):
    """Whose DataSet it is and what is in it, however it comes. A plain ``publisher_id`` is a UInt16. ``order``: of the
    model's inputs, where it is not that of the wire.

    Without ``security`` anybody on that network can send values; a production profile then wants to know why that is
    acceptable (``unsecured_because``), so that it stands in what is signed.
    """

    publisher_id: AnyPublisherId
    writer_group_id: Annotated[int, Field(ge=0, le=65535)]
    data_set_writer_id: Annotated[int, Field(ge=1, le=65535)]
    fields: Annotated[list[DataSetField], Field(min_length=1, max_length=FIELDS_MAX)]
    order: list[FieldName] | None = None
    message: MessageForm = MessageForm()
    security: UadpSecurity | None = None
    unsecured_because: Annotated[str, Field(min_length=10, max_length=500)] | None = None

    @model_validator(mode="after")
    def _named(self) -> UadpPublisher:
        if len({field.name for field in self.fields}) != len(self.fields):
            raise ValueError("each field's name once")
        used = [field.name for field in self.fields if isinstance(field, SourceField)]
        if not used:
            raise ValueError("a field that is used")
        if self.order is not None and sorted(self.order) != sorted(used):
            raise ValueError("the name of each field that is used once in 'order'")
        return self

    @model_validator(mode="after")
    def _guarded(self) -> UadpPublisher:
        if self.security is not None and self.unsecured_because is not None:
            raise ValueError("'security' or 'unsecured_because', not both")
        counted = self.security is not None and self.security.nonces == "counted"
        if self.message.source_time == "receive" and not counted:
            raise ValueError("'security' with counted nonces with source_time receive: a recorded message looks new")
        return self

    def dataset(self) -> tuple[Place, ...]:
        """The fields of the DataSet in order."""
        found = [
            Place(field.name, field.unit, f"source.fields.{i}")
            for i, field in enumerate(self.fields)
            if isinstance(field, SourceField)
        ]
        if self.order is not None:
            found.sort(key=lambda place: (self.order or []).index(place.name))
        return tuple(found)


class UadpSource(UadpPublisher):
    """A UADP publisher heard over UDP (OPC 10000-14, 7.3.2).

    ``sources``: only these senders are heard; a multicast group is then joined for them alone.
    """

    protocol: Literal["uadp-udp"]
    address: str
    port: Port
    interface: str | None = None
    sources: Annotated[list[str], Field(min_length=1, max_length=UDP_SOURCES_MAX)] | None = None

    @field_validator("address")
    @classmethod
    def _ip(cls, address: str) -> str:
        try:
            ipaddress.ip_address(address)
        except ValueError:
            raise ValueError("an IP address to listen on") from None
        return address

    @field_validator("sources")
    @classmethod
    def _senders(cls, sources: list[str] | None) -> list[str] | None:
        for source in sources or ():
            try:
                ipaddress.IPv4Address(source)
            except ValueError:
                raise ValueError("IPv4 addresses of senders") from None
        return sources


class UadpEthernetSource(UadpPublisher):
    """A UADP publisher heard on Ethernet (OPC 10000-14, 7.3.3; EtherType 0xB62C), which needs CAP_NET_RAW.

    ``group``: multicast MAC address (default: frames to this interface). ``vlan_id``: of the only tag admitted.
    """

    protocol: Literal["uadp-ethernet"]
    interface: Annotated[str, Field(pattern=r"^[^\s/]{1,15}$")]
    group: MacAddress | None = None
    vlan_id: Annotated[int, Field(ge=0, le=4095)] | None = None
    sources: Annotated[list[MacAddress], Field(min_length=1, max_length=64)] | None = None

    @field_validator("group")
    @classmethod
    def _multicast(cls, group: str | None) -> str | None:
        if group is not None and not int(group[1], 16) & 1:
            raise ValueError("a multicast MAC address (odd first byte)")
        return group


class Bridged(Strict):
    """What every source that ``sits-bridge`` reads has: the loopback port on which the loop hears it."""

    bridge_port: Port

    @abstractmethod
    def all_stations(self) -> tuple[Station, ...]:
        """The stations, each under the name it has in status and certificates."""

    @model_validator(mode="after")
    def _names(self) -> Self:
        names = [tag.name for station in self.all_stations() for tag in station.tags]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"each tag's name once; {', '.join(twice)} more often")
        return self

    def dataset(self) -> tuple[Place, ...]:
        """The fields of the DataSet in order."""
        (station,) = self.all_stations()
        return tuple(Place(tag.name, tag.unit, f"source.tags.{i}") for i, tag in enumerate(station.tags))

    @property
    def trigger_station(self) -> str:
        """The station whose samples make samples of the whole."""
        return self.all_stations()[0].name


class OpcUaSource(OpcUaKeys, Bridged):
    """OPC UA subscriptions to one server."""

    def all_stations(self) -> tuple[Station, ...]:
        return (OpcUaStation(name="server", **_keys(self)),)


class S7Source(S7Keys, Bridged):
    """One Siemens CPU."""

    def all_stations(self) -> tuple[Station, ...]:
        return (S7Station(name="s7", **_keys(self)),)


class CipSource(CipKeys, Bridged):
    """One Logix controller."""

    def all_stations(self) -> tuple[Station, ...]:
        return (CipStation(name="cip", **_keys(self)),)


class SlmpSource(SlmpKeys, Bridged):
    """One MELSEC CPU."""

    def all_stations(self) -> tuple[Station, ...]:
        return (SlmpStation(name="slmp", **_keys(self)),)


class BridgeSource(Bridged):
    """Several stations whose values make one DataSet.

    A sample is made of each sample of the station ``trigger``, with what the others had by then. A value whose time
    differs from the trigger's by more than ``skew_ms_max`` is a bad field. ``order``: names of all tags in the order of
    the model's inputs (default: as the stations list them).
    """

    protocol: Literal["bridge"]
    trigger: StationName | None = None
    skew_ms_max: Milliseconds | None = None
    order: Annotated[list[FieldName], Field(min_length=1, max_length=FIELDS_MAX)] | None = None
    stations: Annotated[list[Station], Field(min_length=1, max_length=STATIONS_MAX)]

    @model_validator(mode="after")
    def _one_dataset(self) -> BridgeSource:
        names = [station.name for station in self.stations]
        if len(set(names)) != len(names):
            raise ValueError("each station's name once")
        tags = [tag for station in self.stations for tag in station.tags]
        if len(tags) > FIELDS_MAX:
            raise ValueError(f"at most {FIELDS_MAX} tags in all")
        if self.order is not None and sorted(self.order) != sorted(tag.name for tag in tags):
            raise ValueError("every tag's name once in 'order'")
        if len(names) > 1 and (self.trigger is None or self.skew_ms_max is None):
            raise ValueError("'trigger' and 'skew_ms_max' where there are several stations")
        servers = [station for station in self.stations if isinstance(station, OpcUaStation)]
        if len({server.renew for server in servers}) > 1:
            raise ValueError("'renew' the same at every OPC UA station: they know this client by one certificate")
        if self.trigger is not None and self.trigger not in names:
            raise ValueError(f"'trigger' to be one of {', '.join(names)}")
        return self

    def all_stations(self) -> tuple[Station, ...]:
        return tuple(self.stations)

    def dataset(self) -> tuple[Place, ...]:
        places = [
            Place(tag.name, tag.unit, f"source.stations.{i}.tags.{k}")
            for i, station in enumerate(self.stations)
            for k, tag in enumerate(station.tags)
        ]
        if self.order is None:
            return tuple(places)
        by_name = {place.name: place for place in places}
        return tuple(by_name[name] for name in self.order)

    @property
    def trigger_station(self) -> str:
        return self.stations[0].name if self.trigger is None else self.trigger


def _keys(source: Bridged) -> dict[str, Any]:
    """The keys of a station that stands alone."""
    return {key: getattr(source, key) for key in type(source).model_fields if key != "bridge_port"}


BridgedSource = OpcUaSource | S7Source | CipSource | SlmpSource | BridgeSource
Source = Annotated[UadpSource | UadpEthernetSource | BridgedSource, Field(discriminator="protocol")]
"""The ``source`` of a deployment, told apart by its ``protocol``."""
