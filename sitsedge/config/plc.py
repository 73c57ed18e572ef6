"""Where the PLC's request block is: every form of ``plc`` in a gate file."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field

from sitsedge.config.browsepath import BrowsePath
from sitsedge.config.strict import Milliseconds, Port, Strict

Host = Annotated[str, Field(pattern=r"^[A-Za-z0-9]([A-Za-z0-9.:-]{0,253}[A-Za-z0-9])?$")]
TagPath = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_.:\[\]]{0,126}$")]
DeviceName = Annotated[str, Field(pattern=r"^(D|W|R|ZR)[0-9A-F]{1,7}$")]
PlcType = Literal["REAL", "LREAL", "INT", "DINT"]
INTEGER_BITS: dict[str, int] = {"INT": 16, "DINT": 32}
"""Width of the integer types, which need a scale; the others hold physical values."""


class OpcUaPlc(Strict):
    """The PLC's OPC UA server and the nodes of its request block, as browse paths below Objects: names in ``namespace``
    unless they bring their own (``nsu=URI;Name``)."""

    protocol: Literal["opcua"]
    endpoint: Annotated[str, Field(pattern=r"^opc\.tcp://[^\s/]+(:\d+)?(/\S*)?$")]
    namespace: Annotated[str, Field(min_length=1, max_length=255)]
    sequence_node: BrowsePath
    heartbeat_node: BrowsePath
    auto_request_node: BrowsePath
    auto_active_node: BrowsePath
    applied_sequence_node: BrowsePath
    valid_until_node: BrowsePath | None = None
    deadline_ms: Milliseconds = 1000.0


class VendorPlc(Strict):
    """A controller spoken to in its vendor's own protocol.

    ``deadline_ms`` is for one request and its reply; ``run_only``: write only while the controller says that it runs.
    """

    address: Host
    deadline_ms: Milliseconds = 500.0
    run_only: bool = True


class NamedBlock(VendorPlc):
    """A block whose members have names. ``slots``: where not ``Slot[0]`` and ``Slot[1]`` of the request."""

    request: TagPath = "SitsRequest"
    applied: TagPath = "SitsApplied"
    slots: Annotated[list[TagPath], Field(min_length=2, max_length=2)] | None = None

    def slot(self, index: int) -> str:
        """Path of a slot."""
        return f"{self.request}.Slot[{index}]" if self.slots is None else self.slots[index]


class S7Plc(NamedBlock):
    """An S7 CPU: one data block with standard access, its layout from the TIA Portal export beside the gate file.

    ``request`` and ``applied`` are the block's structures. CPUs that do not tell their mode over PUT/GET
    (1200, 1500) need ``run_only`` false.
    """

    protocol: Literal["s7"]
    port: Port = 102
    rack: Annotated[int, Field(ge=0, le=7)] = 0
    cpu_slot: Annotated[int, Field(ge=0, le=31)] = 1
    connection: Literal["pg", "op", "basic"] = "basic"
    layout: Annotated[str, Field(min_length=1, max_length=255)]
    request: TagPath = "Request"
    applied: TagPath = "Applied"

    @property
    def endpoint(self) -> str:
        """Address for people."""
        return f"s7://{self.address}:{self.port}"


class CipPlc(NamedBlock):
    """A Logix controller: two structured tags. ``controller_slot``: of one behind a communication module."""

    protocol: Literal["cip"]
    port: Port = 44_818
    controller_slot: Annotated[int, Field(ge=0, le=255)] | None = None

    @property
    def endpoint(self) -> str:
        """Address for people."""
        return f"cip://{self.address}:{self.port}"


class SlmpPlc(VendorPlc):
    """A MELSEC CPU over SLMP: words in a row from ``request_device`` on, and from ``applied_device`` on."""

    protocol: Literal["slmp"]
    port: Port
    series: Literal["q", "l", "iq-r", "iq-f"]
    data_code: Literal["binary", "ascii"] = "binary"
    frame: Literal["3E", "4E"] = "4E"
    request_device: DeviceName
    applied_device: DeviceName

    @property
    def endpoint(self) -> str:
        """Address for people."""
        return f"slmp://{self.address}:{self.port}"


Plc: TypeAlias = Annotated[OpcUaPlc | S7Plc | CipPlc | SlmpPlc, Field(discriminator="protocol")]


def with_protocol(data: Any) -> Any:
    """Gate files are older than the choice: ``plc`` without ``protocol`` is OPC UA."""
    if isinstance(data, dict) and isinstance(data.get("plc"), dict) and "protocol" not in data["plc"]:
        return data | {"plc": {"protocol": "opcua"} | data["plc"]}
    return data
