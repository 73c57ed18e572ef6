"""Deterministic CBOR: one encoding for each value, one value for each encoding, one error for the rest."""

from __future__ import annotations

import cbor2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attest import cbor
from attest.cbor import CborError, Fields, dumps, loads

keys = st.integers(-(2**64), 2**64 - 1) | st.text(max_size=8) | st.binary(max_size=8)
values = st.recursive(
    st.none() | st.booleans() | keys,
    lambda inner: st.lists(inner, max_size=5).map(tuple) | st.dictionaries(keys, inner, max_size=5),
    max_leaves=20,
)


@given(values)
def test_reads_what_it_writes(value: cbor.CborValue) -> None:
    assert loads(dumps(value)) == value


@given(values)
def test_another_library_reads_the_same(value: cbor.CborValue) -> None:
    assert cbor2.loads(dumps(value)) == _lists(value)


@given(st.binary(max_size=200))
def test_accepted_bytes_are_the_only_encoding(data: bytes) -> None:
    try:
        value = loads(data)
    except CborError:
        return
    assert dumps(value) == data


@given(values, st.data())
def test_mutations_stay_canonical_or_are_refused(value: cbor.CborValue, data: st.DataObject) -> None:
    encoded = bytearray(dumps(value))
    encoded[data.draw(st.integers(0, len(encoded) - 1))] = data.draw(st.integers(0, 255))
    try:
        decoded = loads(bytes(encoded))
    except CborError:
        return
    assert dumps(decoded) == bytes(encoded)


def test_keys_are_ordered_bytewise_not_by_length() -> None:
    # RFC 8949 §4.2.1 orders 24 (18 18) before -1 (20); the older RFC 7049 rule would not.
    assert dumps({-1: 0, 24: 0, "a": 0, b"a": 0}) == bytes.fromhex("a4 1818 00 20 00 4161 00 6161 00")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0, "00"),
        (23, "17"),
        (24, "1818"),
        (255, "18ff"),
        (256, "190100"),
        (65535, "19ffff"),
        (65536, "1a00010000"),
        (2**32 - 1, "1affffffff"),
        (2**32, "1b0000000100000000"),
        (2**64 - 1, "1bffffffffffffffff"),
        (-1, "20"),
        (-(2**64), "3bffffffffffffffff"),
        (b"", "40"),
        ("ü", "62c3bc"),
        ([], "80"),
        ({}, "a0"),
        (True, "f5"),
        (None, "f6"),
    ],
)
def test_known_encodings(value: object, expected: str) -> None:
    assert dumps(value).hex() == expected


REFUSED = {
    "empty": ("", "cbor-truncated"),
    "truncated-head": ("18", "cbor-truncated"),
    "truncated-bytes": ("4161"[:2], "cbor-truncated"),
    "truncated-array": ("8201", "cbor-truncated"),
    "huge-array": ("9bffffffffffffffff", "cbor-truncated"),
    "huge-map": ("bbffffffffffffffff", "cbor-truncated"),
    "huge-bytes": ("5bffffffffffffffff", "cbor-truncated"),
    "trailing": ("0000", "cbor-trailing"),
    "long-form-1": ("1817", "cbor-not-canonical"),
    "long-form-2": ("1900ff", "cbor-not-canonical"),
    "long-form-4": ("1a0000ffff", "cbor-not-canonical"),
    "long-form-8": ("1b00000000ffffffff", "cbor-not-canonical"),
    "indefinite-bytes": ("5f4101ff", "cbor-not-canonical"),
    "indefinite-array": ("9f01ff", "cbor-not-canonical"),
    "reserved-info": ("1c", "cbor-not-canonical"),
    "key-order": ("a201000000", "cbor-key-order"),
    "duplicate-key": ("a200000000", "cbor-duplicate-key"),
    "key-null": ("a1f600", "cbor-type"),
    "key-boolean": ("a1f500", "cbor-type"),
    "key-array": ("a18000", "cbor-type"),
    "tag": ("c000", "cbor-type"),
    "bignum": ("c249010000000000000000", "cbor-type"),
    "half-float": ("f93c00", "cbor-type"),
    "double-float": ("fb3ff0000000000000", "cbor-type"),
    "undefined": ("f7", "cbor-type"),
    "break": ("ff", "cbor-type"),
    "bad-utf8": ("61ff", "cbor-text"),
    "surrogate": ("63eda080", "cbor-text"),
    "nesting": ("81" * 13 + "00", "cbor-limit"),
}


