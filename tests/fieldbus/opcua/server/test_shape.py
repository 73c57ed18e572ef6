"""Messages that would hang or fill asyncua's decoder are refused before it sees them; a short run of the fuzzer."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from asyncua import ua
from asyncua.ua.ua_binary import struct_to_binary

from fieldbus.opcua.server import Limits
from fieldbus.opcua.server.shape import DEPTH_MAX, REQUESTS, ShapeError, check, check_request
from tests.fieldbus.fuzz_opcua_server import fuzz, requests

LIMITS = Limits(string_bytes=100, array_length=50, elements=200)


def number(value: int) -> bytes:
    return value.to_bytes(4, "little", signed=True)


def nested(levels: int) -> bytes:
    """A Variant in a Variant in …, the innermost null."""
    return b"\x18" * levels + b"\0"


BODY = b"\x01\0\0\0\x01"  # an ExtensionObject's numeric NodeId 0 in four bytes, with a binary body

REFUSED = {
    "an array of nothing": b"\x80" + number(2**31 - 1),
    "a negative length": b"\x0c" + number(-6) + bytes(20),
    "an array of strings that run backwards": b"\x8c" + number(2) + number(-6) * 2,
    "a negative array length": b"\x86" + number(-2),
    "a string beyond the bytes": b"\x0c" + number(50) + bytes(10),
    "a string over the limit": b"\x0c" + number(101) + bytes(101),
    "an array over the limit": b"\x83" + number(51) + bytes(51),
    "too many values": b"\x98" + number(40) + (b"\x83" + number(10) + bytes(10)) * 40,
    "too deep": nested(DEPTH_MAX + 1),
    "an unknown type": b"\x1a\0",
    "dimensions of another product": b"\xc3" + number(2) + b"ab" + number(1) + number(3),
    "dimensions that are negative": b"\xc3" + number(2) + b"ab" + number(2) + number(-2) + number(-1),
    "no dimensions where some are said to be": b"\xc3" + number(1) + b"a" + number(0),
    "null dimensions": b"\xc3" + number(1) + b"a" + number(-1),
    "too many dimensions": b"\xc3" + number(1) + b"a" + number(9) + number(1) * 9,
    "dimensions without an array": b"\x46" + number(1) + number(1) + number(1),
    "an XML body": b"\x16\x01\0\0\0\x02" + number(1) + b"x",
    "a body without length": b"\x16" + BODY + number(-1),
    "a body beyond the bytes": b"\x16" + BODY + number(9) + b"x",
    "an unknown form of NodeId": b"\x11\x07\0",
    "an end too early": b"\x0b\0\0",
    "bytes too many": b"\x01\x01\x01",
    "nothing": b"",
}


@pytest.mark.parametrize("data", REFUSED.values(), ids=REFUSED.keys())
def test_a_variant_is_refused_for(data: bytes) -> None:
    with pytest.raises(ShapeError, match="shape"):
        check(ua.Variant, data, LIMITS)


def test_what_is_whole_and_within_the_limits_passes() -> None:
    for data in (
        b"\0",
        b"\x80" + number(0),
        b"\x83" + number(-1),
        b"\x83" + number(50) + bytes(50),
        b"\x0c" + number(-1),
        b"\x0c" + number(100) + bytes(100),
        b"\xc3" + number(4) + b"abcd" + number(2) + number(2) + number(2),
        nested(DEPTH_MAX - 1),
        b"\x16" + BODY + number(3) + b"\xff" * 3,
    ):
        check(ua.Variant, data, LIMITS)


def test_every_service_passes_as_asyncua_writes_it_and_no_cut_of_it_does() -> None:
    seen = set()
    for data in requests():
        seen.add(check_request(data, Limits()))
        for end in range(len(data)):
            with pytest.raises(ShapeError):
                check_request(data[:end], Limits())
        with pytest.raises(ShapeError):
            check_request(data + b"\0", Limits())
    assert seen == set(REQUESTS) - {ua.ObjectIds.CloseSessionRequest_Encoding_DefaultBinary}


@pytest.mark.parametrize("name", ["AddNodes", "DeleteNodes", "HistoryUpdate", "RegisterServer2", "QueryFirst"])
def test_other_services_are_not_served(name: str) -> None:
    assert check_request(struct_to_binary(getattr(ua, f"{name}Request")()), LIMITS) is None


@pytest.fixture
def silence() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.usefixtures("silence")
async def test_short_fuzz_run_finds_nothing_and_reaches_much(tmp_path: Path) -> None:
    reached = await fuzz(3_000, seed=1, folder=tmp_path)
    for outcome in ("decoded", "refused", "refused by value", "not served", "closed", "answered"):
        assert reached[outcome] > 0, reached
