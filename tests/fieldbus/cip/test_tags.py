"""Members, elements, bits and program tags of a Logix controller, by its own templates."""

from __future__ import annotations

import struct

import pytest

from fieldbus.capture import Protocol
from fieldbus.cip.client import CipClient
from fieldbus.cip.connector import PACKET_BYTES_MAX, CipConnector, CipTag
from fieldbus.cip.errors import CipError
from fieldbus.cip.tags import split_path
from fieldbus.sample import BAD_DECODING, BAD_NOT_FOUND, BAD_TYPE_MISMATCH, GOOD, Sample
from tests.fieldbus.fake_plc import running
from tests.fieldbus.vendor_cpus import LogixController, Udt

MOTOR, PUMP, BIG = 0x123, 0x124, 0x125
STRING = 0xFCE
UDTS = {
    MOTOR: Udt(
        "Motor",
        0xAA01,
        12,
        (
            ("ZZZZZZZZZZMotor0", 0xC2, 0, 0),
            ("Ready", 0xC1, 0, 0),
            ("Fault", 0xC1, 3, 0),
            ("Speed", 0xC4, 0, 4),
            ("Counts", 0x20C3, 2, 8),
        ),
    ),
    PUMP: Udt(
        "Pump",
        0xBB02,
        132,
        (
            ("Level", 0xCA, 0, 0),
            ("Flags", 0x20D3, 2, 4),
            ("Motors", 0xA000 | MOTOR, 2, 12),
            ("Label", 0x8000 | STRING, 0, 36),
            ("Hours", 0xC5, 0, 124),
        ),
    ),
    BIG: Udt("Big", 0xCC03, 1_208, (("Head", 0xC4, 0, 0), ("Values", 0x20CA, 300, 4), ("Tail", 0xC4, 0, 1_204))),
}
SYMBOLS = {
    "": (
        ("Main", 0x8000 | PUMP, (0, 0, 0)),
        ("Lines", 0xA000 | PUMP, (4, 0, 0)),
        ("Large", 0x8000 | BIG, (0, 0, 0)),
        ("Words", 0x20C4, (10, 0, 0)),
        ("Grid", 0x40CA, (3, 3, 0)),
        ("Bits", 0x20D3, (2, 0, 0)),
        ("Name", 0x8000 | STRING, (0, 0, 0)),
        ("Program:Mixer", 0x1068, (0, 0, 0)),
    ),
    "Program:Mixer": (("State", 0xC3, (0, 0, 0)), ("Inner", 0x8000 | MOTOR, (0, 0, 0))),
}


def motor(bits: int, speed: int, counts: tuple[int, int]) -> bytes:
    return struct.pack("<B3xi2h", bits, speed, *counts)


def text(value: bytes) -> bytes:
    return struct.pack("<I", len(value)) + value.ljust(84, b"\0")


def pump(level: float) -> bytes:
    motors = motor(0b1001, 1480, (7, -7)) + motor(0b0001, -5, (1, 2))
    return struct.pack("<f2I", level, 0x8000_0001, 2) + motors + text(b"P-101") + struct.pack("<q", 2**40)


def structure(handle: int, data: bytes) -> bytes:
    return b"\xa0\x02" + handle.to_bytes(2, "little") + data


def controller() -> LogixController:
    tags = {
        "Main": structure(0xBB02, pump(72.5)),
        "Lines[2]": structure(0xBB02, pump(3.25)),
        "Large": structure(0xCC03, struct.pack("<i300fi", 11, *map(float, range(300)), 99)),
        "Words[3]": b"\xc4\0" + struct.pack("<i", 0b100),
        "Grid[1,2]": b"\xca\0" + struct.pack("<f", 1.5),
        "Bits[1]": b"\xd3\0" + struct.pack("<I", 1 << 5),
        "Name": structure(STRING, text(b"Mill")),
        "Program:Mixer.State": b"\xc3\0" + struct.pack("<h", -3),
        "Program:Mixer.Inner": structure(0xAA01, motor(8, 33, (5, 6))),
        "Plain": b"\xc4\0" + struct.pack("<i", 8),
    }
    return LogixController(tags, symbols=dict(SYMBOLS), udts=dict(UDTS))