@pytest.mark.parametrize("rule", REFUSED)
def test_refused_by_rule(rule: str) -> None:
    text, code = REFUSED[rule]
    with pytest.raises(CborError) as caught:
        loads(bytes.fromhex(text))
    assert caught.value.code == code


def test_limits() -> None:
    with pytest.raises(CborError):
        loads(bytes(10), max_bytes=9)
    with pytest.raises(CborError):
        loads(dumps([0] * 10), max_items=10)
    assert loads(dumps([0] * 9), max_items=10) == (0,) * 9


@pytest.mark.parametrize("value", [1.5, 2**64, -(2**64) - 1, {1.5: 0}, {True: 0}, {None: 0}, "\ud800", object()])
def test_values_outside_the_profile_are_not_encoded(value: object) -> None:
    with pytest.raises(CborError):
        dumps(value)


def test_deep_values_are_not_encoded() -> None:
    value: list[object] = []
    for _ in range(20):
        value = [value]
    with pytest.raises(CborError) as caught:
        dumps(value)
    assert caught.value.code == "cbor-limit"


def test_fields_take_what_fits() -> None:
    fields = Fields({1: 5, 2: b"ab", 3: "x", 4: True, 5: (1, 2), 6: {1: 2}, 7: None, 8: (1, -1)}, "object")
    assert fields.has(1)
    assert fields.integer(1) == 5
    assert not fields.has(1)
    assert fields.octets(2, size=2) == b"ab"
    assert fields.text(3, choices=("x", "y")) == "x"
    assert fields.boolean(4)
    assert fields.array(5) == (1, 2)
    assert fields.map(6).integer(1) == 2
    assert fields.take(7) is None
    assert fields.integers(8, low=-1, high=1, count_max=2) == (1, -1)
    fields.done()


@pytest.mark.parametrize(
    "read",
    [
        lambda f: f.take(9),
        lambda f: f.integer(2),
        lambda f: f.integer(4),
        lambda f: f.integer(1, low=6),
        lambda f: f.integer(1, high=4),
        lambda f: f.octets(1),
        lambda f: f.octets(2, size=3),
        lambda f: f.octets(2, high=1),
        lambda f: f.text(1),
        lambda f: f.text(3, high=0),
        lambda f: f.text(3, choices=("y",)),
        lambda f: f.boolean(1),
        lambda f: f.array(1),
        lambda f: f.array(5, low=3),
        lambda f: f.map(1),
        lambda f: f.integers(5, low=0, high=1, count_max=2),
        lambda f: f.integers(5, low=0, high=9, count_max=1),
        lambda f: f.integers(6, low=0, high=9, count_max=1),
        lambda f: f.done(),
    ],
)
def test_fields_refuse_the_rest(read: object) -> None:
    fields = Fields({1: 5, 2: b"ab", 3: "x", 4: True, 5: (1, 2), 6: (True,)}, "object")
    assert callable(read)
    with pytest.raises(CborError) as caught:
        read(fields)
    assert caught.value.code == "cbor-field"


def test_fields_need_a_map() -> None:
    with pytest.raises(CborError):
        Fields((1,), "object")


def _lists(value: object) -> object:
    if isinstance(value, tuple):
        return [_lists(item) for item in value]
    if isinstance(value, dict):
        return {key: _lists(item) for key, item in value.items()}
    return value
