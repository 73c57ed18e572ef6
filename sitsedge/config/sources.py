"""Where the values of a deployment come from: every form of ``source`` in the deployment file."""

from __future__ import annotations

import ipaddress
from typing import Annotated, Literal

from pydantic import Field, field_validator

from sitsedge.config.strict import FIELDS_MAX, FieldName, Milliseconds, Port, Strict
from sitsedge.config.units import UNITS

UDP_SOURCES_MAX = 10
MacAddress = Annotated[str, Field(pattern=r"^[0-9a-f]{2}(:[0-9a-f]{2}){5}$")]


class SourceField(Strict):
    """One field of the DataSet, in wire order. ``unit`` must be the unit of the model's input of the same name."""

    name: FieldName
    unit: str

    @field_validator("unit")
    @classmethod
    def _known(cls, unit: str) -> str:
        if unit not in UNITS:
            raise ValueError(f"one of the units {', '.join(sorted(UNITS))}")
        return unit


class UadpPublisher(Strict):
    """Whose DataSet it is and what is in it, however it comes."""

    publisher_id: Annotated[int, Field(ge=0, le=65535)]
    writer_group_id: Annotated[int, Field(ge=0, le=65535)]
    data_set_writer_id: Annotated[int, Field(ge=1, le=65535)]
    fields: Annotated[list[SourceField], Field(min_length=1, max_length=FIELDS_MAX)]


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


class OpcUaTag(Strict):
    """A subscribed variable: browse path below the Objects folder, in the source's namespace."""

    name: FieldName
    unit: str
    path: Annotated[str, Field(min_length=1, max_length=255)]


class OpcUaSource(Strict):
    """OPC UA subscriptions through ``sits-bridge``, which hands the samples to the loop as UADP on loopback.

    ``trigger`` is the browse path of a variable whose change means that a cycle is complete (a row or scan counter):
    servers do not notify a value that stayed the same, so a cycle cannot be told by its values alone. Without it every
    tag has to change in every cycle.
    """

    protocol: Literal["opcua"]
    endpoint: Annotated[str, Field(pattern=r"^opc\.tcp://[^\s/]+(:\d+)?(/\S*)?$")]
    namespace: Annotated[str, Field(min_length=1, max_length=255)]
    publishing_interval_ms: Milliseconds = 10.0
    trigger: Annotated[str, Field(min_length=1, max_length=255)] | None = None
    bridge_port: Port
    tags: Annotated[list[OpcUaTag], Field(min_length=1, max_length=FIELDS_MAX)]


Source = Annotated[UadpSource | UadpEthernetSource | OpcUaSource, Field(discriminator="protocol")]
"""The ``source`` of a deployment, told apart by its ``protocol``."""
