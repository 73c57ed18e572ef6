"""LayoutReader and LayoutWriter: identity of the DataSet, types, quality, deltas, and the fast path's equality."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fieldbus.uadp import (
    BuiltinType,
    DataSetLayout,
    DataSetMessage,
    DataSetSample,
    DataValue,
    FieldEncoding,
    GroupHeader,
    LayoutError,
    LayoutReader,
    LayoutWriter,
    MessageKind,
    NetworkMessage,
    Probe,
    PublisherId,
    PublisherIdType,
    UadpError,
    Variant,
    decode,
    encode,
    ns_to_ticks,
    split,
    ticks_to_ns,
)
from fieldbus.uadp.times import UNIX_EPOCH_TICKS
from tests.fieldbus.uadp.strategies import fixed_layouts, patient, scalars, u16, u32

PUBLISHER = PublisherId(PublisherIdType.UINT16, 2234)
T_NS = 1_795_966_248_980_525_900
BAD = 0x808C_0000
UNCERTAIN = 0x4000_0000
FIELDS = (("force", BuiltinType.DOUBLE), ("count", BuiltinType.INT32), ("on", BuiltinType.BOOLEAN))
LAYOUT = DataSetLayout(PUBLISHER, 100, 62_541, FIELDS)
GOOD_FIELDS = (
    Variant(BuiltinType.DOUBLE, 1.5),
    Variant(BuiltinType.INT32, -3),
    Variant(BuiltinType.BOOLEAN, True),
)
VALUES = (1.5, -3, True)


def message(*, network: dict[str, Any] | None = None, **body: Any) -> bytes:
    """A datagram of LAYOUT with some parts changed."""
    parts: dict[str, Any] = {"fields": GOOD_FIELDS, "sequence": 7, "timestamp": ns_to_ticks(T_NS)} | body
    whole: dict[str, Any] = {
        "publisher": PUBLISHER,
        "group": GroupHeader(writer_group_id=100),
        "writer_ids": (62_541,),
        "messages": (DataSetMessage(**parts),),
    }
    return encode(NetworkMessage(**(whole | (network or {}))))


def test_a_sample_has_sequence_time_values_and_good_status() -> None:
    sample = LayoutReader(LAYOUT).read(message())
    assert sample == DataSetSample(7, T_NS, VALUES, 0, (0, 0, 0))
    assert sample.good


def test_sequence_and_time_fall_back_to_the_network_message() -> None:
    network = {
        "group": GroupHeader(writer_group_id=100, sequence=9),
        "timestamp": ns_to_ticks(T_NS),
        "picoseconds": 9_999,
    }
    sample = LayoutReader(LAYOUT).read(message(network=network, sequence=None, timestamp=None))
    assert (sample.sequence, sample.t_source_ns) == (9, T_NS + 99)
    sample = LayoutReader(LAYOUT).read(message(network=network, sequence=None, timestamp=0))
    assert sample.t_source_ns == T_NS + 99


def test_the_right_message_of_several_is_read() -> None:
    ours = DataSetMessage(fields=GOOD_FIELDS, sequence=1, timestamp=ns_to_ticks(T_NS))
    other = DataSetMessage(fields=(Variant(BuiltinType.STRING, "x"),))
    data = message(network={"writer_ids": (1, 62_541, 2), "messages": (other, ours, other)})
    assert LayoutReader(LAYOUT).read(data).values == VALUES


TWO_MESSAGES = (DataSetMessage(fields=GOOD_FIELDS),) * 2
REFUSED: dict[str, tuple[str, bytes]] = {
    "publisher-absent": ("publisher", message(network={"publisher": None})),
    "publisher-value": (
        "publisher",
        message(network={"publisher": PublisherId(PublisherIdType.UINT16, 2235)}),
    ),
    "publisher-type": (
        "publisher",
        message(network={"publisher": PublisherId(PublisherIdType.UINT32, 2234)}),
    ),
    "group": ("writer-group", message(network={"group": GroupHeader(writer_group_id=101)})),
    "group-absent": ("writer-group", message(network={"group": None})),
    "writer": ("writer", message(network={"writer_ids": (62_542,)})),
    "writer-absent": ("writer", message(network={"writer_ids": None})),
    "writer-twice": (
        "writer-repeated",
        message(network={"writer_ids": (62_541, 62_541), "messages": TWO_MESSAGES}),
    ),
    "invalid": (
        "data-set-invalid",
        message(network={"messages": (DataSetMessage(raw=b"\x00", valid=False),)}),
    ),
    "keep-alive": ("keep-alive", message(kind=MessageKind.KEEP_ALIVE, fields=())),
    "encoding": (
        "field-encoding-mismatch",
        message(encoding=FieldEncoding.DATA_VALUE, fields=tuple(map(DataValue, GOOD_FIELDS))),
    ),
    "count-short": ("field-count", message(fields=GOOD_FIELDS[:2])),
    "count-long": ("field-count", message(fields=(*GOOD_FIELDS, GOOD_FIELDS[0]))),
    "type": ("field-type", message(fields=(Variant(BuiltinType.FLOAT, 1.5), *GOOD_FIELDS[1:]))),
    "array": (
        "field-type",
        message(fields=(Variant(BuiltinType.DOUBLE, (1.5,), array=True), *GOOD_FIELDS[1:])),
    ),
    "null": ("field-type", message(fields=(Variant(BuiltinType.NULL, None), *GOOD_FIELDS[1:]))),
    "good-status-code-for-value": (
        "field-type",
        message(fields=(Variant(BuiltinType.STATUSCODE, 0), *GOOD_FIELDS[1:])),
    ),
    "sequence": ("sequence-missing", message(sequence=None)),
    "time-absent": ("timestamp-missing", message(timestamp=None)),
    "time-zero": ("timestamp-missing", message(timestamp=0)),
    "time-zero-twice": ("timestamp-missing", message(network={"timestamp": 0}, timestamp=0)),
    "time-negative": ("timestamp-range", message(timestamp=-1)),
    "delta-first": (
        "delta-without-key",
        message(kind=MessageKind.DELTA_FRAME, fields=GOOD_FIELDS[:1], indices=(0,)),
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_another_data_set_is_refused_by_name(name: str) -> None:
    code, data = REFUSED[name]
    for reader in (LayoutReader(LAYOUT), warm_reader()):
        with pytest.raises(LayoutError) as caught:
            reader.read(data)
        assert caught.value.code == code


def warm_reader() -> LayoutReader:
    """A reader that has its plan, and has read sequence 6 long ago."""
    reader = LayoutReader(LAYOUT)
    for _ in range(2):
        reader.read(message(sequence=1_000))
    return reader


def test_config_version_is_demanded_where_declared() -> None:
    layout = dataclasses.replace(LAYOUT, config_version=(3, 4))
    reader = LayoutReader(layout)
    assert reader.read(message(config_major=3, config_minor=4)).values == VALUES
    changes: tuple[dict[str, Any], ...] = ({"config_major": 3, "config_minor": 5}, {}, {"config_major": 3})
    for change in changes:
        with pytest.raises(LayoutError) as caught:
            reader.read(message(**change))
        assert caught.value.code == "config-version"


def test_the_worst_quality_is_the_samples_status() -> None:
    layout = dataclasses.replace(LAYOUT, encoding=FieldEncoding.DATA_VALUE)
    fields = (DataValue(GOOD_FIELDS[0], UNCERTAIN), DataValue(None, BAD), DataValue(GOOD_FIELDS[2]))
    sample = LayoutReader(layout).read(message(encoding=FieldEncoding.DATA_VALUE, fields=fields))
    assert (sample.values, sample.status) == ((1.5, None, True), BAD)
    assert sample.field_status == (UNCERTAIN, BAD, 0)
    assert not sample.good
    missing = (DataValue(), *fields[1:])
    with pytest.raises(LayoutError, match="field-missing"):
        LayoutReader(layout).read(message(encoding=FieldEncoding.DATA_VALUE, fields=missing))


def test_a_bad_variant_field_carries_its_status_code() -> None:
    sample = LayoutReader(LAYOUT).read(message(fields=(Variant(BuiltinType.STATUSCODE, BAD), *GOOD_FIELDS[1:])))
    assert (sample.values[0], sample.field_status[0], sample.status) == (None, BAD, BAD)


def test_message_status_counts_on_both_paths() -> None:
    reader = LayoutReader(LAYOUT)
    for _ in range(2):
        assert reader.read(message(status=0x808C)).status == BAD


def delta(sequence: int, **values: Any) -> bytes:
    indices = tuple(LAYOUT.names.index(name) for name in values)
    fields = tuple(Variant(FIELDS[index][1], value) for index, value in zip(indices, values.values(), strict=True))
    return message(kind=MessageKind.DELTA_FRAME, fields=fields, indices=indices, sequence=sequence)


def test_deltas_are_laid_onto_the_last_values_in_unbroken_order_only() -> None:
    reader = LayoutReader(LAYOUT)
    reader.read(message(sequence=65_534))
    assert reader.read(delta(65_535, count=8)).values == (1.5, 8, True)
    assert reader.read(delta(0, on=False, force=2.0)).values == (2.0, 8, False)
    for sequence in (2, 1, 3):  # 1 is lost: 2 and all after it wait for a key frame
        with pytest.raises(LayoutError, match="delta-without-key"):
            reader.read(delta(sequence, count=9))
    reader.read(message(sequence=4))
    assert reader.read(delta(5, count=9)).values == (1.5, 9, True)


def test_a_delta_behind_a_keep_alive_that_hides_a_loss_is_refused() -> None:
    reader = LayoutReader(LAYOUT)
    reader.read(message(sequence=1))  # 2 is lost
    with pytest.raises(LayoutError, match="keep-alive"):
        reader.read(message(kind=MessageKind.KEEP_ALIVE, fields=(), sequence=3))
    with pytest.raises(LayoutError, match="delta-without-key"):
        reader.read(delta(3, count=9))


def test_events_chunks_and_discovery_are_no_sample() -> None:
    reader = warm_reader()
    with pytest.raises(LayoutError, match="data-set-event"):
        reader.read(message(kind=MessageKind.EVENT))
    whole = decode(message())
    for piece in split(whole, len(message()) - 1):
        with pytest.raises(LayoutError, match="writer"):
            reader.read(encode(piece))
    with pytest.raises(LayoutError, match="writer-group"):
        reader.read(encode(NetworkMessage(PUBLISHER, discovery=Probe(1))))


@pytest.mark.parametrize("kind", [BuiltinType.NODEID, BuiltinType.VARIANT, BuiltinType.LOCALIZEDTEXT])
def test_a_layout_has_fields_of_plain_values_only(kind: BuiltinType) -> None:
    with pytest.raises(ValueError, match="a field is"):
        dataclasses.replace(LAYOUT, fields=(("a", kind),))


def test_messages_padded_to_a_configured_size_take_the_fast_path(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = LayoutReader(LAYOUT)
    assert reader.read(message(padding=9)).values == VALUES
    monkeypatch.setattr("fieldbus.uadp.reader.decode", pytest.fail)
    assert reader.read(message(padding=9, sequence=8)).values == VALUES


def test_a_delta_index_outside_the_layout_is_refused() -> None:
    reader = LayoutReader(LAYOUT)
    reader.read(message(sequence=1))
    with pytest.raises(LayoutError, match="field-index"):
        reader.read(message(kind=MessageKind.DELTA_FRAME, fields=GOOD_FIELDS[:1], indices=(3,), sequence=2))


def test_raw_data_must_have_exactly_the_layouts_size() -> None:
    layout = dataclasses.replace(LAYOUT, encoding=FieldEncoding.RAW)
    reader = LayoutReader(layout)
    raw = bytes.fromhex("000000000000f83f fdffffff 01")
    assert reader.read(message(encoding=FieldEncoding.RAW, fields=(), raw=raw)).values == VALUES
    for wrong in (raw[:-1], raw + b"\x00"):
        with pytest.raises(LayoutError, match="raw-size"):
            reader.read(message(encoding=FieldEncoding.RAW, fields=(), raw=wrong))


def raw_delta(sequence: int, raw: str) -> bytes:
    parts: dict[str, Any] = {"encoding": FieldEncoding.RAW, "kind": MessageKind.DELTA_FRAME, "fields": ()}
    return message(**parts, raw=bytes.fromhex(raw), sequence=sequence)


def test_raw_deltas_change_the_fields_they_name() -> None:
    reader = LayoutReader(dataclasses.replace(LAYOUT, encoding=FieldEncoding.RAW))
    with pytest.raises(LayoutError, match="delta-without-key"):
        reader.read(raw_delta(6, "0000"))
    raw = bytes.fromhex("000000000000f83f fdffffff 01")
    reader.read(message(encoding=FieldEncoding.RAW, fields=(), raw=raw))
    assert reader.read(raw_delta(8, "0200 0100 07000000 0200 00")).values == (1.5, 7, False)
    assert reader.read(raw_delta(9, "0000")).values == (1.5, 7, False)
    assert reader.read(raw_delta(10, "0100 0100 08000000 0000")).values == (1.5, 8, False)
    for code, wrong in (
        ("field-index", "0100 0300 00"),
        ("delta-duplicate-index", "0200 0200 00 0200 00"),
        ("raw-size", "0100 0200 00 01"),
        ("truncated", "0100 0100 07"),
    ):
        with pytest.raises(UadpError) as caught:
            reader.read(raw_delta(11, wrong))
        assert caught.value.code == code
    assert reader.read(raw_delta(11, "0100 0200 01")).values == (1.5, 8, True)


@patient
@given(fixed_layouts(), st.data())
def test_writer_and_reader_agree(layout: DataSetLayout, data: Any) -> None:
    writer, reader = LayoutWriter(layout, first_sequence=65_535), LayoutReader(layout)
    for sequence in (65_535, 0, 1):
        values = tuple(data.draw(scalars(kind)) for _, kind in layout.fields)
        t_ns = data.draw(st.integers(0, 2**62)) // 100 * 100
        sample = reader.read(writer.write(t_source_ns=t_ns, values=values))
        assert (sample.sequence, sample.t_source_ns, sample.values) == (sequence, t_ns, values)


def general(layout: DataSetLayout, data: bytes) -> tuple[str, Any]:
    """What a reader without a plan makes of the datagram."""
    return outcome(LayoutReader(layout), data)


def outcome(reader: LayoutReader, data: bytes) -> tuple[str, Any]:
    try:
        return "sample", repr(reader.read(data))  # repr: NaN is not equal to itself
    except UadpError as error:
        return "error", (error.code, error.found, error.offset)


@patient
@given(fixed_layouts(), st.data())
def test_fast_path_equals_general_path_on_whole_and_damaged_messages(layout: DataSetLayout, data: Any) -> None:
    body: dict[str, Any] = {
        "encoding": layout.encoding,
        "status": data.draw(st.none() | u16),
        "sequence": data.draw(st.none() | u16),
        "timestamp": data.draw(st.none() | st.integers(0, 2**63 - 1)),
        "config_major": layout.config_version[0] if layout.config_version else data.draw(st.none() | u32),
        "config_minor": layout.config_version[1] if layout.config_version else data.draw(st.none() | u32),
    }
    if body["timestamp"] is not None:
        body["picoseconds"] = data.draw(st.none() | st.integers(0, 9_999))
    network_ticks = data.draw(st.none() | st.integers(0, 2**63 - 1))
    group = GroupHeader(
        layout.writer_group_id, data.draw(st.none() | u32), data.draw(st.none() | u16), data.draw(st.none() | u16)
    )

    def build() -> bytes:
        values = [data.draw(scalars(kind)) for _, kind in layout.fields]
        example = LayoutWriter(layout).write(t_source_ns=0, values=values)
        (filled,) = decode(example).messages
        return encode(
            NetworkMessage(
                layout.publisher,
                data.draw(st.just(None)),
                group,
                (layout.data_set_writer_id,),
                network_ticks,
                5 if network_ticks is not None else None,
                None,
                (dataclasses.replace(filled, **{"picoseconds": None} | body),),
            )
        )

    reader = LayoutReader(layout)
    first = build()
    assert outcome(reader, first) == general(layout, first)
    second = bytearray(build())
    assert outcome(reader, bytes(second)) == general(layout, bytes(second))
    for _ in range(3):
        second[data.draw(st.integers(0, len(second) - 1))] = data.draw(st.integers(0, 255))
        assert outcome(reader, bytes(second)) == general(layout, bytes(second))


def test_the_fast_path_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    writer, reader = LayoutWriter(LAYOUT), LayoutReader(LAYOUT)
    reader.read(writer.write(t_source_ns=T_NS, values=VALUES))

    def never(_: bytes) -> NetworkMessage:
        raise AssertionError("the general decoder was asked")

    monkeypatch.setattr("fieldbus.uadp.reader.decode", never)
    assert reader.read(writer.write(t_source_ns=T_NS + 100, values=(2.5, 4, False))).values == (2.5, 4, False)


def test_writer_carries_quality() -> None:
    writer = LayoutWriter(LAYOUT)
    sample = LayoutReader(LAYOUT).read(
        writer.write(t_source_ns=T_NS, values=(None, 1, True), field_status=(BAD, 0, 0), status=UNCERTAIN)
    )
    assert (sample.values, sample.field_status, sample.status) == ((None, 1, True), (BAD, 0, 0), BAD)
    layout = dataclasses.replace(LAYOUT, encoding=FieldEncoding.DATA_VALUE)
    data = LayoutWriter(layout).write(t_source_ns=T_NS, values=(None, 1, True), field_status=(BAD, UNCERTAIN, 0))
    assert LayoutReader(layout).read(data).field_status == (BAD, UNCERTAIN, 0)


UNWRITABLE: dict[str, tuple[str, FieldEncoding, dict[str, Any]]] = {
    "count": ("field-count", FieldEncoding.VARIANT, {"values": (1.0, 2)}),
    "status-count": ("field-count", FieldEncoding.VARIANT, {"values": VALUES, "field_status": (0,)}),
    "type": ("value-type", FieldEncoding.VARIANT, {"values": (1.0, 2.0, True)}),
    "none-good": ("value-type", FieldEncoding.VARIANT, {"values": (None, 2, True)}),
    "raw-status": ("field-status", FieldEncoding.RAW, {"values": VALUES, "field_status": (BAD, 0, 0)}),
    "raw-type": ("value-type", FieldEncoding.RAW, {"values": (1.0, 2, 1)}),
    "variant-uncertain": (
        "field-status",
        FieldEncoding.VARIANT,
        {"values": VALUES, "field_status": (UNCERTAIN, 0, 0)},
    ),
    "time": ("time-range", FieldEncoding.VARIANT, {"values": VALUES, "t_source_ns": -(2**70)}),
}


@pytest.mark.parametrize("name", UNWRITABLE)
def test_a_refused_write_uses_up_no_sequence_number(name: str) -> None:
    code, encoding, arguments = UNWRITABLE[name]
    writer = LayoutWriter(dataclasses.replace(LAYOUT, encoding=encoding), first_sequence=5)
    with pytest.raises(UadpError) as caught:
        writer.write(**({"t_source_ns": T_NS} | arguments))
    assert caught.value.code == code
    assert writer.next_sequence == 5


@pytest.mark.parametrize(
    "change",
    [
        {"fields": ()},
        {"fields": (("a", BuiltinType.BYTE), ("a", BuiltinType.BYTE))},
        {"fields": (("a", BuiltinType.NULL),)},
        {"fields": (("a", BuiltinType.STRING),), "encoding": FieldEncoding.RAW},
        {"writer_group_id": 65_536},
        {"data_set_writer_id": -1},
    ],
)
def test_a_layout_no_message_can_have_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        dataclasses.replace(LAYOUT, **change)


@patient
@given(st.integers(-(UNIX_EPOCH_TICKS - 1), 2**63 - 1 - UNIX_EPOCH_TICKS), st.integers(0, 99))
def test_times_convert_exactly_to_the_tick(ticks_since_unix: int, below: int) -> None:
    ns = ticks_since_unix * 100 + below
    assert ticks_to_ns(ns_to_ticks(ns)) == ns - below


FIXED = dataclasses.replace(LAYOUT, encoding=FieldEncoding.RAW, group_version=9, fixed=True)


def test_a_fixed_layout_has_no_payload_header_and_its_group_version_tells_it_from_others() -> None:
    writer, reader = LayoutWriter(FIXED), LayoutReader(FIXED)
    data = [writer.write(t_source_ns=T_NS + step * 100, values=VALUES) for step in range(3)]
    assert decode(data[0]).writer_ids is None
    assert [reader.read(item).sequence for item in data] == [0, 1, 2]
    assert refusal(dataclasses.replace(FIXED, group_version=8), data[0]) == "group-version"
    assert refusal(dataclasses.replace(FIXED, group_version=None, fixed=False), data[0]) == "writer"
    ordinary = LayoutWriter(dataclasses.replace(FIXED, fixed=False)).write(t_source_ns=T_NS, values=VALUES)
    assert refusal(FIXED, ordinary) == "writer"
    assert refusal(FIXED, LayoutWriter(dataclasses.replace(FIXED, group_version=None)).write(
        t_source_ns=T_NS, values=VALUES)) == "group-version"  # fmt: skip


def refusal(layout: DataSetLayout, data: bytes) -> str:
    with pytest.raises(LayoutError) as caught:
        LayoutReader(layout).read(data)
    return caught.value.code


@pytest.mark.parametrize("timestamp", [None, 0, ns_to_ticks(T_NS)])
def test_with_receive_time_the_moment_of_reception_is_the_source_time_first_and_later(timestamp: int | None) -> None:
    data = message(timestamp=timestamp)
    reader = LayoutReader(dataclasses.replace(LAYOUT, receive_time=True))
    assert [reader.read(data, t_rx_ns=when).t_source_ns for when in (5, 6, 7)] == [5, 6, 7]
    if not timestamp:
        assert refusal(LAYOUT, data) == "timestamp-missing"


def test_a_recorded_frame_of_a_time_sensitive_network_fits_a_declared_layout(fixtures_dir: Path) -> None:
    """``eth_raw_tsn``: no payload header, numbers and version in the group header, RawData."""
    lines = (json.loads(line) for line in (fixtures_dir / "uadp" / "frames.jsonl").read_text().splitlines())
    frame = next(line for line in lines if line["label"] == "eth_raw_tsn")
    fields = (("at", BuiltinType.INT64), *((f"x{index}", BuiltinType.DOUBLE) for index in range(4)))
    layout = DataSetLayout(
        PUBLISHER, 100, 62_541, fields, encoding=FieldEncoding.RAW, group_version=793_451_520, fixed=True
    )
    sample = LayoutReader(layout).read(bytes.fromhex(frame["uadp"]))
    assert sample.values[1:] == (21.25,) * 4
    assert abs(sample.t_source_ns - frame["rx_ns"]) < 1_000_000_000
