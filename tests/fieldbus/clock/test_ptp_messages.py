"""The codec of PTP's management messages: every data set, every rule, any bytes."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fieldbus.clock.ptp_messages import (
    MESSAGE_BYTES_MAX,
    CurrentDataSet,
    DefaultDataSet,
    ManagementId,
    ParentDataSet,
    PortDataSet,
    PortIdentity,
    PortProperties,
    PortState,
    PtpError,
    TimeProperties,
    Timestamping,
    TimeStatus,
    get_request,
    parse_response,
)
from tests.fieldbus.clock.ptp_support import (
    BODIES,
    CLOCK,
    GRANDMASTER,
    PORT,
    answer,
    port_body,
    port_properties_body,
    properties_body,
)

US = PortIdentity(CLOCK, 1)
MEANT = {
    ManagementId.DEFAULT_DATA_SET: DefaultDataSet(1, CLOCK, 0),
    ManagementId.CURRENT_DATA_SET: CurrentDataSet(1, -7, 2_000),
    ManagementId.PARENT_DATA_SET: ParentDataSet(PortIdentity(GRANDMASTER, 1), GRANDMASTER, 6, 0x21),
    ManagementId.TIME_PROPERTIES_DATA_SET: TimeProperties(37, True, 0, True, False, False, 0xA0),
    ManagementId.PORT_DATA_SET: PortDataSet(US, PortState.SLAVE, 0.75, 0.125),
    ManagementId.TIME_STATUS_NP: TimeStatus(-7, 1, True, GRANDMASTER),
    ManagementId.PORT_PROPERTIES_NP: PortProperties(US, PortState.SLAVE, Timestamping.SOFTWARE, "eth0"),
}


def parse(data: bytes) -> object:
    return parse_response(data, port=PORT, domain=0)


def code_of(data: bytes) -> str:
    with pytest.raises(PtpError) as caught:
        parse(data)
    return caught.value.code


@pytest.mark.parametrize("what", list(ManagementId))
def test_every_data_set_reads_as_the_standard_lays_it_out(what: ManagementId) -> None:
    response = parse_response(answer(what, BODIES[what], sequence=77), port=PORT, domain=0)
    assert (response.id, response.sequence, response.sender, response.data) == (what, 77, US, MEANT[what])


def test_a_request_is_the_bytes_of_the_standard() -> None:
    assert (
        get_request(ManagementId.TIME_STATUS_NP, sequence=258, port=4242, domain=5).hex()
        == (
            "0d02003605000000" + "00" * 8 + "00000000" + "00" * 8 + "10920102047f"  # header
            "ffffffffffffffffffff" + "00000000"  # every port, no hops, GET
            "00010002c000"
        )
    )


@pytest.mark.parametrize("what", list(ManagementId))
def test_ptp_tlv_a_data_set_of_another_size(what: ManagementId) -> None:
    body = BODIES[what]
    assert code_of(answer(what, body + b"\1")) == "ptp-tlv"
    assert code_of(answer(what, body[:-2])) == "ptp-tlv"
    assert code_of(answer(what, b"")) == "ptp-tlv"


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"kind": 0x0B}, "ptp-message"),
        ({"version": 1}, "ptp-message"),
        ({"domain": 1}, "ptp-message"),
        ({"target": PORT + 1}, "ptp-addressee"),
        ({"action": 0}, "ptp-action"),
        ({"action": 4}, "ptp-action"),
        ({"tlv": 3}, "ptp-tlv"),
        ({"extra": b"\0\1\0\0"}, "ptp-tlv"),
    ],
)
def test_a_message_that_is_no_answer_to_us(changes: dict[str, int], code: str) -> None:
    what = ManagementId.CURRENT_DATA_SET
    assert code_of(answer(what, BODIES[what], **changes)) == code  # type: ignore[arg-type]


def test_minor_versions_and_transport_bits_of_newer_daemons_are_read() -> None:
    what = ManagementId.CURRENT_DATA_SET
    assert parse(answer(what, BODIES[what], kind=0x1D, version=0x12)) == parse(answer(what, BODIES[what]))


def test_ptp_message_a_length_that_is_not_the_datagrams() -> None:
    whole = answer(ManagementId.CURRENT_DATA_SET, BODIES[ManagementId.CURRENT_DATA_SET])
    assert code_of(whole + b"\0") == "ptp-message"
    assert code_of(whole[:-1]) == "ptp-message"
    assert code_of(b"") == "ptp-message"
    assert code_of(bytes(MESSAGE_BYTES_MAX + 1)) == "ptp-message"


def test_ptp_tlv_an_unknown_id() -> None:
    assert code_of(answer(0x2005, b"\0\0")) == "ptp-tlv"


@pytest.mark.parametrize(("reason", "words"), [(2, "no such id"), (6, "not supported"), (99, "error status 99")])
def test_ptp_refused_names_the_daemons_reason(reason: int, words: str) -> None:
    with pytest.raises(PtpError) as caught:
        parse(answer(reason, struct.pack("!HI", 0xC000, 0), tlv=2))
    assert (caught.value.code, caught.value.found) == ("ptp-refused", words)


@pytest.mark.parametrize(
    ("what", "body"),
    [
        (ManagementId.PORT_DATA_SET, port_body(state=0)),
        (ManagementId.PORT_DATA_SET, port_body(state=11)),
        (ManagementId.PORT_DATA_SET, port_body()[:20] + b"\x7f" + port_body()[21:]),
        (ManagementId.PORT_PROPERTIES_NP, port_properties_body(stamping=5)),
        (ManagementId.PORT_PROPERTIES_NP, port_properties_body(interface=b"\xff\xfe")),
        (ManagementId.TIME_PROPERTIES_DATA_SET, properties_body(flags=3)),
    ],
)
def test_ptp_value_outside_the_tables(what: ManagementId, body: bytes) -> None:
    assert code_of(answer(what, body)) == "ptp-value"


@pytest.mark.parametrize(("flags", "leap"), [(0, 0), (1, 1), (2, -1)])
def test_leap_seconds_are_announced(flags: int, leap: int) -> None:
    what = ManagementId.TIME_PROPERTIES_DATA_SET
    data = parse_response(answer(what, properties_body(flags=flags)), port=PORT, domain=0).data
    assert isinstance(data, TimeProperties)
    assert data.leap == leap


@given(st.binary(max_size=160))
def test_any_bytes_are_an_answer_or_one_error(data: bytes) -> None:
    with pytest.raises(PtpError):
        parse(data)


def code_or_none(data: bytes) -> str | None:
    try:
        parse(data)
    except PtpError as error:
        return error.code
    return None


@given(st.sampled_from(list(ManagementId)), st.binary(max_size=80))
def test_any_body_is_a_data_set_or_one_error(what: ManagementId, body: bytes) -> None:
    assert code_or_none(answer(what, body)) in (None, "ptp-tlv", "ptp-value")


@given(st.sampled_from(list(ManagementId)), st.integers(0, 200), st.integers(1, 255))
def test_a_changed_byte_is_read_or_one_error(what: ManagementId, at: int, change: int) -> None:
    data = bytearray(answer(what, BODIES[what]))
    data[at % len(data)] ^= change
    assert (code_or_none(bytes(data)) or "ptp-").startswith("ptp-")
