"""The controllers of the vendors' tests and the stations that describe them."""

from __future__ import annotations

import struct
from typing import Any

from fieldbus.s7.values import DataType, TypeSpec, encode_value
from tests.fieldbus.fake_plc import FakePlc
from tests.fieldbus.vendor_cpus import LogixController, S7Cpu

RUN, STOP = 0x48, 0x84


def layout(members: str, name: str = "State", number: int = 1) -> str:
    """A block's export as TIA Portal writes it, without what is not read."""
    return f"""<Document><SW.Blocks.GlobalDB ID="0"><AttributeList><Interface>
<Sections xmlns="http://www.siemens.com/automation/Openness/SW/Interface/v5"><Section Name="Static">
{members}</Section></Sections></Interface>
<MemoryLayout>Standard</MemoryLayout><Name>{name}</Name><Number>{number}</Number></AttributeList>
</SW.Blocks.GlobalDB></Document>"""


LAYOUT = layout(
    '<Member Name="Temperature" Datatype="Real"/><Member Name="Speed" Datatype="Int"/>'
    '<Member Name="Running" Datatype="Bool"/><Member Name="Stamp" Datatype="DTL"/>'
)


def s7_cpu() -> S7Cpu:
    cpu = S7Cpu()
    cpu.block[:7] = struct.pack(">fhB", 72.5, 1480, 1)
    return cpu


def s7_station(plc: FakePlc, **more: object) -> dict[str, Any]:
    tags = [
        {"name": "temperature", "unit": "°C", "path": "Temperature"},
        {"name": "speed", "unit": "rpm", "path": "Speed"},
        {"name": "running", "unit": "1", "path": "Running"},
    ]
    return station("s7", plc, tags, layouts=[{"file": "state.xml"}], **more)


def stamp(cpu: S7Cpu, t_ns: int) -> None:
    cpu.block[8:20] = encode_value(TypeSpec(DataType.DTL), t_ns)


def logix() -> LogixController:
    return LogixController({"Temp": b"\xca\0" + struct.pack("<f", 21.5), "Ready": b"\xc1\0\xff"})


def logix_station(plc: FakePlc, **more: object) -> dict[str, Any]:
    tags = [
        {"name": "oven", "unit": "°C", "path": "Temp", "type": "REAL"},
        {"name": "ready", "unit": "1", "path": "Ready", "type": "BOOL"},
    ]
    return station("cip", plc, tags, **more)


def station(protocol: str, plc: FakePlc, tags: list[dict[str, Any]], **more: object) -> dict[str, Any]:
    common = {"name": protocol, "protocol": protocol, "host": "127.0.0.1", "port": plc.port, "reconnect_ms_max": 100}
    return {**common, "tags": tags, **more}
