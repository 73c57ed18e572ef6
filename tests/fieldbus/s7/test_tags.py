"""Every kind of member of a block with standard access as a tag, and which blocks a CPU has."""

from __future__ import annotations

import datetime as dt
import struct

import pytest

from fieldbus.capture import Protocol
from fieldbus.s7.blocks import BlockEntry, BlockKind, block_counts, block_entries
from fieldbus.s7.client import S7Client
from fieldbus.s7.connector import S7Connector, S7Tag
from fieldbus.s7.errors import S7Error
from fieldbus.s7.layout import parse_layout
from fieldbus.s7.times import zone
from fieldbus.s7.values import DataType, TypeSpec, decode_text_start, encode_value
from fieldbus.sample import BAD_DECODING, GOOD, TagValue
from tests.fieldbus.fake_plc import running
from tests.fieldbus.s7.test_layout import export
from tests.fieldbus.vendor_cpus import S7Cpu

BERLIN = zone("Europe/Berlin")
T_NS = int(dt.datetime(2026, 7, 1, 12, tzinfo=dt.UTC).timestamp()) * 10**9
UDT = '&quot;Motor_T&quot;"><Sections><Section Name="None">'
MEMBERS = f"""
<Member Name="Stamp" Datatype="DTL"/>
<Member Name="Old" Datatype="Date_And_Time"/>
<Member Name="Wait" Datatype="S5Time"/>
<Member Name="Span" Datatype="Time"/>
<Member Name="Long" Datatype="LTime"/>
<Member Name="Day" Datatype="Date"/>
<Member Name="Noon" Datatype="Time_Of_Day"/>
<Member Name="Text" Datatype="String"/>
<Member Name="Short" Datatype="String[4]"/>
<Member Name="Wide" Datatype="WString[3]"/>
<Member Name="Letter" Datatype="Char"/>
<Member Name="Bits" Datatype="Array[0..17] of Bool"/>
<Member Name="Grid" Datatype="Array[1..2, -1..1] of Real"/>
<Member Name="Motors" Datatype="Array[1..2] of {UDT}
  <Member Name="On" Datatype="Bool"/><Member Name="Fault" Datatype="Bool"/>
  <Member Name="Name" Datatype="String[6]"/><Member Name="Marks" Datatype="Array[0..1] of UInt"/>
  <Member Name="Inner" Datatype="Struct"><Member Name="Deep" Datatype="LReal"/></Member>
</Section></Sections></Member>
"""
VALUES: dict[str, tuple[DataType, int, TagValue]] = {
    "Stamp": (DataType.DTL, 0, T_NS),
    "Old": (DataType.DATE_AND_TIME, 0, T_NS),
    "Wait": (DataType.S5TIME, 0, 1_500),
    "Span": (DataType.TIME, 0, -25),
    "Long": (DataType.LTIME, 0, 10**12),
    "Noon": (DataType.TIME_OF_DAY, 0, 43_200_000),
    "Text": (DataType.STRING, 254, "Walzwerk"),
    "Short": (DataType.STRING, 4, ""),
    "Wide": (DataType.WSTRING, 3, "µm"),
    "Letter": (DataType.CHAR, 0, "x"),
    "Bits[0]": (DataType.BOOL, 0, False),
    "Bits[17]": (DataType.BOOL, 0, True),
    "Grid[1,-1]": (DataType.REAL, 0, 1.5),
    "Grid[2,1]": (DataType.REAL, 0, -2.5),
    "Motors[1].On": (DataType.BOOL, 0, False),
    "Motors[2].Fault": (DataType.BOOL, 0, True),
    "Motors[2].Name": (DataType.STRING, 6, "M-2"),
    "Motors[2].Marks[1]": (DataType.UINT, 0, 65_535),
    "Motors[1].Inner.Deep": (DataType.LREAL, 0, 0.1),
}


def cpu_with_values(pdu_bytes: int) -> S7Cpu:
    layout = parse_layout(export(MEMBERS, number="1"))
    cpu = S7Cpu(block=bytearray(layout.size), pdu_bytes=pdu_bytes)
    for path, (kind, characters, value) in VALUES.items():
        member = layout.member(path)
        data = encode_value(TypeSpec(kind, characters), value, clock=BERLIN)
        if kind is DataType.BOOL:
            cpu.block[member.byte] |= data[0] << member.bit
        else:
            cpu.block[member.byte : member.byte + len(data)] = data
    cpu.block[layout.member("Day").byte : layout.member("Day").byte + 2] = (13_331).to_bytes(2, "big")
    return cpu


@pytest.mark.parametrize("pdu_bytes", [240, 480])
async def test_times_text_arrays_and_user_types_as_tags(pdu_bytes: int) -> None:
    """Also where one default string, 256 bytes, is longer than the PDU of an S7-300."""
    cpu = cpu_with_values(pdu_bytes)
    layout = parse_layout(export(MEMBERS, number="1"))
    tags = tuple(S7Tag(path, path) for path in (*VALUES, "Day"))
    async with running(Protocol.S7, cpu.answer) as plc:
        client = S7Client("127.0.0.1", plc.port, deadline_s=5.0)
        connector = S7Connector(client, layout, tags, zone="Europe/Berlin")
        await connector.connect()
        found = {sample.tag: (sample.value, sample.status) for sample in await connector.read()}
        text = layout.member("Text")
        cpu.block[text.byte : text.byte + 256] = encode_value(text.spec, "y" * 254)
        full = {sample.tag: (sample.value, sample.status) for sample in await connector.read()}["Text"]
        await connector.close()
    assert found.pop("Day") == ("2026-07-02", GOOD)
    assert found == {path: (value, GOOD) for path, (_, _, value) in VALUES.items()}
    assert full == ((None, BAD_DECODING) if pdu_bytes == 240 else ("y" * 254, GOOD))


def test_the_start_of_a_text_is_enough_only_where_all_of_it_is_there() -> None:
    spec, wide = TypeSpec(DataType.STRING, 254), TypeSpec(DataType.WSTRING, 300)
    assert decode_text_start(spec, encode_value(spec, "abc")[:5]) == "abc"
    assert decode_text_start(wide, encode_value(wide, "äb")[:8]) == "äb"
    for kind, data in ((spec, encode_value(spec, "abcd")[:5]), (wide, encode_value(wide, "äbc")[:8])):
        with pytest.raises(S7Error, match="string-length"):
            decode_text_start(kind, data)
    with pytest.raises(S7Error, match="string-length"):
        decode_text_start(spec, struct.pack("BB", 80, 1) + b"a")


async def test_blocks_of_a_cpu_in_parts_and_refused() -> None:
    async with running(Protocol.S7, S7Cpu().answer) as plc:
        client = S7Client("127.0.0.1", plc.port, deadline_s=5.0)
        await client.connect()
        assert await client.block_counts() == {BlockKind.OB: 1, BlockKind.DB: 2, BlockKind.FB: 0, BlockKind.FC: 0}
        assert await client.blocks(BlockKind.DB) == (BlockEntry(1, 0x22, 5), BlockEntry(7, 0x22, 5))
        with pytest.raises(S7Error, match="blocks-refused"):
            await client.blocks(BlockKind.FC)
        assert client.connected
        await client.close()


def test_block_lists_are_whole_entries_with_their_mark() -> None:
    for data in (b"\x30\x41\x00", b"\x31\x41\x00\x01"):
        with pytest.raises(S7Error, match="block-list"):
            block_counts(data)
    with pytest.raises(S7Error, match="block-list"):
        block_entries(b"\x00\x01\x02")
    assert block_counts(b"\x30\x99\x00\x01") == {}
