"""Public trouble: a server or publisher turns quality bad and ships the last good value along with it."""

from __future__ import annotations

import pytest
from asyncua import ua

from fieldbus.opcua.values import from_data_value
from fieldbus.uadp import (
    BuiltinType,
    DataSetLayout,
    DataSetMessage,
    DataValue,
    FieldEncoding,
    GroupHeader,
    LayoutReader,
    MessageKind,
    NetworkMessage,
    PublisherId,
    PublisherIdType,
    Variant,
    encode,
)
from sitsedge.bridge.sample import SameTimestampAssembler, field_of
from tests.fieldbus.troubles.loop_rig import FIELDS, LoopRig

BAD_SENSOR = 0x808C_0000
UNCERTAIN = 0x4090_0000
LAYOUT = DataSetLayout(
    PublisherId(PublisherIdType.BYTE, 7), 1, 2, (("a", BuiltinType.DOUBLE), ("b", BuiltinType.DOUBLE))
)


def message(
    sequence: int,
    *fields: DataValue | Variant,
    kind: MessageKind = MessageKind.KEY_FRAME,
    indices: tuple[int, ...] | None = None,
    status: int | None = None,
    encoding: FieldEncoding = FieldEncoding.DATA_VALUE,
    raw: bytes | None = None,
) -> bytes:
    body = DataSetMessage(kind, encoding, fields, indices, raw, sequence, timestamp=10**17, status=status)
    group = GroupHeader(writer_group_id=1)
    return encode(NetworkMessage(LAYOUT.publisher, None, group, (2,), messages=(body,)))


def value(number: float, status: int | None = None) -> DataValue:
    return DataValue(Variant(BuiltinType.DOUBLE, number), status)


def test_a_bad_field_has_no_value_even_where_the_publisher_sends_one() -> None:
    layout = DataSetLayout(LAYOUT.publisher, 1, 2, LAYOUT.fields, FieldEncoding.DATA_VALUE)
    reader = LayoutReader(layout)
    sample = reader.read(message(1, value(72.5), value(3.0, BAD_SENSOR)))
    assert (sample.values, sample.status) == ((72.5, None), BAD_SENSOR)
    delta = reader.read(message(2, value(72.6, BAD_SENSOR), kind=MessageKind.DELTA_FRAME, indices=(0,)))
    assert (delta.values, delta.good) == ((None, None), False)
    healed = reader.read(message(3, value(1.0), value(2.0)))
    assert (healed.values, healed.good) == ((1.0, 2.0), True)


@pytest.mark.parametrize("encoding", [FieldEncoding.VARIANT, FieldEncoding.RAW])
def test_a_message_of_bad_status_has_no_values_at_all_on_either_path(encoding: FieldEncoding) -> None:
    layout = DataSetLayout(LAYOUT.publisher, 1, 2, LAYOUT.fields, encoding)
    reader = LayoutReader(layout)
    variants = tuple(Variant(BuiltinType.DOUBLE, number) for number in (72.5, 3.0))
    raw = bytes(16) if encoding is FieldEncoding.RAW else None
    parts = () if raw else variants
    assert reader.read(message(1, *parts, encoding=encoding, raw=raw, status=0)).good
    bad = reader.read(message(2, *parts, encoding=encoding, raw=raw, status=BAD_SENSOR >> 16))
    assert (bad.values, bad.field_status) == ((None, None), (BAD_SENSOR, BAD_SENSOR))
    assert reader.read(message(3, *parts, encoding=encoding, raw=raw, status=0)).values != (None, None)


def test_a_client_gives_no_value_of_bad_status_and_the_bridge_none_either() -> None:
    shipped = ua.DataValue(ua.Variant(72.5, ua.VariantType.Double), StatusCode=ua.StatusCode(BAD_SENSOR))
    result = from_data_value("t", shipped)
    assert (result.value, result.status) == (None, BAD_SENSOR)
    assert field_of(result).value is None
    assert SameTimestampAssembler(("t",)).take([result]) == [], "without source time there is no sample at all"


@pytest.mark.parametrize("status", [BAD_SENSOR, UNCERTAIN])
def test_the_loop_computes_nothing_from_quality_that_is_not_good(status: int) -> None:
    rig = LoopRig()
    assert rig.take(rig.key_frame()) == "ok"
    bad_field = status == BAD_SENSOR
    codes = (status, *(0,) * (FIELDS - 1)) if bad_field else None
    assert rig.take(rig.key_frame(field_status=codes, status=0 if bad_field else status)) == (
        f"bad-quality: status 0x{status:08x}"
    )
    assert rig.take(rig.key_frame(status=status)).startswith("bad-quality")
    assert rig.take(rig.key_frame()) == "ok"
