"""The machines that ``sits-bridge`` reads: what has to be said of an OPC UA server and of each vendor's controller.

A station is read by a task of its own with a connection of its own. The same keys stand alone as a whole ``source``
(``protocol: s7``) and as an entry of ``stations`` where several make one DataSet.
"""

from __future__ import annotations

import ipaddress
from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from fieldbus.opcua.options import Deadband, DeadbandKind
from sitsedge.config.browsepath import BrowsePath
from sitsedge.config.strict import FIELDS_MAX, Milliseconds, Port, Quantity, Strict

StationName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,30}$")]
Host = Annotated[str, Field(pattern=r"^[A-Za-z0-9]([A-Za-z0-9.:-]{0,251}[A-Za-z0-9])?$")]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
MemberPath = Annotated[str, Field(min_length=1, max_length=255)]

OWN_NAMES = frozenset({"appliance", "bridge", "gate", "plc", "operator"})
"""Names of the appliance's own certificates; a station's certificate lies beside them under the station's name."""

ITEM_QUEUE_MAX = 1000
"""Values a server may be asked to keep per tag between two publishes: ten seconds at 100 Hz."""

ITEM_QUEUE = 100
"""Unless the file says more: a second at 100 Hz. What waited for longer is mostly too old to be used."""

LAYOUTS_MAX = 8
ROUTE_HOPS_MAX = 4


class DeadbandKeys(Strict):
    """Changes up to ``value`` are not reported (:class:`fieldbus.opcua.Deadband`): in the variable's unit, or in
    percent of its EURange. ``here``: filtered by the bridge where the server cannot; ``span`` stands in for the range
    then."""

    kind: Literal["absolute", "percent"]
    value: Annotated[float, Field(allow_inf_nan=False)]
    here: bool = False
    span: Annotated[float, Field(allow_inf_nan=False)] | None = None

    @model_validator(mode="after")
    def _allowed(self) -> DeadbandKeys:
        self.deadband()
        return self

    def deadband(self) -> Deadband:
        """As the client takes it. Raises ValueError for a value that makes no sense."""
        return Deadband(DeadbandKind(self.kind), self.value, self.here, self.span)


class UserKeys(Strict):
    """User name of the session; the password is the one line of a file that only its owner can read, relative to the
    deployment file, or ``credential:NAME`` of the service manager."""

    name: Annotated[str, Field(min_length=1, max_length=128)]
    password_file: Annotated[str, Field(min_length=1, max_length=255)]


class OpcUaTag(Quantity):
    """A subscribed variable: browse path below the Objects folder, names in the station's namespace unless they bring
    their own (``nsu=URI;Name``). ``sampling_ms`` and ``queue`` are asked of the server for this tag alone."""

    path: BrowsePath
    sampling_ms: Annotated[float, Field(ge=0, le=3_600_000, allow_inf_nan=False)] | None = None
    queue: Annotated[int, Field(ge=1, le=ITEM_QUEUE_MAX)] | None = None
    deadband: DeadbandKeys | None = None


class OpcUaKeys(Strict):
    """An OPC UA server whose variables are subscribed, signed and encrypted.

    ``trigger`` is the browse path of a variable whose change means that a cycle is complete (a row or scan counter):
    servers do not notify a value that stayed the same, so a cycle cannot be told by its values alone. Without it every
    tag has to change in every cycle; in a station that is not the source's trigger its tags then stand for what the
    server last said, as long as the connection lives.

    With ``tag_skew_ms_max`` a tag whose source time differs by more from the trigger's is bad in that sample instead
    of counting as unchanged. ``item_queue``: values the server keeps per tag between two publishes, room for a source
    faster than the publishing interval and for a client that was held up; when it overflows, whole samples are lost,
    and no sample gets an older value than its own.

    ``server_certificate``: the pinned certificate, relative to the deployment file (default: ``STATE/pki/NAME.der``,
    NAME being the station's, ``server`` where it is the only one); ``next_server_certificate`` the one it is going to
    have. ``notify``: ``status-value-timestamp`` also asks for values that were written again unchanged, so that a
    cycle is complete without a trigger. ``renew``: this client's certificate is renewed before its end, and the new one
    used with each server that trusts it; the same at every OPC UA station.
    """

    protocol: Literal["opcua"]
    endpoint: Annotated[str, Field(pattern=r"^opc\.tcp://[^\s/]+(:\d+)?(/\S*)?$")]
    namespace: Annotated[str, Field(min_length=1, max_length=255)]
    server_certificate: str | None = None
    next_server_certificate: str | None = None
    security_policy: Literal["Basic256Sha256", "Aes256_Sha256_RsaPss", "strongest"] = "Basic256Sha256"
    user: UserKeys | None = None
    renew: bool = False
    notify: Literal["status-value", "status-value-timestamp"] = "status-value"
    publishing_interval_ms: Milliseconds = 10.0
    item_queue: Annotated[int, Field(ge=1, le=ITEM_QUEUE_MAX)] = ITEM_QUEUE
    trigger: BrowsePath | None = None
    tag_skew_ms_max: Milliseconds | None = None
    deadline_ms: Milliseconds = 2000.0
    reconnect_ms_max: Milliseconds = 5000.0
    tags: Annotated[list[OpcUaTag], Field(min_length=1, max_length=FIELDS_MAX)]

    @model_validator(mode="after")
    def _deadbands(self) -> OpcUaKeys:
        if self.notify != "status-value" and any(tag.deadband is not None for tag in self.tags):
            raise ValueError("a 'deadband' only with notify: status-value")
        return self