async def samples_of(plc_controller: LogixController, *tags: tuple[str, str]) -> tuple[list[Sample], int]:
    """One poll of ``(path, type)`` tags, and how many requests it took."""
    made = tuple(CipTag(path, path, kind) for path, kind in tags)
    async with running(Protocol.CIP, plc_controller.answer) as plc:
        connector = CipConnector(CipClient("127.0.0.1", plc.port, deadline_s=5.0), made)
        await connector.connect()
        before = plc.requests
        found = await connector.read()
        asked = plc.requests - before
        await connector.close()
    return list(found), asked


VALUES: dict[str, tuple[str, object]] = {
    "Main.Level": ("REAL", 72.5),
    "main.LEVEL": ("REAL", 72.5),
    "Main.Flags[0]": ("BOOL", True),
    "Main.Flags[31]": ("BOOL", True),
    "Main.Flags[33]": ("BOOL", True),
    "Main.Flags[32]": ("BOOL", False),
    "Main.Motors[0].Ready": ("BOOL", True),
    "Main.Motors[0].Fault": ("BOOL", True),
    "Main.Motors[1].Fault": ("BOOL", False),
    "Main.Motors[1].Speed": ("DINT", -5),
    "Main.Motors[0].Counts[1]": ("INT", -7),
    "Main.Motors[0].Speed.3": ("BOOL", True),
    "Main.Label": ("STRING", "P-101"),
    "Main.Hours": ("LINT", 2**40),
    "Lines[2].Level": ("REAL", 3.25),
    "Large.Tail": ("DINT", 99),
    "Large.Values[299]": ("REAL", 299.0),
    "Words[3]": ("DINT", 4),
    "Words[3].2": ("BOOL", True),
    "Grid[1,2]": ("REAL", 1.5),
    "Bits[37]": ("BOOL", True),
    "Bits[36]": ("BOOL", False),
    "Name": ("STRING", "Mill"),
    "Program:Mixer.State": ("INT", -3),
    "Program:Mixer.Inner.Fault": ("BOOL", True),
    "Program:Mixer.Inner.Counts[0]": ("INT", 5),
    "Plain": ("DINT", 8),
}


async def test_members_elements_bits_and_program_tags_in_one_poll() -> None:
    found, asked = await samples_of(controller(), *((path, kind) for path, (kind, _) in VALUES.items()))
    assert {sample.tag: (sample.value, sample.status) for sample in found} == {
        path: (value, GOOD) for path, (_, value) in VALUES.items()
    }
    assert asked < 12, "members of one structure share a read"


WRONG = {
    "Main.Nope": ("REAL", BAD_NOT_FOUND),
    "Main.ZZZZZZZZZZMotor0": ("SINT", BAD_NOT_FOUND),
    "Main": ("REAL", BAD_TYPE_MISMATCH),
    "Main.Level.3": ("BOOL", BAD_NOT_FOUND),
    "Main.Motors.Ready": ("BOOL", BAD_NOT_FOUND),
    "Main.Motors[2].Ready": ("BOOL", BAD_NOT_FOUND),
    "Main.Flags[64]": ("BOOL", BAD_NOT_FOUND),
    "Main.Motors[0].Speed.32": ("BOOL", BAD_NOT_FOUND),
    "Main.Motors[0].Speed": ("REAL", BAD_TYPE_MISMATCH),
    "Main.Label.LEN": ("DINT", BAD_NOT_FOUND),
    "Grid[1]": ("REAL", BAD_NOT_FOUND),
    "Lines.Level": ("REAL", BAD_NOT_FOUND),
    "Program:Mixer.Nope[1]": ("INT", BAD_NOT_FOUND),
    "Missing.Member": ("INT", BAD_NOT_FOUND),
    "Words[9]": ("DINT", BAD_NOT_FOUND),
    "Main.Level": ("REAL", GOOD),
}


