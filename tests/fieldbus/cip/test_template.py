"""UDT templates: members, packed BOOLs, strings, arrays, structures in structures."""

from __future__ import annotations

import struct

import pytest

from fieldbus.cip.errors import CipError
from fieldbus.cip.template import (
    Template,
    TemplateAttributes,
    decode_attributes,
    decode_template,
    hidden,
    read_structure,
)

STRING = TemplateAttributes(32, 88, 2, 0x0FCE)
STRING_DATA = struct.pack("<HHIHHI", 0, 0xC4, 0, 82, 0x20C2, 4) + b"STRING;nEFEBE\0LEN\0DATA\0"
PUMP = TemplateAttributes(60, 100, 6, 0x1234)
PUMP_DATA = (
    struct.pack("<HHI", 0, 0xC2, 0)  # hidden host of the BOOLs
    + struct.pack("<HHI", 0, 0xC1, 0)
    + struct.pack("<HHI", 3, 0xC1, 0)
    + struct.pack("<HHI", 0, 0xCA, 4)
    + struct.pack("<HHI", 2, 0x20C3, 8)
    + struct.pack("<HHI", 0, 0x8FCE, 12)
    + b"Pump;nAAAA\0ZZZZZZZZZZPump0\0On\0Fault\0Speed\0Levels\0Name\0"
)


def string() -> Template:
    return decode_template(STRING_DATA, STRING)


def pump() -> Template:
    return decode_template(PUMP_DATA, PUMP)


def text(value: bytes) -> bytes:
    return len(value).to_bytes(4, "little") + value.ljust(84, b"\0")


DATA = b"\x09\0\0\0" + struct.pack("<fhh", 72.5, 3, -4) + text(b"P-101")


def test_structure_with_packed_bools_arrays_and_text() -> None:
    assert string().is_string
    assert hidden(pump().members[0])
    assert read_structure(pump(), {0xFCE: string()}, 0x1234, DATA) == {
        "On": True,
        "Fault": True,
        "Speed": 72.5,
        "Levels": (3, -4),
        "Name": "P-101",
    }


def test_changed_type_is_refused_until_it_is_discovered_again() -> None:
    with pytest.raises(CipError, match="template-changed"):
        read_structure(pump(), {0xFCE: string()}, 0x1235, DATA)


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (DATA[:-1], "data-length"),
        (DATA[:12] + (83).to_bytes(4, "little") + DATA[16:], "string-length"),
        (DATA[:12] + (-1).to_bytes(4, "little", signed=True) + DATA[16:], "string-length"),
        (DATA.replace(b"P-101", b"P-\xb501"), "character"),
    ],
)
def test_data_that_do_not_fit_are_refused(data: bytes, code: str) -> None:
    with pytest.raises(CipError) as caught:
        read_structure(pump(), {0xFCE: string()}, 0x1234, data)
    assert caught.value.code == code


def test_structure_of_an_unread_template_is_refused() -> None:
    with pytest.raises(CipError, match="template-unknown"):
        read_structure(pump(), {}, 0x1234, DATA)


def test_structure_in_itself_is_refused() -> None:
    loop = decode_template(struct.pack("<HHI", 0, 0x8001, 0) + b"L;n\0a\0", TemplateAttributes(10, 4, 1, 1))
    with pytest.raises(CipError, match="nesting"):
        read_structure(loop, {1: loop}, 1, bytes(4))


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (PUMP_DATA[:40], "truncated"),
        (PUMP_DATA[:-6], "template-name"),
        (PUMP_DATA.replace(b"Fault", b"On"), "template-name"),
        (PUMP_DATA.replace(b"Speed", b"Sp\x07ed"), "template-name"),
        (PUMP_DATA[:8] + struct.pack("<HHI", 32, 0xC1, 0) + PUMP_DATA[16:], "template-member"),
        (PUMP_DATA[:8] + struct.pack("<HHI", 0, 0xC1, 100) + PUMP_DATA[16:], "template-member"),
        (PUMP_DATA[:24] + struct.pack("<HHI", 5, 0xCA, 4) + PUMP_DATA[32:], "template-member"),
        (PUMP_DATA[:24] + struct.pack("<HHI", 0, 0xEE, 4) + PUMP_DATA[32:], "type-unknown"),
    ],
)
def test_definition_that_breaks_a_rule_is_refused(data: bytes, code: str) -> None:
    with pytest.raises(CipError) as caught:
        decode_template(data, PUMP)
    assert caught.value.code == code


def test_attributes_of_a_template() -> None:
    data = struct.pack("<HHHIHHIHHHHHH", 4, 4, 0, 60, 5, 0, 100, 2, 0, 6, 1, 0, 0x1234)
    assert decode_attributes(data) == PUMP
    with pytest.raises(CipError, match="attribute"):
        decode_attributes(data.replace(b"\x05\0\0\0", b"\x05\0\x14\0"))
    with pytest.raises(CipError, match="template-size"):
        decode_attributes(struct.pack("<HHHIHHIHHHHHH", 4, 4, 0, 60_000_000, 5, 0, 100, 2, 0, 6, 1, 0, 1))
