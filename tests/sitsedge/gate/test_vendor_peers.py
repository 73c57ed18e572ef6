"""The gate's request block on servers that nobody here wrote, with the PLC's program played by a second client."""

from __future__ import annotations

import struct
import time

import pytest

from fieldbus.cip.client import CipClient
from fieldbus.s7.client import S7Client
from fieldbus.s7.layout import parse_layout
from fieldbus.s7.model import Area, Item
from fieldbus.slmp.client import SlmpClient
from fieldbus.slmp.devices import Device, Series
from sitsedge.config.plc import CipPlc, S7Plc, SlmpPlc
from sitsedge.gate.plc import PlcError
from sitsedge.gate.plc.block import Value
from sitsedge.gate.plc.cip import CipWire
from sitsedge.gate.plc.s7 import S7Block, S7Wire
from sitsedge.gate.plc.slmp import SlmpWire
from sitsedge.gate.plc.vendor import VendorPort, Wire
from tests.fieldbus.vendors import PROGRAMS, free_port, needs_peers, peer
from tests.sitsedge.gate.test_vendor_plcs import VALUES
from tests.support.block_plcs import s7_layout

pytestmark = needs_peers
GOOD_NS = 60_000_000_000
SPARE = b'<Member Name="Spare" Datatype="Array[0..2] of Int"/></Section></Sections></Interface>'


def port_of(wire: Wire, protocol: str, values: tuple[Value, ...] = VALUES) -> VendorPort:
    return VendorPort(wire, values, protocol=protocol, run_only=False)


async def write(port: VendorPort, sequence: int, *values: float) -> None:
    await port.write(sequence=sequence, values=values, valid_until_ns=time.time_ns() + GOOD_NS)


async def test_python_snap7() -> None:
    address = free_port()
    layout = parse_layout(s7_layout(number=1).replace(b"</Section></Sections></Interface>", SPARE))
    plc = S7Plc(protocol="s7", address="127.0.0.1", port=address, layout="block.xml")
    with peer(address, str(PROGRAMS / "snap7_peer.py"), str(address)):
        program = S7Client("127.0.0.1", address)
        await program.connect()
        await program.write(Item(Area.DATA_BLOCK, 0, 64, block=1), bytes(64))
        port = port_of(S7Wire(plc, S7Block.of(layout, plc, VALUES)), "s7")
        await port.connect()
        await write(port, 11, 0.125, -3.5)
        assert (await port.read_back()).sequence == 0, "nobody has taken it yet"
        await program.write(Item(Area.DATA_BLOCK, 46, 12, block=1), struct.pack(">IBxfh", 1, 1, 0.125, -350))
        applied = await port.read_back()
        assert (applied.sequence, applied.values, applied.auto_active) == (11, (0.125, -3.5), True)
        await port.request_auto(True)
        request = (await program.read((Item(Area.DATA_BLOCK, 0, 46, block=1),)))[0].data
        assert struct.unpack(">IIifh", request[20:38]) == (1, 0xFFFF_FFFE, pytest.approx(60_000, abs=100), 0.125, -350)
        assert struct.unpack(">IB", request[40:45]) == (1, 1)
        await port.close()
        longer = parse_layout(s7_layout(number=1))
        with pytest.raises(PlcError, match="plc-block"):
            await port_of(S7Wire(plc, S7Block.of(longer, plc, VALUES)), "s7").connect()
        await program.close()


async def test_virtual_plc() -> None:
    address = free_port()
    plc = SlmpPlc(
        protocol="slmp", address="127.0.0.1", port=address, series="q", request_device="D100", applied_device="D200"
    )
    with peer(address, "-m", "virtual_plc", "--port", str(address), "--limit", "D:0-1000"):
        program = SlmpClient("127.0.0.1", address, series=Series.Q)
        await program.connect()
        port = port_of(SlmpWire(plc, VALUES), "slmp")
        await port.connect()
        await write(port, 11, 0.125, -3.5)
        await port.request_auto(True)
        words = await program.words(Device("D", 100), 24)
        assert words[:4] == (1, 0, 1, 0)
        assert words[14:18] == (1, 0, 0xFFFE, 0xFFFF)
        await program.write_words(Device("D", 200), (1, 0, 1, 0, *words[20:24]))
        applied = await port.read_back()
        assert (applied.sequence, applied.values, applied.auto_active) == (11, (0.125, -3.5), True)
        await port.close()
        beyond = plc.model_copy(update={"applied_device": "D999"})
        with pytest.raises(PlcError, match="plc-block"):
            await port_of(SlmpWire(beyond, VALUES), "slmp").connect()
        await program.close()


async def test_cpppo() -> None:
    address = free_port()
    slot = ("Number=DINT", "Check=DINT", "ValidMs=DINT", "Gap=REAL", "Speed=INT")
    tags = [f"SitsRequest.Slot{index}.{tag}" for index in (0, 1) for tag in slot]
    tags += ["SitsRequest.Sequence=DINT", "SitsRequest.AutoRequest=BOOL"]
    tags += [
        "SitsApplied.Sequence=DINT",
        "SitsApplied.AutoActive=BOOL",
        "SitsApplied.Gap=REAL",
        "SitsApplied.Speed=INT",
    ]
    slots = ["SitsRequest.Slot0", "SitsRequest.Slot1"]  # cpppo has no arrays of structures
    plc = CipPlc(protocol="cip", address="127.0.0.1", port=address, slots=slots)
    with peer(address, "-m", "cpppo.server.enip", "--no-udp", "--no-config", "-a", f"127.0.0.1:{address}", *tags):
        program = CipClient("127.0.0.1", address)
        await program.connect()
        port = port_of(CipWire(plc, VALUES), "cip")
        await port.connect()
        await write(port, 11, 0.125, -3.5)
        await program.write("SitsApplied.Sequence", "DINT", 1)
        await program.write("SitsApplied.Gap", "REAL", 0.125)
        await program.write("SitsApplied.Speed", "INT", -350)
        applied = await port.read_back()
        assert (applied.sequence, applied.values) == (11, (0.125, -3.5))
        await port.close()
        await program.close()
