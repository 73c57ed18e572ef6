"""Public trouble: the overflow bit of a queue is taken for bad quality, or nobody counts it.

Counting it by tag against a server that overflows: ``tests/fieldbus/opcua/test_subscription.py``.
"""

from __future__ import annotations

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
    NetworkMessage,
    PublisherId,
    PublisherIdType,
    Variant,
    encode,
)
from sitsedge.bridge.sample import Sample, field_of

OVERFLOW = 0x0000_0480
"""InfoType DataValue and the Overflow bit (OPC 10000-4, 7.39); the severity is Good."""


def test_a_value_with_the_overflow_bit_is_good_and_keeps_the_bit() -> None:
    data_value = ua.DataValue(ua.Variant(1.5, ua.VariantType.Double), StatusCode=ua.StatusCode(OVERFLOW))
    result = from_data_value("t", data_value)
    assert (result.value, result.status, result.good) == (1.5, OVERFLOW, True)
    sample = Sample(1, (field_of(result),))
    assert sample.good
    assert sample.fields[0].value == 1.5


def test_a_field_with_the_overflow_bit_is_good_in_uadp_too() -> None:
    layout = DataSetLayout(
        PublisherId(PublisherIdType.BYTE, 7), 1, 2, (("a", BuiltinType.DOUBLE),), FieldEncoding.DATA_VALUE
    )
    field = DataValue(Variant(BuiltinType.DOUBLE, 1.5), OVERFLOW)
    body = DataSetMessage(encoding=FieldEncoding.DATA_VALUE, fields=(field,), sequence=1, timestamp=10**17)
    group = GroupHeader(writer_group_id=1)
    sample = LayoutReader(layout).read(encode(NetworkMessage(layout.publisher, None, group, (2,), messages=(body,))))
    assert (sample.values, sample.good, sample.field_status) == ((1.5,), True, (OVERFLOW,))