class PolledKeys(Strict):
    """What every polled controller needs. One poll is one sample.

    ``poll_ms`` is the cycle's period where it is not given. ``deadline_ms``: for one request and its reply, and for the
    connection. Values of a controller that does not run its program are bad unless ``run_only`` is false.
    """

    host: Host
    poll_ms: Milliseconds | None = None
    deadline_ms: Milliseconds = 1000.0
    reconnect_ms_max: Milliseconds = 5000.0
    run_only: bool = True


class LayoutFile(Strict):
    """A data block's export from TIA Portal (Openness XML), relative to the deployment file.

    The file decides which bytes are which value, and only ``sha256`` makes it a part of the deployment's digest; a
    production profile demands it.
    """

    file: Annotated[str, Field(min_length=1, max_length=255)]
    sha256: Sha256 | None = None


class S7Tag(Quantity):
    """A member of a block with standard access: ``Pump.Speed``, or ``"Block".Pump.Speed`` where there are several."""

    path: MemberPath


class S7Keys(PolledKeys):
    """Data blocks of a Siemens CPU, by ``rack`` and ``slot`` or its transport selector ``tsap`` (four hex digits).

    ``time_member``: a DTL, Date_And_Time or LDT that the program sets with the values, in the time zone ``zone`` (an
    IANA name). Without it samples have the time at which they were asked for.
    """

    protocol: Literal["s7"]
    port: Port = 102
    rack: Annotated[int, Field(ge=0, le=7)] | None = None
    slot: Annotated[int, Field(ge=0, le=31)] | None = None
    connection: Literal["pg", "op", "basic"] | None = None
    tsap: Annotated[str, Field(pattern=r"^[0-9a-f]{4}$")] | None = None
    layouts: Annotated[list[LayoutFile], Field(min_length=1, max_length=LAYOUTS_MAX)]
    time_member: MemberPath | None = None
    zone: Annotated[str, Field(min_length=1, max_length=64)] | None = None
    tags: Annotated[list[S7Tag], Field(min_length=1, max_length=FIELDS_MAX)]

    @model_validator(mode="after")
    def _one_address(self) -> S7Keys:
        if self.tsap is not None and (self.rack, self.slot, self.connection) != (None, None, None):
            raise ValueError("either 'tsap', or 'rack', 'slot' and 'connection'")
        return self


class CipTag(Quantity):
    """A tag or member of elementary type (``Pump.Speed``). ``type`` is what it must be; nothing is converted."""

    path: MemberPath
    type: Annotated[str, Field(min_length=1, max_length=16)]


class CipKeys(PolledKeys):
    """Tags of a Logix controller. ``route``: port and link address, hop by hop, such as ``[1, 0]`` for slot 0 behind a
    communication module; empty where the controller has its own port."""

    protocol: Literal["cip"]
    port: Port = 44_818
    route: Annotated[list[int | str], Field(max_length=2 * ROUTE_HOPS_MAX)] = Field(default_factory=list)
    tags: Annotated[list[CipTag], Field(min_length=1, max_length=FIELDS_MAX)]

    @field_validator("route")
    @classmethod
    def _hops(cls, route: list[int | str]) -> list[int | str]:
        ports, links = route[::2], route[1::2]
        good = len(ports) == len(links)
        good = good and all(isinstance(port, int) and 1 <= port <= 14 for port in ports)
        if not (good and all(map(_is_link, links))):
            raise ValueError("pairs of a port (1 to 14) and a link: a slot (0 to 255) or an IP address")
        return route


def _is_link(link: int | str) -> bool:
    if isinstance(link, int):
        return 0 <= link <= 255
    try:
        ipaddress.IPv4Address(link)
    except ValueError:
        return False
    return True


class SlmpTag(Quantity):
    """A device, ``D100`` or ``X1F``. ``type`` says what its words mean; a bit device without one is 1 or 0, with one a
    number made of the bits from there on."""

    device: Annotated[str, Field(min_length=2, max_length=12)]
    type: Literal["uint", "int", "udint", "dint", "real", "lreal"] | None = None
    order: Literal["low-first", "high-first"] = "low-first"


class SlmpKeys(PolledKeys):
    """Devices of a MELSEC CPU. ``series`` decides the radix of X and Y; ``frame`` and ``data_code`` are those of the
    module's parameters. Only 4E replies name their request."""

    protocol: Literal["slmp"]
    port: Port
    series: Literal["q", "l", "iq-r", "iq-f"]
    frame: Literal["3e", "4e"] = "4e"
    data_code: Literal["binary", "ascii"] = "binary"
    tags: Annotated[list[SlmpTag], Field(min_length=1, max_length=FIELDS_MAX)]


class _Named(Strict):
    name: StationName

    @field_validator("name")
    @classmethod
    def _not_ours(cls, name: str) -> str:
        if name in OWN_NAMES:
            raise ValueError(f"a name other than {', '.join(sorted(OWN_NAMES))}")
        return name


class OpcUaStation(_Named, OpcUaKeys):
    """An OPC UA server among several stations."""


class S7Station(_Named, S7Keys):
    """A Siemens CPU among several stations."""


class CipStation(_Named, CipKeys):
    """A Logix controller among several stations."""


class SlmpStation(_Named, SlmpKeys):
    """A MELSEC CPU among several stations."""


PolledStation = S7Station | CipStation | SlmpStation
Station = Annotated[OpcUaStation | S7Station | CipStation | SlmpStation, Field(discriminator="protocol")]
"""One station, told apart by its ``protocol``."""
