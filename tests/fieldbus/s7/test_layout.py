"""Block layouts from TIA Portal exports."""

from __future__ import annotations

import pytest

from fieldbus.s7.errors import S7Error
from fieldbus.s7.layout import BlockLayout, Member, find_member, parse_layout
from fieldbus.s7.limits import STEPS_MAX
from fieldbus.s7.values import DataType, TypeSpec

NAMESPACE = "http://www.siemens.com/automation/Openness/SW/Interface/v5"
MEMBERS = """
<Member Name="Temperature" Datatype="Real"/>
<Member Name="Speed" Datatype="Int"/>
<Member Name="Running" Datatype="Bool"/>
<Member Name="Fault" Datatype="Bool"/>
<Member Name="Level" Datatype="Byte"/>
<Member Name="State" Datatype="String[5]"/>
<Member Name="Pump" Datatype="Struct"><Member Name="On" Datatype="Bool"/><Member Name="Flow" Datatype="LReal"/></Member>
<Member Name="Valve" Datatype="&quot;Valve_T&quot;"><Sections><Section Name="None">
  <Member Name="Open" Datatype="Bool"/></Section></Sections></Member>
<Member Name="Bits" Datatype="Array[0..9] of Bool"/>
<Member Name="Grid" Datatype="Array[1..2, 0..1] of Int"/>
<Member Name="Stamp" Datatype="DTL"/>
"""


def export(members: str, layout: str = "Standard", number: str = "7") -> bytes:
    return f"""<?xml version="1.0" encoding="utf-8"?><Document><SW.Blocks.GlobalDB ID="0"><AttributeList>
<Interface><Sections xmlns="{NAMESPACE}"><Section Name="Static">{members}</Section></Sections></Interface>
<MemoryLayout>{layout}</MemoryLayout><Name>State</Name><Number>{number}</Number>
</AttributeList></SW.Blocks.GlobalDB></Document>""".encode()


def test_members_lie_where_standard_access_puts_them() -> None:
    layout = parse_layout(export(MEMBERS))
    places = {member.path: (member.byte, member.bit) for member in layout.members}
    assert (layout.number, layout.name, layout.size) == (7, "State", 50)
    assert places["Temperature"] == (0, 0)
    assert places["Speed"] == (4, 0)
    assert places["Running"] == (6, 0)
    assert places["Fault"] == (6, 1)
    assert places["Level"] == (7, 0)
    assert places["State"] == (8, 0)
    assert places["Pump.On"] == (16, 0)
    assert places["Pump.Flow"] == (18, 0)
    assert places["Valve.Open"] == (26, 0)
    assert places["Bits[0]"] == (28, 0)
    assert places["Bits[9]"] == (29, 1)
    assert places["Grid[1,0]"] == (30, 0)
    assert places["Grid[2,1]"] == (36, 0)
    assert places["Stamp"] == (38, 0)


def test_optimised_block_is_refused_with_what_to_do() -> None:
    with pytest.raises(S7Error, match="optimised-block") as caught:
        parse_layout(export(MEMBERS, "Optimized"))
    assert "optimised block access" in caught.value.hint


OFFSET = '<AttributeList><IntegerAttribute Name="Offset">{}</IntegerAttribute></AttributeList>'


def test_offsets_of_the_export_are_those_computed() -> None:
    good = f'<Member Name="a" Datatype="Bool"/><Member Name="b" Datatype="Int">{OFFSET.format(16)}</Member>'
    assert parse_layout(export(good)).member("b").byte == 2
    with pytest.raises(S7Error, match="layout-offset"):
        parse_layout(export(good.replace(">16<", ">32<")))


NESTED = '<Member Name="s" Datatype="Struct">' * 20 + '<Member Name="x" Datatype="Int"/>' + "</Member>" * 20
HUGE = '<Member Name="a" Datatype="Array[0..2999] of Struct">{}<Member Name="x" Datatype="Bool"/></Member>'


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"<Document/>", "layout-block"),
        (b"no xml", "layout-xml"),
        (b"\xff\xfe", "layout-xml"),
        (b'<!DOCTYPE d [<!ENTITY a "b">]><d>&a;</d>', "layout-xml"),
        (export(""), "layout-block"),
        (export(MEMBERS, number="0"), "layout-block"),
        (export(MEMBERS, layout=""), "layout-block"),
        (export('<Member Name="x" Datatype="Variant"/>'), "layout-type"),
        (export('<Member Name="" Datatype="Int"/>'), "layout-type"),
        (export('<Member Name="x" Datatype="&quot;T&quot;"/>'), "layout-type"),
        (export('<Member Name="x" Datatype="Struct"/>'), "layout-type"),
        (export('<Member Name="x" Datatype="String[255]"/>'), "layout-type"),
        (export('<Member Name="x" Datatype="Array[0..1,0..1] of Bool"/>'), "layout-array"),
        (export('<Member Name="x" Datatype="Array[2..1] of Int"/>'), "layout-array"),
        (export('<Member Name="x" Datatype="Array[0..#MAX] of Int"/>'), "layout-array"),
        (export('<Member Name="x" Datatype="Array[0..99999] of Bool"/>'), "block-size"),
        (export('<Member Name="x" Datatype="Array[0..8200] of LReal"/>'), "block-size"),
        (export(NESTED), "layout-depth"),
        (export(HUGE.format("<Comment/>" * (STEPS_MAX // 1_000))), "block-size"),
    ],
)
def test_export_that_cannot_be_trusted_is_refused(data: bytes, code: str) -> None:
    with pytest.raises(S7Error) as caught:
        parse_layout(data)
    assert caught.value.code == code


def test_member_that_is_not_there_is_refused() -> None:
    with pytest.raises(S7Error, match="member-unknown"):
        parse_layout(export(MEMBERS)).member("Speed2")


def test_member_of_one_of_several_blocks_is_named_as_tia_portal_writes_it() -> None:
    blocks = [
        BlockLayout(n, name, 4, (Member("Speed", 0, 0, TypeSpec(DataType.INT)),)) for n, name in ((1, "A"), (2, "B"))
    ]
    assert find_member(blocks, '"B".Speed')[0].number == 2
    assert find_member(blocks[:1], "Speed")[0].number == 1
    for path, code in (("Speed", "member-block"), ('"C".Speed', "member-block"), ('"A".Level', "member-unknown")):
        with pytest.raises(S7Error, match=code):
            find_member(blocks, path)
