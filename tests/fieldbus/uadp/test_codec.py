"""The codec as a whole: round trips, totality on any bytes, work bounded by length."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fieldbus.uadp import (
    Announcement,
    BuiltinType,
    Chunk,
    DataSetMessage,
    DataValue,
    FieldEncoding,
    GroupHeader,
    MessageKind,
    NetworkMessage,
    NodeId,
    Probe,
    PublisherId,
    PublisherIdType,
    SecurityHeader,
    StatusAnnouncement,
    UadpError,
    Variant,
    WriterConfiguration,
    decode,
    encode,
)
from fieldbus.uadp.configuration import WriterGroup
from fieldbus.uadp.limits import FIELDS_MAX, MESSAGE_BYTES_MAX, PAYLOAD_BYTES_MAX
from tests.fieldbus.fuzz_uadp import attempt
from tests.fieldbus.uadp.strategies import PATIENT, network_messages, patient


@patient
@given(network_messages())
def test_decode_inverts_encode(message: NetworkMessage) -> None:
    data = encode(message)
    assert decode(data) == message
    assert encode(decode(data)) == data


@patient
@given(st.binary(max_size=300))
def test_any_bytes_give_a_value_or_one_typed_error(data: bytes) -> None:
    check_total(data)


@patient
@given(network_messages(), st.data())
def test_damaged_messages_give_a_value_or_one_typed_error(message: NetworkMessage, data: Any) -> None:
    """Random bytes rarely pass the first flags; damaged real messages reach every branch."""
    raw = bytearray(encode(message))
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    check_total(bytes(raw))
    check_total(bytes(raw[: data.draw(st.integers(0, len(raw)))]))


def check_total(data: bytes) -> None:
    """A refusal has a code and an offset inside the data; a value survives re-encoding and decoding."""
    message = attempt(data)
    if isinstance(message, UadpError):
        assert message.code
        assert message.offset is None or 0 <= message.offset <= len(data)
        return
    again = encode(message)
    assert len(again) <= len(data)
    assert encode(decode(again)) == again  # by bytes: NaN is not equal to itself


@patient
@given(network_messages(), st.integers(0, 10_000))
def test_every_proper_prefix_of_a_message_without_open_end_is_refused(message: NetworkMessage, cut: int) -> None:
    if message.messages and (message.messages[-1].raw is not None or message.messages[-1].padding):
        return  # RawData and invalid messages reach to the end of the datagram, wherever that is, and so does padding
    data = encode(message)
    with pytest.raises(UadpError):
        decode(data[: cut % len(data)])


def calls_while_decoding(data: bytes) -> int:
    """Python and C calls made by ``decode``: a clock that does not depend on the machine."""
    calls = 0

    def count(_frame: Any, event: str, _argument: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        decode(data)
    except UadpError:
        pass
    finally:
        sys.setprofile(None)
    return calls


@settings(max_examples=50, **PATIENT)
@given(st.binary(max_size=2_000), st.sampled_from([b"", b"\x01\x01\xff\x0f", b"\x41\xff", b"\x01\x81\x01\xff\x0f"]))
def test_work_is_bounded_by_length(tail: bytes, head: bytes) -> None:
    data = head + tail
    assert calls_while_decoding(data) <= 60 + 20 * len(data)


def test_the_largest_field_count_and_array_are_within_the_work_bound() -> None:
    nulls = b"\x01\x01" + FIELDS_MAX.to_bytes(2, "little") + bytes(FIELDS_MAX)
    strings = b"\x01\x01\x01\x00\x8c" + (8_192).to_bytes(4, "little") + bytes(4 * 8_192)
    for data in (nulls, strings):
        assert len(decode(data).messages) == 1
        assert calls_while_decoding(data) <= 60 + 20 * len(data)


def test_a_message_over_the_udp_limit_is_refused() -> None:
    data = b"\x01\x03" + bytes(MESSAGE_BYTES_MAX - 2)
    assert len(decode(data).messages[0].raw or b"") == MESSAGE_BYTES_MAX - 2
    with pytest.raises(UadpError) as caught:
        decode(data + b"\x00")
    assert caught.value.code == "message-too-long"


def test_nothing_behind_a_cleared_valid_bit_is_interpreted() -> None:
    (message,) = decode(bytes.fromhex("01 8e ff ff ff")).messages
    assert not message.valid
    assert message.raw == bytes.fromhex("8e ff ff ff")
    assert message.fields == ()


def test_a_boolean_byte_that_is_not_zero_is_true() -> None:
    """OPC 10000-6, 5.2.2.1: decoders shall treat any non-zero value as true."""
    (message,) = decode(bytes.fromhex("01 01 0100 01 7f")).messages
    assert message.fields == (Variant(BuiltinType.BOOLEAN, True),)


def test_data_value_picoseconds_above_the_tick_are_read_as_the_largest() -> None:
    """OPC 10000-6, 5.2.2.17: values of 10,000 and more shall be treated as 9,999."""
    (message,) = decode(bytes.fromhex("01 05 0100 14 0100000000000000 ffff")).messages
    assert message.fields == (DataValue(source_ticks=1, source_picoseconds=9_999),)


def dsm(**changes: Any) -> NetworkMessage:
    return NetworkMessage(messages=(DataSetMessage(**changes),))


PUBLISHER = PublisherId(PublisherIdType.BYTE, 7)
UNENCODABLE = {
    "double-for-int": ("value-type", dsm(fields=(Variant(BuiltinType.INT32, 1.0),))),
    "bool-for-int": ("value-type", dsm(fields=(Variant(BuiltinType.INT32, True),))),
    "int-for-bool": ("value-type", dsm(fields=(Variant(BuiltinType.BOOLEAN, 1),))),
    "bool-for-double": ("value-type", dsm(fields=(Variant(BuiltinType.DOUBLE, True),))),
    "text-for-bytes": ("value-type", dsm(fields=(Variant(BuiltinType.BYTESTRING, "x"),))),
    "value-for-null": ("value-type", dsm(fields=(Variant(BuiltinType.NULL, 1),))),
    "array-for-scalar": ("value-type", dsm(fields=(Variant(BuiltinType.DOUBLE, (1.0,)),))),
    "scalar-for-array": ("value-type", dsm(fields=(Variant(BuiltinType.DOUBLE, 1.0, array=True),))),
    "int-too-large": ("value-range", dsm(fields=(Variant(BuiltinType.BYTE, 256),))),
    "float-too-large": ("value-range", dsm(fields=(Variant(BuiltinType.FLOAT, 1e39),))),
    "surrogate": ("value-range", dsm(fields=(Variant(BuiltinType.STRING, "\ud800"),))),
    "string-too-long": ("too-long", dsm(fields=(Variant(BuiltinType.STRING, "x" * 16_385),))),
    "variant-in-data-value-message": (
        "value-type",
        dsm(encoding=FieldEncoding.DATA_VALUE, fields=(Variant(BuiltinType.BYTE, 1),)),
    ),
    "sequence-range": ("value-range", dsm(sequence=65_536)),
    "status-negative": ("value-range", dsm(status=-1)),
    "picoseconds-range": ("value-range", dsm(timestamp=1, picoseconds=10_000)),
    "picoseconds-alone": ("picoseconds-alone", dsm(picoseconds=1)),
    "data-value-picoseconds-alone": (
        "picoseconds-alone",
        dsm(encoding=FieldEncoding.DATA_VALUE, fields=(DataValue(source_picoseconds=1),)),
    ),
    "raw-missing": ("message-shape", dsm(encoding=FieldEncoding.RAW)),
    "raw-with-variants": ("message-shape", dsm(raw=b"x")),
    "indices-in-key-frame": ("message-shape", dsm(indices=())),
    "delta-without-indices": ("message-shape", dsm(kind=MessageKind.DELTA_FRAME)),
    "delta-index-twice": (
        "message-shape",
        dsm(kind=MessageKind.DELTA_FRAME, indices=(1, 1), fields=(Variant(BuiltinType.NULL, None),) * 2),
    ),
    "keep-alive-with-fields": (
        "message-shape",
        dsm(kind=MessageKind.KEEP_ALIVE, fields=(Variant(BuiltinType.NULL, None),)),
    ),
    "event-of-data-values": ("message-shape", dsm(kind=MessageKind.EVENT, encoding=FieldEncoding.DATA_VALUE)),
    "padded-raw": ("message-shape", dsm(encoding=FieldEncoding.RAW, raw=b"x", padding=1)),
    "padding-negative": ("message-shape", dsm(padding=-1)),
    "fields-over-limit": ("message-shape", dsm(fields=(Variant(BuiltinType.NULL, None),) * (FIELDS_MAX + 1))),
    "invalid-without-bytes": ("message-shape", dsm(valid=False)),
    "invalid-with-valid-bit": ("message-shape", dsm(valid=False, raw=b"\x01")),
    "protected": ("secured", NetworkMessage(security=SecurityHeader(signed=True), messages=dsm().messages)),
    "nonce-too-long": (
        "nonce-length",
        NetworkMessage(security=SecurityHeader(nonce=bytes(33)), messages=dsm().messages),
    ),
    "chunk-empty": ("chunk-range", NetworkMessage(chunk=Chunk(None, 0, 0, 1, b""))),
    "chunk-beyond-total": ("chunk-range", NetworkMessage(chunk=Chunk(None, 0, 1, 1, b"x"))),
    "chunk-total": ("chunk-total", NetworkMessage(chunk=Chunk(None, 0, 0, PAYLOAD_BYTES_MAX + 1, b"x"))),
    "chunk-and-message": ("message-shape", NetworkMessage(chunk=Chunk(None, 0, 0, 1, b"x"), messages=dsm().messages)),
    "announcement-chunk-with-writer": (
        "message-shape",
        NetworkMessage(PUBLISHER, chunk=Chunk(1, 0, 0, 1, b"x", announcement=True)),
    ),
    "discovery-without-publisher": ("message-shape", NetworkMessage(discovery=Probe(1))),
    "discovery-with-group": ("message-shape", NetworkMessage(PUBLISHER, group=GroupHeader(), discovery=Probe(1))),
    "probe-4": ("unsupported-probe", NetworkMessage(PUBLISHER, discovery=Probe(4))),
    "probe-with-writers": ("unsupported-probe", NetworkMessage(PUBLISHER, discovery=Probe(1, (1,)))),
    "status-with-one-time": (
        "message-shape",
        NetworkMessage(PUBLISHER, discovery=Announcement(0, StatusAnnouncement(1, ticks=1))),
    ),
    "statuses-missing": (
        "announcement-statuses",
        NetworkMessage(PUBLISHER, discovery=Announcement(0, WriterConfiguration((1,), WriterGroup(), ()))),
    ),
    "variant-in-variant": ("value-type", dsm(fields=(Variant(BuiltinType.VARIANT, Variant(BuiltinType.BYTE, 1)),))),
    "matrix-product": (
        "array-dimensions",
        dsm(fields=(Variant(BuiltinType.BYTE, (1,), array=True, dimensions=(1, 2)),)),
    ),
    "array-too-long": ("array-too-long", dsm(fields=(Variant(BuiltinType.BYTE, (1,) * 8_193, array=True),))),
    "node-id-of-bool": ("value-type", dsm(fields=(Variant(BuiltinType.NODEID, NodeId(0, True)),))),
    **{
        f"text-for-{kind.name.lower()}": ("value-type", dsm(fields=(Variant(kind, "x"),)))
        for kind in (
            BuiltinType.NODEID,
            BuiltinType.EXPANDEDNODEID,
            BuiltinType.QUALIFIEDNAME,
            BuiltinType.LOCALIZEDTEXT,
            BuiltinType.EXTENSIONOBJECT,
            BuiltinType.DATAVALUE,
        )
    },
    "no-message": ("message-shape", NetworkMessage()),
    "writers-and-messages-differ": ("message-shape", NetworkMessage(writer_ids=(1, 2), messages=dsm().messages)),
    "no-writers": ("message-shape", NetworkMessage(writer_ids=())),
    "publisher-empty": (
        "publisher-id-empty",
        NetworkMessage(publisher=PublisherId(PublisherIdType.STRING, ""), messages=dsm().messages),
    ),
    "publisher-type": (
        "value-type",
        NetworkMessage(publisher=PublisherId(PublisherIdType.UINT16, "7"), messages=dsm().messages),
    ),
    "group-range": (
        "value-range",
        NetworkMessage(group=GroupHeader(writer_group_id=65_536), messages=dsm().messages),
    ),
    "message-too-long": (
        "message-too-long",
        dsm(encoding=FieldEncoding.RAW, raw=bytes(MESSAGE_BYTES_MAX)),
    ),
}


@pytest.mark.parametrize("name", UNENCODABLE)
def test_what_has_no_encoding_is_refused_not_bent(name: str) -> None:
    code, message = UNENCODABLE[name]
    with pytest.raises(UadpError) as caught:
        encode(message)
    assert caught.value.code == code
