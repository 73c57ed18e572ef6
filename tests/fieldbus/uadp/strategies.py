"""Hypothesis strategies for UADP messages: every optional part present and absent, every supported type."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from fieldbus.uadp import (
    ActionAnnouncement,
    Announcement,
    ApplicationAnnouncement,
    BuiltinType,
    Chunk,
    ConnectionsAnnouncement,
    DataSetLayout,
    DataSetMessage,
    DataValue,
    DiagnosticInfo,
    ExpandedNodeId,
    ExtensionObject,
    FieldEncoding,
    GroupHeader,
    LocalizedText,
    MessageKind,
    MetaDataAnnouncement,
    NetworkMessage,
    NodeId,
    Probe,
    PublisherEndpoints,
    PublisherId,
    PublisherIdType,
    QualifiedName,
    ResponderAnnouncement,
    SecurityHeader,
    StatusAnnouncement,
    Variant,
    WriterConfiguration,
)
from fieldbus.uadp import configuration as conf
from fieldbus.uadp import metadata as meta

PATIENT: dict[str, Any] = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
"""For ``settings``: whole messages take long to make on a busy machine, and that says nothing about them."""

patient = settings(**PATIENT)
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
NESTED = (BuiltinType.VARIANT, BuiltinType.DATAVALUE)
FIXED = [*INT_RANGES, BuiltinType.BOOLEAN, BuiltinType.FLOAT, BuiltinType.DOUBLE]


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
    if kind is BuiltinType.GUID:
        return st.uuids()
    return OTHERS[kind]


texts = st.none() | st.text(max_size=8)
i32 = st.integers(-(2**31), 2**31 - 1)
node_ids = st.builds(
    NodeId,
    st.integers(0, 300) | st.integers(0, 0xFFFF),
    st.integers(0, 300) | st.integers(0, 0xFFFF_FFFF) | texts | st.uuids() | st.binary(max_size=8),
)
localized_texts = st.builds(LocalizedText, texts, texts)
qualified_names = st.builds(QualifiedName, st.integers(0, 0xFFFF), texts)
OTHERS: dict[BuiltinType, st.SearchStrategy[Any]] = {
    BuiltinType.XMLELEMENT: texts,
    BuiltinType.NODEID: node_ids,
    BuiltinType.EXPANDEDNODEID: st.builds(ExpandedNodeId, node_ids, texts, st.none() | st.integers(0, 0xFFFF_FFFF)),
    BuiltinType.QUALIFIEDNAME: qualified_names,
    BuiltinType.LOCALIZEDTEXT: localized_texts,
    BuiltinType.EXTENSIONOBJECT: st.one_of(
        st.builds(ExtensionObject, node_ids),
        st.builds(ExtensionObject, node_ids, st.binary(max_size=10), st.booleans()),
    ),
    BuiltinType.DIAGNOSTICINFO: st.recursive(
        st.builds(DiagnosticInfo, *[st.none() | i32] * 4, texts, st.none() | st.integers(0, 0xFFFF_FFFF)),
        lambda inner: st.builds(
            DiagnosticInfo, st.none() | i32, additional_info=texts, inner_status=st.just(0x8001_0000), inner=inner
        ),
        max_leaves=3,
    ),
}


@st.composite
def variants(draw: st.DrawFn, depth: int = 0) -> Variant:
    kind = draw(st.sampled_from([kind for kind in BuiltinType if depth < 2 or kind not in NESTED]))
    if kind is BuiltinType.NULL:
        return Variant(kind, None)
    if kind is BuiltinType.VARIANT:
        one: st.SearchStrategy[Any] = variants(depth + 1)
    else:
        one = data_values(depth + 1) if kind is BuiltinType.DATAVALUE else scalars(kind)
    if kind is not BuiltinType.VARIANT and draw(st.booleans()):
        return Variant(kind, draw(one))
    if draw(st.booleans()):
        rows, columns = draw(st.integers(0, 2)), draw(st.integers(0, 2))
        elements = draw(st.lists(one, min_size=rows * columns, max_size=rows * columns))
        return Variant(kind, tuple(elements), array=True, dimensions=(rows, columns))
    return Variant(kind, draw(st.none() | st.lists(one, max_size=4).map(tuple)), array=True)


ticks = st.integers(-(2**63), 2**63 - 1)
picoseconds = st.integers(0, 9_999)
u8, u16, u32 = st.integers(0, 0xFF), st.integers(0, 0xFFFF), st.integers(0, 0xFFFF_FFFF)


@st.composite
def data_values(draw: st.DrawFn, depth: int = 0) -> DataValue:
    source, server = draw(st.none() | ticks), draw(st.none() | ticks)
    return DataValue(
        draw(st.none() | variants(depth)),
        draw(st.none() | u32),
        source,
        draw(st.none() | picoseconds) if source is not None else None,
        server,
        draw(st.none() | picoseconds) if server is not None else None,
    )


@st.composite
def data_set_messages(draw: st.DrawFn) -> DataSetMessage:
    kind = draw(st.sampled_from(list(MessageKind)))
    encoding = draw(st.sampled_from(list(FieldEncoding))) if kind is not MessageKind.EVENT else FieldEncoding.VARIANT
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
        padding=draw(st.sampled_from([0, 0, 0, 1, 7])) if raw is None else 0,
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


security_headers = st.builds(SecurityHeader, u32, st.binary(max_size=8), force_key_reset=st.booleans())


@st.composite
def network_messages(draw: st.DrawFn) -> NetworkMessage:
    """A message with DataSetMessages or, now and then, a chunk of one or a discovery message."""
    kind = draw(st.sampled_from(["data"] * 5 + ["chunk", "discovery"]))
    if kind == "discovery":
        return draw(discovery_messages())
    timestamp = draw(st.none() | ticks)
    head: dict[str, Any] = {
        "publisher": draw(st.none() | publishers),
        "class_id": draw(st.none() | st.uuids()),
        "group": draw(st.none() | groups),
        "timestamp": timestamp,
        "picoseconds": draw(st.none() | picoseconds) if timestamp is not None else None,
        "promoted": draw(st.none() | st.lists(variants(), max_size=3).map(tuple)),
        "security": draw(st.none() | security_headers),
    }
    if kind == "chunk":
        return NetworkMessage(**head, chunk=draw(chunks(st.none() | u16)))
    messages = tuple(draw(st.lists(data_set_messages() | invalid_messages, min_size=1, max_size=3)))
    ids = tuple(draw(st.lists(u16, min_size=len(messages), max_size=len(messages))))
    writer_ids = ids if len(messages) > 1 or draw(st.booleans()) else None
    return NetworkMessage(**head, writer_ids=writer_ids, messages=messages)


@st.composite
def chunks(draw: st.DrawFn, writer_ids: st.SearchStrategy[int | None]) -> Chunk:
    data = draw(st.binary(min_size=1, max_size=20))
    offset = draw(st.integers(0, 1_000))
    total = offset + len(data) + draw(st.integers(0, 1_000))
    return Chunk(draw(writer_ids), draw(u16), offset, total, data)


structure_fields = st.builds(
    meta.StructureField,
    texts,
    localized_texts,
    node_ids,
    st.integers(-3, 3),
    st.lists(u32, max_size=2).map(tuple),
    u32,
    st.booleans(),
)
definitions = st.builds(
    meta.StructureDefinition, node_ids, node_ids, st.integers(0, 4), st.lists(structure_fields, max_size=2).map(tuple)
)
enum_fields = st.builds(meta.EnumField, st.integers(-9, 9), localized_texts, localized_texts, texts)
pairs = st.builds(meta.KeyValuePair, qualified_names, variants(1))
field_metadata = st.builds(
    meta.FieldMetaData,
    texts,
    localized_texts,
    u16,
    u8,
    node_ids,
    st.integers(-3, 3),
    st.lists(u32, max_size=2).map(tuple),
    u32,
    st.uuids(),
    st.lists(pairs, max_size=1).map(tuple),
)


def up_to_two(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(strategy, max_size=2).map(tuple)


data_set_metadata = st.builds(
    meta.DataSetMetaData,
    up_to_two(texts),
    up_to_two(st.builds(meta.StructureDescription, node_ids, qualified_names, definitions)),
    up_to_two(
        st.builds(
            meta.EnumDescription,
            node_ids,
            qualified_names,
            st.builds(meta.EnumDefinition, up_to_two(enum_fields)),
            u8,
        )
    ),
    up_to_two(st.builds(meta.SimpleTypeDescription, node_ids, qualified_names, node_ids, u8)),
    texts,
    localized_texts,
    up_to_two(field_metadata),
    st.uuids(),
    st.builds(meta.ConfigurationVersion, u32, u32),
)
numbers = st.floats(allow_nan=False)
endpoints = st.builds(
    conf.EndpointDescription,
    texts,
    st.builds(
        conf.ApplicationDescription, texts, texts, localized_texts, st.integers(0, 3), texts, texts, up_to_two(texts)
    ),
    st.none() | st.binary(max_size=5),
    st.integers(1, 3),
    texts,
    up_to_two(st.builds(conf.UserTokenPolicy, texts, st.integers(0, 3), texts, texts, texts)),
    texts,
    u8,
)
setting_objects = st.one_of(
    st.none(),
    st.builds(conf.NetworkAddressUrl, texts, texts),
    st.builds(conf.UadpWriterGroupMessage, u32, st.integers(0, 3), u32, numbers, up_to_two(numbers)),
    st.builds(conf.UadpDataSetWriterMessage, u32, u16, u16, u16),
    st.builds(ExtensionObject, st.builds(NodeId, st.just(3), u32), st.binary(max_size=6)),
)
writers = st.builds(
    conf.DataSetWriter, texts, st.booleans(), u16, u32, u32, texts, up_to_two(pairs), setting_objects, setting_objects
)
writer_groups = st.builds(
    conf.WriterGroup,
    texts,
    st.booleans(),
    st.integers(1, 3),
    texts,
    up_to_two(endpoints),
    u32,
    up_to_two(pairs),
    u16,
    numbers,
    numbers,
    u8,
    up_to_two(texts),
    texts,
    setting_objects,
    setting_objects,
    up_to_two(writers),
)
connections = st.builds(
    conf.PubSubConnection,
    texts,
    st.booleans(),
    variants(1),
    texts,
    setting_objects,
    up_to_two(pairs),
    setting_objects,
    up_to_two(writer_groups),
    st.just(()),
)


@st.composite
def writer_configurations(draw: st.DrawFn) -> WriterConfiguration:
    ids = tuple(draw(st.lists(u16, max_size=3)))
    statuses = tuple(draw(st.lists(u32, min_size=len(ids), max_size=len(ids))))
    return WriterConfiguration(ids, draw(writer_groups), statuses)


announcement_bodies = st.one_of(
    st.builds(PublisherEndpoints, up_to_two(endpoints), u32),
    st.builds(MetaDataAnnouncement, u16, data_set_metadata, u32),
    writer_configurations(),
    st.builds(ConnectionsAnnouncement, up_to_two(connections)),
    st.builds(
        ApplicationAnnouncement,
        st.builds(conf.ApplicationDescription, texts, texts, localized_texts),
        up_to_two(texts),
    ),
    st.builds(StatusAnnouncement, st.integers(0, 4)),
    st.builds(StatusAnnouncement, st.integers(0, 4), ticks, ticks),
    st.builds(ResponderAnnouncement, up_to_two(connections)),
    st.builds(
        ActionAnnouncement,
        u16,
        st.lists(st.builds(conf.ActionTarget, u16, texts, localized_texts), min_size=1, max_size=1).map(tuple),
        st.builds(meta.DataSetMetaData, name=texts),
        data_set_metadata,
        st.lists(st.builds(conf.ActionMethod, node_ids, node_ids), max_size=1).map(tuple),
    ),
)
announcements = st.builds(Announcement, u16, announcement_bodies)
probes = st.one_of(st.just(Probe(None)), st.just(Probe(1)), st.builds(Probe, st.sampled_from([2, 3]), up_to_two(u16)))


@st.composite
def discovery_messages(draw: st.DrawFn) -> NetworkMessage:
    publisher, security = draw(publishers), draw(st.none() | security_headers)
    if draw(st.integers(0, 4)) == 0:
        chunk = draw(chunks(st.none()))
        piece = Chunk(None, chunk.sequence, chunk.offset, chunk.total, chunk.data, announcement=True)
        return NetworkMessage(publisher, security=security, chunk=piece)
    return NetworkMessage(publisher, security=security, discovery=draw(announcements | probes))


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
