"""RawData by metadata: recorded frames, exact bytes of every layout rule, refusals, and decode ∘ encode = id."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fieldbus.uadp import (
    BuiltinType,
    DataSetMessage,
    ExtensionObject,
    FieldEncoding,
    MessageKind,
    NodeId,
    RawLayout,
    RawMatrix,
    StructureTypes,
    UadpError,
    decode,
)
from fieldbus.uadp.limits import RAW_DEPTH_MAX
from fieldbus.uadp.metadata import (
    OPTIONAL_FIELDS,
    STRUCTURE,
    UNION,
    DataSetMetaData,
    EnumDescription,
    FieldMetaData,
    SimpleTypeDescription,
    StructureDefinition,
    StructureDescription,
    StructureField,
)
from tests.fieldbus.uadp.strategies import FIXED, PATIENT, scalars

B = BuiltinType
POINT, TUNED, EITHER, MODE, METRE = (NodeId(1, number) for number in range(5))


def builtin(kind: BuiltinType) -> NodeId:
    return NodeId(0, int(kind))


def field(
    name: str, kind: BuiltinType, *, rank: int = -1, dimensions: tuple[int, ...] = (), length: int = 0
) -> FieldMetaData:
    return FieldMetaData(
        name,
        builtin_type=kind,
        data_type=builtin(kind),
        value_rank=rank,
        array_dimensions=dimensions,
        max_string_length=length,
    )


def typed(name: str, data_type: NodeId, *, rank: int = -1, dimensions: tuple[int, ...] = ()) -> FieldMetaData:
    return FieldMetaData(
        name, builtin_type=B.EXTENSIONOBJECT, data_type=data_type, value_rank=rank, array_dimensions=dimensions
    )


def member(name: str, kind: BuiltinType, *, optional: bool = False, length: int = 0) -> StructureField:
    return StructureField(name, data_type=builtin(kind), max_string_length=length, is_optional=optional)


def described(data_type: NodeId, kind: int, *fields: StructureField) -> StructureDescription:
    return StructureDescription(data_type, definition=StructureDefinition(structure_type=kind, fields=fields))


STRUCTURES = (
    described(POINT, STRUCTURE, member("x", B.INT16), member("y", B.INT16)),
    described(
        TUNED, OPTIONAL_FIELDS, member("gain", B.FLOAT), member("bias", B.INT16, optional=True), member("on", B.BYTE)
    ),
    described(EITHER, UNION, member("count", B.UINT32), member("flag", B.BOOLEAN)),
)


def layout(*fields: FieldMetaData, structures: tuple[StructureDescription, ...] = STRUCTURES) -> RawLayout:
    return RawLayout(
        DataSetMetaData(
            fields=fields,
            structures=structures,
            enums=(EnumDescription(MODE, builtin_type=B.INT32),),
            simple_types=(SimpleTypeDescription(METRE, builtin_type=B.DOUBLE),),
        )
    )


RECORDED: dict[str, tuple[FieldMetaData, ...]] = {
    "raw_scalar": (
        field("b", B.BOOLEAN),
        field("i", B.INT32),
        field("l", B.INT64),
        field("f", B.FLOAT),
        field("d", B.DOUBLE),
    ),
    "raw_array": (field("d", B.DOUBLE), field("a", B.DOUBLE, rank=1, dimensions=(4,))),
    "raw_string": (field("d", B.DOUBLE), field("s", B.STRING, length=16)),
    "fixed_csize": (field("i", B.INT32), field("d", B.DOUBLE)),
    "eth_raw_tsn": (field("t", B.INT64), *(field(f"d{n}", B.DOUBLE) for n in range(4))),
}


def test_recorded_raw_frames_decode_and_encode_to_the_same_bytes(fixtures_dir: Path) -> None:
    seen: dict[str, list[Any]] = {}
    for line in (fixtures_dir / "uadp" / "frames.jsonl").read_text().splitlines():
        frame = json.loads(line)
        if frame["label"] in RECORDED:
            (message,) = decode(bytes.fromhex(frame["uadp"])).messages
            assert message.raw is not None
            codec = layout(*RECORDED[frame["label"]])
            values = codec.decode(message.raw)
            assert codec.encode(values) == message.raw
            assert codec.read(message) == dict(enumerate(values))
            seen.setdefault(frame["label"], []).append(values)
    assert set(seen) == set(RECORDED)
    assert seen["raw_scalar"][0] == (False, 1002, 2**40 + 2, 3.5, 22.25)
    assert seen["raw_array"][0] == (22.25, (1.0, 2.0, 3.0, 6.0))
    assert seen["raw_string"][0] == (22.25, "state-2")
    assert seen["fixed_csize"][0] == (1002, 22.25)


BYTES: dict[str, tuple[FieldMetaData, Any, str]] = {
    "string": (field("s", B.STRING), "ab", "02000000 6162"),
    "string-null": (field("s", B.STRING), None, "ffffffff"),
    "string-padded": (field("s", B.STRING, length=4), "ab", "02000000 6162 0000"),
    "string-full": (field("s", B.STRING, length=2), "ab", "02000000 6162"),
    "string-null-padded": (field("s", B.BYTESTRING, length=2), None, "ffffffff 0000"),
    "array": (field("a", B.BYTE, rank=1), (1, 2), "02000000 0102"),
    "array-null": (field("a", B.BYTE, rank=1), None, "ffffffff"),
    "array-padded": (field("a", B.INT16, rank=1, dimensions=(3,)), (1,), "01000000 0100 00000000"),
    "array-of-padded-strings": (
        field("a", B.STRING, rank=1, dimensions=(2,), length=2),
        ("a",),
        "01000000 01000000 6100 000000000000",
    ),
    "array-unknown-maximum": (field("a", B.BYTE, rank=1, dimensions=(0,)), (7,), "01000000 07"),
    "matrix": (
        field("m", B.BYTE, rank=2, dimensions=(1, 2)),
        RawMatrix((1, 2), (7, 8)),
        "02000000 01000000 02000000 0708",
    ),
    "matrix-unknown-maximum": (field("m", B.BYTE, rank=2), RawMatrix((0, 2), ()), "02000000 00000000 02000000"),
    "structure": (typed("p", POINT), {"x": 1, "y": -1}, "0100 ffff"),
    "array-of-structures": (
        typed("p", POINT, rank=1, dimensions=(2,)),
        ({"x": 1, "y": 2},),
        "01000000 01000200 00000000",
    ),
    "optional-present": (typed("t", TUNED), {"gain": 0.5, "bias": 3, "on": 1}, "01000000 0000003f 0300 01"),
    "optional-absent": (typed("t", TUNED), {"gain": 0.5, "bias": None, "on": 1}, "00000000 0000003f 0000 01"),
    "union-none": (typed("u", EITHER), {}, "00000000 00000000"),
    "union-large": (typed("u", EITHER), {"count": 5}, "01000000 05000000"),
    "union-small-padded": (typed("u", EITHER), {"flag": True}, "02000000 01 000000"),
    "enumeration": (FieldMetaData("e", builtin_type=B.INT32, data_type=MODE), 2, "02000000"),
    "simple-type": (FieldMetaData("e", builtin_type=B.DOUBLE, data_type=METRE), 0.0, "0000000000000000"),
    "guid-size": (field("g", B.LOCALIZEDTEXT, rank=1), (), "00000000"),
}


@pytest.mark.parametrize("name", BYTES)
def test_bytes_of_every_layout_rule(name: str) -> None:
    described_field, value, expected = BYTES[name]
    codec = layout(described_field, field("end", B.BYTE))
    raw = bytes.fromhex(expected) + b"\x2a"
    assert codec.encode((value, 42)) == raw
    assert codec.decode(raw) == (value, 42)
    assert codec.decode(raw + bytes(3)) == (value, 42)  # padding up to a ConfiguredSize
    assert codec.size in (None, len(raw))
    assert codec.encode_delta({1: 42, 0: value}) == bytes.fromhex("0200 0100 2a 0000" + expected)
    assert codec.decode_delta(codec.encode_delta({0: value})) == {0: value}


UNREADABLE: dict[str, tuple[str, FieldMetaData, str]] = {
    "truncated": ("truncated", field("i", B.INT32), "000000"),
    "trailing": ("trailing-bytes", field("i", B.BYTE), "0001"),
    "string-padding": ("raw-padding", field("s", B.STRING, length=3), "01000000 61 0001"),
    "string-longer-than-declared": ("truncated", field("s", B.STRING, length=1), "02000000 6162"),
    "array-padding": ("raw-padding", field("a", B.BYTE, rank=1, dimensions=(2,)), "01000000 0101"),
    "array-longer-than-declared": ("array-too-long", field("a", B.BYTE, rank=1, dimensions=(1,)), "02000000 0101"),
    "array-minus-2": ("array-too-long", field("a", B.BYTE, rank=1), "feffffff"),
    "matrix-rank": ("array-dimensions", field("m", B.BYTE, rank=2), "01000000 01000000 07"),
    "matrix-dimensions": (
        "array-dimensions",
        field("m", B.BYTE, rank=2, dimensions=(1, 2)),
        "02000000 02000000 01000000 0708",
    ),
    "matrix-negative": ("array-dimensions", field("m", B.BYTE, rank=2), "02000000 ffffffff ffffffff 07"),
    "encoding-mask": ("encoding-mask", typed("t", TUNED), "02000000 00000000 0000 00"),
    "absent-field-not-zero": ("raw-padding", typed("t", TUNED), "00000000 00000000 0100 00"),
    "union-switch": ("union-switch", typed("u", EITHER), "03000000 00000000"),
    "union-padding": ("raw-padding", typed("u", EITHER), "02000000 01 000001"),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_bytes_against_the_metadata_are_refused(name: str) -> None:
    code, described_field, raw = UNREADABLE[name]
    with pytest.raises(UadpError) as caught:
        layout(described_field).decode(bytes.fromhex(raw))
    assert caught.value.code == code


def chain(length: int) -> tuple[StructureDescription, ...]:
    """Structure k holds structure k - 1."""
    inner = [described(NodeId(9, 0), STRUCTURE, member("x", B.BYTE))]
    links = [StructureField("in", data_type=NodeId(9, number)) for number in range(length - 1)]
    return (*inner, *[described(NodeId(9, n + 1), STRUCTURE, link) for n, link in enumerate(links)])


LOOP = (described(POINT, STRUCTURE, StructureField("again", data_type=POINT)),)
HUGE = described(
    POINT, STRUCTURE, StructureField("a", data_type=builtin(B.DOUBLE), value_rank=1, array_dimensions=(8_192,))
)
OPEN_LAYOUTS: dict[str, tuple[tuple[FieldMetaData, ...], tuple[StructureDescription, ...]]] = {
    "no-field": ((), STRUCTURES),
    "null-type": ((field("n", B.NULL),), STRUCTURES),
    "unknown-type": ((typed("t", NodeId(7, 7)),), STRUCTURES),
    "unknown-member": (
        (typed("t", POINT),),
        (described(POINT, STRUCTURE, StructureField("m", data_type=NodeId(7, 7))),),
    ),
    "any-rank": ((field("a", B.BYTE, rank=-2),), STRUCTURES),
    "rank-0": ((field("a", B.BYTE, rank=0),), STRUCTURES),
    "dimensions-of-another-rank": ((field("a", B.BYTE, rank=1, dimensions=(1, 2)),), STRUCTURES),
    "array-of-variable-elements-with-maximum": ((field("a", B.STRING, rank=1, dimensions=(2,)),), STRUCTURES),
    "matrix-of-variable-elements-with-maxima": ((field("a", B.STRING, rank=2, dimensions=(2, 2)),), STRUCTURES),
    "array-maximum": ((field("a", B.BYTE, rank=1, dimensions=(8_193,)),), STRUCTURES),
    "text-maximum": ((field("s", B.STRING, length=2**31),), STRUCTURES),
    "empty-structure": ((typed("t", POINT),), (described(POINT, STRUCTURE),)),
    "same-name-twice": ((typed("t", POINT),), (described(POINT, STRUCTURE, member("x", B.BYTE), member("x", B.BYTE)),)),
    "inside-itself": ((typed("t", POINT),), LOOP),
    "too-deep": ((typed("t", NodeId(9, RAW_DEPTH_MAX)),), chain(RAW_DEPTH_MAX + 1)),
    "too-deep-built-from-below": (
        tuple(typed(f"t{number}", NodeId(9, number)) for number in range(RAW_DEPTH_MAX + 1)),
        chain(RAW_DEPTH_MAX + 1),
    ),
    "too-large": ((typed("t", POINT, rank=1, dimensions=(8_192,)),), (HUGE,)),
    "optional-of-variable-size": (
        (typed("t", POINT),),
        (described(POINT, OPTIONAL_FIELDS, member("s", B.STRING, optional=True)),),
    ),
    "union-of-variable-size": ((typed("t", POINT),), (described(POINT, UNION, member("s", B.STRING)),)),
    "subtyped-values": ((typed("t", POINT),), (described(POINT, 3, member("x", B.BYTE)),)),
}


@pytest.mark.parametrize("name", OPEN_LAYOUTS)
def test_a_layout_that_is_not_told_is_refused_not_guessed(name: str) -> None:
    fields, structures = OPEN_LAYOUTS[name]
    with pytest.raises(UadpError) as caught:
        layout(*fields, structures=structures)
    assert caught.value.code == "raw-layout"


def test_the_deepest_structure_is_read() -> None:
    codec = layout(typed("t", NodeId(9, RAW_DEPTH_MAX - 1)), structures=chain(RAW_DEPTH_MAX))
    value: Any = {"x": 7}
    for _ in range(RAW_DEPTH_MAX - 1):
        value = {"in": value}
    assert codec.decode(b"\x07") == (value,)
    assert codec.encode((value,)) == b"\x07"


UNWRITABLE: dict[str, tuple[str, FieldMetaData, Any]] = {
    "string-too-long": ("too-long", field("s", B.STRING, length=2), "abc"),
    "array-too-long": ("value-range", field("a", B.BYTE, rank=1, dimensions=(1,)), (1, 2)),
    "scalar-for-array": ("value-type", field("a", B.BYTE, rank=1), 1),
    "array-for-scalar": ("value-type", field("a", B.BYTE), (1,)),
    "matrix-short": ("value-type", field("m", B.BYTE, rank=2), RawMatrix((1, 2), (1,))),
    "matrix-dimensions": ("array-dimensions", field("m", B.BYTE, rank=2, dimensions=(1, 2)), RawMatrix((2, 1), (1, 2))),
    "structure-missing-member": ("value-type", typed("p", POINT), {"x": 1}),
    "structure-other-member": ("value-type", typed("p", POINT), {"x": 1, "y": 2, "z": 3}),
    "union-two": ("value-type", typed("u", EITHER), {"count": 1, "flag": True}),
    "union-other": ("value-type", typed("u", EITHER), {"other": 1}),
    "range": ("value-range", field("b", B.BYTE), 256),
}


@pytest.mark.parametrize("name", UNWRITABLE)
def test_values_against_the_metadata_are_refused(name: str) -> None:
    code, described_field, value = UNWRITABLE[name]
    with pytest.raises(UadpError) as caught:
        layout(described_field).encode((value,))
    assert caught.value.code == code


def test_deltas_and_other_messages() -> None:
    codec = layout(field("a", B.BYTE), field("b", B.BYTE))
    message = DataSetMessage(MessageKind.DELTA_FRAME, FieldEncoding.RAW, raw=bytes.fromhex("0100 0100 07"))
    assert codec.read(message) == {1: 7}
    for code, raw in (("field-index", "0100 0200 07"), ("delta-duplicate-index", "0200 0100 07 0100 08")):
        with pytest.raises(UadpError) as caught:
            codec.decode_delta(bytes.fromhex(raw))
        assert caught.value.code == code
    with pytest.raises(UadpError, match="field-index"):
        codec.encode_delta({2: 7})
    with pytest.raises(UadpError, match="raw-message"):
        codec.read(DataSetMessage())
    with pytest.raises(UadpError, match="field-count"):
        codec.encode((1,))


PLAIN: dict[str, tuple[NodeId, Any, str]] = {
    "structure": (POINT, {"x": 1, "y": -1}, "0100 ffff"),
    "optional-present": (TUNED, {"gain": 0.5, "bias": 3, "on": 1}, "01000000 0000003f 0300 01"),
    "optional-absent": (TUNED, {"gain": 0.5, "bias": None, "on": 1}, "00000000 0000003f 01"),
    "union-none": (EITHER, {}, "00000000"),
    "union-large": (EITHER, {"count": 5}, "01000000 05000000"),
    "union-small": (EITHER, {"flag": True}, "02000000 01"),
    "text-and-arrays": (
        NodeId(1, 9),
        {"s": "a", "a": (1,), "m": RawMatrix((1, 1), (2,)), "p": {"x": 1, "y": 2}},
        "01000000 61 01000000 01 02000000 01000000 01000000 02 01000200",
    ),
}


def types() -> StructureTypes:
    """Every described structure under a DefaultBinary NodeId in namespace 2; their limits do not pad them here."""
    mixed = described(
        NodeId(1, 9),
        STRUCTURE,
        member("s", B.STRING, length=8),
        StructureField("a", data_type=builtin(B.BYTE), value_rank=1, array_dimensions=(4,)),
        StructureField("m", data_type=builtin(B.BYTE), value_rank=2, array_dimensions=(2, 2)),
        StructureField("p", data_type=POINT),
    )
    structures = [
        dataclasses.replace(
            item, definition=dataclasses.replace(item.definition, default_encoding_id=encoding(item.data_type_id))
        )
        for item in (*STRUCTURES, mixed)
    ]
    return StructureTypes(DataSetMetaData(structures=tuple(structures)))


def encoding(data_type: NodeId) -> NodeId:
    return NodeId(2, data_type.identifier)


@pytest.mark.parametrize("name", PLAIN)
def test_structures_in_variants_are_opened_and_made(name: str) -> None:
    data_type, value, expected = PLAIN[name]
    held = ExtensionObject(encoding(data_type), bytes.fromhex(expected))
    assert types().make(encoding(data_type), value) == held
    assert types().open(held) == value
    for body in (held.body + b"\x00" if held.body else b"", (held.body or b"")[:-1]):
        with pytest.raises(UadpError):
            types().open(dataclasses.replace(held, body=body))


@pytest.mark.parametrize(
    "held",
    [
        ExtensionObject(NodeId(2, 77), b""),
        ExtensionObject(encoding(POINT)),
        ExtensionObject(encoding(POINT), b"<x/>", xml=True),
    ],
)
def test_an_unknown_structure_is_refused(held: ExtensionObject) -> None:
    with pytest.raises(UadpError, match="structure-unknown"):
        types().open(held)
    with pytest.raises(UadpError, match="structure-unknown"):
        types().make(NodeId(2, 77), {})


@st.composite
def fields_and_values(draw: st.DrawFn) -> tuple[FieldMetaData, Any]:
    kind = draw(st.sampled_from([*FIXED, B.GUID, B.STRING, B.BYTESTRING, B.NODEID, B.LOCALIZEDTEXT]))
    length = draw(st.sampled_from([0, 80])) if kind in (B.STRING, B.BYTESTRING) else 0
    fixed = kind in (*FIXED, B.GUID) or length > 0
    one = scalars(kind)
    shape = draw(st.sampled_from(["scalar", "array", "matrix"]))
    if shape == "scalar":
        return field("f", kind, length=length), draw(one)
    if shape == "array":
        maximum = draw(st.sampled_from([(), (0,), (4,)] if fixed else [(), (0,)]))
        value = draw(st.none() | st.lists(one, max_size=4).map(tuple))
        return field("f", kind, rank=1, dimensions=maximum, length=length), value
    rows, columns = draw(st.integers(0, 2)), draw(st.integers(0, 2))
    elements = draw(st.lists(one, min_size=rows * columns, max_size=rows * columns))
    dimensions = (rows, columns) if fixed and rows and columns and draw(st.booleans()) else ()
    return field("f", kind, rank=2, dimensions=dimensions, length=length), RawMatrix((rows, columns), tuple(elements))


@settings(max_examples=150, **PATIENT)
@given(st.lists(fields_and_values(), min_size=1, max_size=4), st.binary(max_size=60))
def test_decode_inverts_encode_and_any_bytes_are_judged(rows: list[tuple[FieldMetaData, Any]], noise: bytes) -> None:
    codec = layout(*[item for item, _ in rows])
    values = tuple(value for _, value in rows)
    raw = codec.encode(values)
    assert codec.decode(raw) == values
    assert codec.size in (None, len(raw))
    for data in (noise, raw[: len(noise)], noise[: len(raw)] + raw[len(noise) :]):
        with contextlib.suppress(UadpError):
            assert codec.decode(codec.encode(codec.decode(data))) is not None
