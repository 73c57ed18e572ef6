"""The ``server`` part of a deployment: the appliance's own OPC UA server, for people and systems that look at it."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import fields
from typing import Annotated, Literal
from urllib.parse import SplitResult, urlsplit

from pydantic import Field, field_validator, model_validator

from sitsedge.config.strict import Strict

HOSTS_MAX = 16
PolicyName = Literal["Basic256Sha256", "Aes256_Sha256_RsaPss"]
POLICIES: tuple[PolicyName, ...] = ("Basic256Sha256", "Aes256_Sha256_RsaPss")
Text = Annotated[str, Field(min_length=1, max_length=255)]
HostName = Annotated[str, Field(pattern=r"^[A-Za-z0-9]([A-Za-z0-9.:-]{0,251}[A-Za-z0-9])?$")]


class DeviceIdentity(Strict):
    """The appliance's name plate (OPC 10000-100, 4.5.2; OPC 40001-1, 8). Serial number: the device's own by default."""

    manufacturer: Text = "SITS Edge"
    manufacturer_uri: Text = "urn:sits-edge"
    model: Text = "SITS Edge appliance"
    product_code: Text | None = None
    hardware_revision: Text | None = None
    serial_number: Text | None = None
    asset_id: Text | None = None
    component_name: Text | None = None
    location: Text | None = None
    year_of_construction: Annotated[int, Field(ge=1990, le=2200)] | None = None


class MachineIdentity(Strict):
    """The machine that the appliance belongs to (OPC 40001-1, 8)."""

    name: Text
    manufacturer: Text
    serial_number: Text
    product_instance_uri: Text
    model: Text | None = None
    asset_id: Text | None = None
    component_name: Text | None = None
    location: Text | None = None
    year_of_construction: Annotated[int, Field(ge=1900, le=2200)] | None = None


class ServerBlock(Strict):
    """Where the server listens, for whom, and what it calls itself.

    ``endpoint`` is the address that clients get to see. ``bind`` is the address listened at: the endpoint's own where
    that is an IP address or ``localhost``, else it has to be said, as has ``0.0.0.0`` (every interface). ``hosts``:
    further names that the certificate made in development is good for. ``users`` (a book, mode 0600) and ``trusted`` (a
    folder of certificates) are paths relative to the deployment file, by default in the state folder. ``limits`` may
    only be tighter than those of the product.
    """

    endpoint: Annotated[str, Field(max_length=255)]
    bind: str | None = None
    hosts: Annotated[list[HostName], Field(max_length=HOSTS_MAX, default_factory=list)]
    policies: Annotated[list[PolicyName], Field(min_length=1, max_length=2, default_factory=lambda: list(POLICIES))]
    users: str | None = None
    trusted: str | None = None
    limits: Annotated[dict[str, float], Field(default_factory=dict)]
    device: DeviceIdentity = DeviceIdentity()
    machine: MachineIdentity | None = None

    @field_validator("endpoint")
    @classmethod
    def _endpoint(cls, endpoint: str) -> str:
        if not re.fullmatch(r"opc\.tcp://[^\s/]+:\d+(/\S*)?", endpoint):
            raise ValueError("opc.tcp://HOST:PORT, with a path behind it or without")
        return endpoint

    @field_validator("bind")
    @classmethod
    def _address(cls, bind: str | None) -> str | None:
        if bind is not None:
            try:
                ipaddress.ip_address(bind)
            except ValueError:
                raise ValueError("an IP address of this machine, or 0.0.0.0 for all of them") from None
        return bind

    @field_validator("policies")
    @classmethod
    def _once(cls, policies: list[PolicyName]) -> list[PolicyName]:
        if len(set(policies)) != len(policies):
            raise ValueError("each policy once")
        return policies

    @field_validator("limits")
    @classmethod
    def _tighter(cls, limits: dict[str, float]) -> dict[str, float]:
        from fieldbus.opcua.server import Limits  # loads asyncua: only for who runs a server

        own = Limits()
        known = {item.name: getattr(own, item.name) for item in fields(own)}
        for name, value in limits.items():
            if name not in known:
                raise ValueError(f"known limits; {name!r} is none")
            default = known[name]
            loose = value < default if name.endswith("_min") else value > default
            if loose or value <= 0 or (isinstance(default, int) and value != int(value)):
                bound = "at least" if name.endswith("_min") else "at most"
                raise ValueError(f"{name} {bound} {default}, as of the product")
        return limits

    @model_validator(mode="after")
    def _reachable(self) -> ServerBlock:
        host = self.url.hostname or ""
        try:
            port = self.url.port
        except ValueError:
            port = None
        if not port:
            raise ValueError("an endpoint with a port of 1 to 65535")
        try:
            unspecified = ipaddress.ip_address(host).is_unspecified
        except ValueError:
            if self.bind is None and host != "localhost":
                raise ValueError("'bind', the address to listen at, where the endpoint names a host") from None
            return self
        if unspecified:
            raise ValueError("an endpoint that clients can reach; 'bind: 0.0.0.0' to listen at every address") from None
        return self

    @property
    def url(self) -> SplitResult:
        """The endpoint in parts."""
        return urlsplit(self.endpoint)

    @property
    def port(self) -> int:
        """The TCP port."""
        return self.url.port or 0

    @property
    def address(self) -> str:
        """The address to listen at."""
        if self.bind is not None:
            return self.bind
        host = self.url.hostname or ""
        return "127.0.0.1" if host == "localhost" else host

    @property
    def host_names(self) -> tuple[str, ...]:
        """Every name and address that a client may know the server by, for its certificate."""
        names = [self.url.hostname or "", *self.hosts]
        if not ipaddress.ip_address(self.address).is_unspecified:
            names.append(self.address)
        return tuple(dict.fromkeys(name for name in names if name))