async def test_what_is_not_there_or_of_another_type_is_bad_and_the_others_are_not() -> None:
    found, _ = await samples_of(controller(), *((path, kind) for path, (kind, _) in WRONG.items()))
    assert {sample.tag: sample.status for sample in found} == {path: status for path, (_, status) in WRONG.items()}


async def test_what_is_wrong_with_one_member_is_not_wrong_with_another() -> None:
    plc_controller = controller()
    broken = bytearray(pump(72.5))
    broken[36:42] = b"\xff\xff\xff\xff\xff\xff"  # the length of Label
    plc_controller.tags["Main"] = structure(0xBB02, bytes(broken))
    found, _ = await samples_of(
        plc_controller, ("Main.Label", "STRING"), ("Main.Level", "REAL"), ("Main.Hours", "LINT")
    )
    assert [(sample.value, sample.status) for sample in found] == [(None, BAD_DECODING), (72.5, GOOD), (2**40, GOOD)]


async def test_a_template_changed_by_a_download_is_refused_until_it_is_discovered_again() -> None:
    plc_controller = controller()
    async with running(Protocol.CIP, plc_controller.answer) as plc:
        tags = (CipTag("l", "Main.Level", "REAL"), CipTag("p", "Plain", "DINT"))
        connector = CipConnector(CipClient("127.0.0.1", plc.port, deadline_s=5.0), tags)
        await connector.connect()
        moved = Udt("Pump", 0xDD04, 8, (("Other", 0xC4, 0, 0), ("Level", 0xCA, 0, 4)))
        plc_controller.tags["Main"] = structure(0xDD04, struct.pack("<if", 5, 6.5))
        plc_controller.udts[PUMP] = moved
        assert [(sample.value, sample.status) for sample in await connector.read()] == [(None, BAD_DECODING), (8, GOOD)]
        plc_controller.changes = 9
        assert [sample.value for sample in await connector.read()] == [6.5, 8]
        await connector.close()


async def test_a_type_that_is_not_known_here_spoils_only_its_own_tags() -> None:
    plc_controller = controller()
    plc_controller.udts[MOTOR] = Udt("Motor", 0xAA01, 12, (("Time", 0xDB, 0, 0),))
    found, _ = await samples_of(plc_controller, ("Program:Mixer.Inner.Fault", "BOOL"), ("Name", "STRING"))
    assert [(sample.value, sample.status) for sample in found] == [(None, BAD_DECODING), ("Mill", GOOD)]


async def test_a_device_that_lists_no_symbols_is_asked_for_members_by_name() -> None:
    plc_controller = LogixController({"Pump.Speed": b"\xc4\0" + struct.pack("<i", 7)})
    plc_controller.symbols = {}
    found, _ = await samples_of(plc_controller, ("Pump.Speed", "DINT"), ("Pump.Nope", "DINT"))
    assert [(sample.value, sample.status) for sample in found] == [(7, GOOD), (None, BAD_NOT_FOUND)]


@pytest.mark.parametrize(
    "path", ["", "5", ".a", "a.", "a[", "a[]", "a[1,2,3,4]", "a b", "a.b.100", "Program:Main", "ü"]
)
def test_a_path_that_no_tag_can_have_is_refused_at_once(path: str) -> None:
    with pytest.raises(CipError, match="tag-name"):
        split_path(path)
    with pytest.raises(CipError, match="tag-name"):
        CipConnector(CipClient("127.0.0.1", 1), (CipTag("t", path, "DINT"),))


def test_a_large_structure_does_not_fit_one_answer() -> None:
    assert UDTS[BIG].size > PACKET_BYTES_MAX > UDTS[PUMP].size
