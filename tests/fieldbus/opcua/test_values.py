"""Values between Python and Variants: what fits, what does not, and what the server's answers become."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from asyncua import ua
from hypothesis import given
from hypothesis import strategies as st

from fieldbus.opcua import OpcUaError
from fieldbus.opcua.failures import status_error
from fieldbus.opcua.values import from_data_value, to_variant, variant_type_of

NOON = dt.datetime(2026, 11, 29, 12, tzinfo=dt.UTC)
RANGES = {
    ua.VariantType.SByte: (-(2**7), 2**7 - 1),
    ua.VariantType.Byte: (0, 2**8 - 1),
    ua.VariantType.Int16: (-(2**15), 2**15 - 1),
    ua.VariantType.UInt16: (0, 2**16 - 1),
    ua.VariantType.Int32: (-(2**31), 2**31 - 1),
    ua.VariantType.UInt32: (0, 2**32 - 1),
    ua.VariantType.Int64: (-(2**63), 2**63 - 1),
    ua.VariantType.UInt64: (0, 2**64 - 1),
}


@pytest.mark.parametrize("kind", RANGES, ids=lambda kind: kind.name)
def test_integer_limits_are_exact(kind: Any) -> None:
    low, high = RANGES[kind]
    for value in (low, high):
        assert to_variant("t", value, kind) == ua.Variant(value, kind)
    for value in (low - 1, high + 1):
        with pytest.raises(OpcUaError, match="value-range"):
            to_variant("t", value, kind)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (ua.VariantType.Boolean, False),
        (ua.VariantType.String, "coil 7"),
        (ua.VariantType.ByteString, b"\x00"),
        (ua.VariantType.DateTime, NOON),
        (ua.VariantType.Float, 1.5),
        (ua.VariantType.Double, 1e300),
    ],
    ids=lambda item: getattr(item, "name", None),
)
def test_each_type_takes_its_own_values_only(kind: Any, value: Any) -> None:
    assert to_variant("t", value, kind) == ua.Variant(value, kind)
    others = [item for item in (False, "x", b"x", NOON, 1.5, None) if type(item) is not type(value)]
    for other in others:
        with pytest.raises(OpcUaError, match="value-type"):
            to_variant("t", other, kind)


def test_a_double_too_large_for_a_float_is_refused() -> None:
    with pytest.raises(OpcUaError, match="value-range"):
        to_variant("t", 3.5e38, ua.VariantType.Float)


@given(st.integers(-(2**31), 2**31 - 1))
def test_an_integer_is_a_fine_double(value: int) -> None:
    assert to_variant("t", value, ua.VariantType.Double).Value == float(value)


def test_data_types_of_plain_scalars_are_known_and_others_are_not() -> None:
    assert variant_type_of(ua.NodeId(11)) == ua.VariantType.Double
    assert variant_type_of(ua.NodeId(290)) == ua.VariantType.Double
    assert variant_type_of(ua.NodeId(294)) == ua.VariantType.DateTime
    for other in (ua.NodeId(22), ua.NodeId(11, 2), None):
        assert variant_type_of(other) is None
    with pytest.raises(OpcUaError, match="value-type"):
        to_variant("t", 1.0, None)


def test_an_answer_keeps_quality_and_times() -> None:
    naive = NOON.replace(tzinfo=None, microsecond=7)
    value = ua.DataValue(
        ua.Variant(1.5, ua.VariantType.Double),
        StatusCode=ua.StatusCode(0x40000000),
        SourceTimestamp=naive,
        ServerTimestamp=NOON,
        SourcePicoseconds=9_999,  # ignored on purpose: below what any clock here can tell
    )
    result = from_data_value("t", value)
    assert (result.value, result.status, result.good) == (1.5, 0x40000000, False)
    noon_ns = int(NOON.timestamp()) * 10**9
    assert (result.t_source_ns, result.t_server_ns) == (noon_ns + 7_000, noon_ns)


@pytest.mark.parametrize("value", [None, [1.0, 2.0], ua.NodeId(1)])
def test_an_answer_that_is_no_scalar_is_bad(value: Any) -> None:
    result = from_data_value("t", ua.DataValue(ua.Variant(value)))
    assert (result.value, result.status, result.good) == (None, ua.StatusCodes.BadTypeMismatch, False)


def test_status_codes_have_names_and_unknown_ones_their_number() -> None:
    assert status_error(ua.StatusCodes.BadNodeIdUnknown, doing="x").code == "node-missing"
    assert status_error(ua.StatusCodes.BadSensorFailure, doing="x").code == "status-0x808c0000"


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_an_answer_that_is_no_number_is_bad_whatever_the_server_says_of_it(value: float) -> None:
    result = from_data_value("t", ua.DataValue(ua.Variant(value, ua.VariantType.Double)))
    assert (result.value, result.status) == (None, ua.StatusCodes.BadOutOfRange)


def test_a_text_that_is_longer_than_any_process_value_is_bad() -> None:
    for value in ("x" * 65_536, b"x" * 65_536):
        assert from_data_value("t", ua.DataValue(ua.Variant(value))).value == value
        longer = from_data_value("t", ua.DataValue(ua.Variant(value + value[:1])))
        assert (longer.value, longer.status) == (None, ua.StatusCodes.BadEncodingLimitsExceeded)
