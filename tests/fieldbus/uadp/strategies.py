"""Hypothesis strategies for UADP messages: every optional part present and absent, every supported type."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from fieldbus.uadp import (
    BuiltinType,
    DataSetLayout,
    DataSetMessage,
    DataValue,
    FieldEncoding,
    GroupHeader,
    MessageKind,
    NetworkMessage,
    PublisherId,
    PublisherIdType,
    Variant,
)

INT_RANGES = {
    BuiltinType.SBYTE: (-(2**7), 2**7 - 1),
    BuiltinType.BYTE: (0, 2**8 - 1),
    BuiltinType.INT16: (-(2**15), 2**15 - 1),
    BuiltinType.UINT16: (0, 2**16 - 1),
    BuiltinType.INT32: (-(2**31), 2**31 - 1),
    BuiltinType.UINT32: (0, 2**32 - 1),
    BuiltinType.INT64: (-(2**63), 2**63 - 1),
    BuiltinType.UINT64: (0, 2**64 - 1),
    BuiltinType.DATETIME: (-(2**63), 2**63 - 1),
    BuiltinType.STATUSCODE: (0, 2**32 - 1),
}
TYPED = [kind for kind in BuiltinType if kind is not BuiltinType.NULL]
FIXED = [kind for kind in TYPED if kind not in (BuiltinType.STRING, BuiltinType.BYTESTRING, BuiltinType.GUID)]


def scalars(kind: BuiltinType) -> st.SearchStrategy[Any]:
    if kind in INT_RANGES:
        low, high = INT_RANGES[kind]
        return st.integers(low, high)
    if kind is BuiltinType.BOOLEAN:
        return st.booleans()
    if kind is BuiltinType.FLOAT:
        return st.floats(width=32, allow_nan=False)
    if kind is BuiltinType.DOUBLE:
        return st.floats(allow_nan=False)
    if kind is BuiltinType.STRING:
        return st.none() | st.text(max_size=20)
    if kind is BuiltinType.BYTESTRING:
        return st.none() | st.binary(max_size=20)
    return st.uuids()


@st.composite
def variants(draw: st.DrawFn) -> Variant:
    kind = draw(st.sampled_from(list(BuiltinType)))
    if kind is BuiltinType.NULL:
        return Variant(kind, None)
    if draw(st.booleans()):
        return Variant(kind, draw(scalars(kind)))
    return Variant(kind, draw(st.none() | st.lists(scalars(kind), max_size=4).map(tuple)), array=True)


ticks = st.integers(-(2**63), 2**63 - 1)
picoseconds = st.integers(0, 9_999)
u8, u16, u32 = st.integers(0, 0xFF), st.integers(0, 0xFFFF), st.integers(0, 0xFFFF_FFFF)


@st.composite
def data_values(draw: st.DrawFn) -> DataValue:
    source, server = draw(st.none() | ticks), draw(st.none() | ticks)
    return DataValue(
        draw(st.none() | variants()),
        draw(st.none() | u32),
        source,
        draw(st.none() | picoseconds) if source is not None else None,
        server,
        draw(st.none() | picoseconds) if server is not None else None,
    )


@st.composite
def data_set_messages(draw: st.DrawFn) -> DataSetMessage:
    kind = draw(st.sampled_from([MessageKind.KEY_FRAME, MessageKind.DELTA_FRAME, MessageKind.KEEP_ALIVE]))
    encoding = draw(st.sampled_from(list(FieldEncoding)))
    timestamp = draw(st.none() | ticks)
    fields: tuple[Any, ...] = ()
    indices, raw = None, None
    if kind is not MessageKind.KEEP_ALIVE:
        if encoding is FieldEncoding.RAW:
            raw = draw(st.binary(max_size=30))
        else:
            strategy = variants() if encoding is FieldEncoding.VARIANT else data_values()
            fields = tuple(draw(st.lists(strategy, max_size=4)))
            if kind is MessageKind.DELTA_FRAME:
                numbers = st.lists(u16, min_size=len(fields), max_size=len(fields), unique=True)
                indices = tuple(draw(numbers))
    return DataSetMessage(
        kind,
        encoding,
        fields,
        indices,
        raw,
        draw(st.none() | u16),
        timestamp,
        draw(st.none() | picoseconds) if timestamp is not None else None,
        draw(st.none() | u16),
        draw(st.none() | u32),
        draw(st.none() | u32),
    )


invalid_messages = st.binary(max_size=10).map(lambda rest: DataSetMessage(raw=bytes([0x00]) + rest, valid=False))

publishers = st.one_of(
    u8.map(lambda n: PublisherId(PublisherIdType.BYTE, n)),
    u16.map(lambda n: PublisherId(PublisherIdType.UINT16, n)),
    u32.map(lambda n: PublisherId(PublisherIdType.UINT32, n)),
    st.integers(0, 2**64 - 1).map(lambda n: PublisherId(PublisherIdType.UINT64, n)),
    st.text(min_size=1, max_size=10).map(lambda t: PublisherId(PublisherIdType.STRING, t)),
)
groups = st.builds(GroupHeader, st.none() | u16, st.none() | u32, st.none() | u16, st.none() | u16)


@st.composite
def network_messages(draw: st.DrawFn) -> NetworkMessage:
    messages = tuple(draw(st.lists(data_set_messages() | invalid_messages, min_size=1, max_size=3)))
    ids = tuple(draw(st.lists(u16, min_size=len(messages), max_size=len(messages))))
    timestamp = draw(st.none() | ticks)
    return NetworkMessage(
        draw(st.none() | publishers),
        draw(st.none() | st.uuids()),
        draw(st.none() | groups),
        ids if len(messages) > 1 or draw(st.booleans()) else None,
        timestamp,
        draw(st.none() | picoseconds) if timestamp is not None else None,
        draw(st.none() | st.lists(variants(), max_size=3).map(tuple)),
        messages,
    )


@st.composite
def fixed_layouts(draw: st.DrawFn) -> DataSetLayout:
    kinds = draw(st.lists(st.sampled_from(FIXED), min_size=1, max_size=6))
    return DataSetLayout(
        draw(publishers),
        draw(u16),
        draw(u16),
        tuple((f"field{index}", kind) for index, kind in enumerate(kinds)),
        draw(st.sampled_from([FieldEncoding.VARIANT, FieldEncoding.RAW])),
        draw(st.none() | st.tuples(u32, u32)),
    )
