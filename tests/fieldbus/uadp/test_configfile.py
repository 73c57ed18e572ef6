"""PubSub configuration files: asyncua's own binary encoder agrees about every structure; files give layouts."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from asyncua import ua
from asyncua.ua.ua_binary import extensionobject_to_binary, struct_to_binary, to_binary
from hypothesis import given, settings
from hypothesis import strategies as st

from fieldbus.uadp import (
    BuiltinType,
    FieldEncoding,
    LayoutError,
    LayoutReader,
    LayoutWriter,
    LocalizedText,
    NodeId,
    PublisherId,
    PublisherIdType,
    RawLayout,
    UadpError,
    Variant,
)
from fieldbus.uadp import configuration as conf
from fieldbus.uadp import metadata as meta
from fieldbus.uadp.configfile import published, read_configuration, readers, write_configuration
from fieldbus.uadp.cursor import Cursor
from fieldbus.uadp.limits import FILE_BYTES_MAX
from fieldbus.uadp.structures import read_structure, write_structure
from tests.fieldbus.uadp.strategies import PATIENT, connections, data_set_metadata

FIELD_ID = uuid.UUID(int=77)


def theirs_metadata(builtin: int = 11) -> Any:
    field = ua.FieldMetaData(
        Name="force",
        Description=ua.LocalizedText("Kraft", "de"),
        FieldFlags=ua.DataSetFieldFlags(1),
        BuiltInType=builtin,
        DataType=ua.NodeId(builtin),
        ValueRank=-1,
        ArrayDimensions=[],
        MaxStringLength=0,
        DataSetFieldId=FIELD_ID,
        Properties=[],
    )
    return ua.DataSetMetaDataType(
        Namespaces=["urn:a"],
        StructureDataTypes=[],
        EnumDataTypes=[],
        SimpleDataTypes=[],
        Name="demo",
        Description=ua.LocalizedText("d"),
        Fields=[field],
        DataSetClassId=uuid.UUID(int=0),
        ConfigurationVersion=ua.ConfigurationVersionDataType(3, 4),
    )


def ours_metadata(builtin: BuiltinType = BuiltinType.DOUBLE) -> meta.DataSetMetaData:
    field = meta.FieldMetaData(
        "force", LocalizedText("Kraft", "de"), 1, builtin, NodeId(0, int(builtin)), field_id=FIELD_ID
    )
    return meta.DataSetMetaData(
        ("urn:a",),
        name="demo",
        description=LocalizedText("d"),
        fields=(field,),
        version=meta.ConfigurationVersion(3, 4),
    )


def theirs() -> Any:
    """``None`` where there are no settings: asyncua 2.1 writes its default for them, an abstract type, malformed."""
    writer = ua.DataSetWriterDataType(
        Name="writer",
        Enabled=True,
        DataSetWriterId=62541,
        KeyFrameCount=1,
        DataSetName="demo",
        TransportSettings=None,
        MessageSettings=ua.UadpDataSetWriterMessageDataType(ua.UadpDataSetMessageContentMask(0x21), 64, 1, 2),
    )
    group = ua.WriterGroupDataType(
        Name="group",
        Enabled=True,
        SecurityMode=ua.MessageSecurityMode.Sign,
        SecurityGroupId="keys",
        MaxNetworkMessageSize=1_400,
        WriterGroupId=100,
        PublishingInterval=1.0,
        KeepAliveTime=10.0,
        Priority=3,
        LocaleIds=["en"],
        HeaderLayoutUri="urn:layout",
        TransportSettings=None,
        MessageSettings=ua.UadpWriterGroupMessageDataType(
            5, ua.DataSetOrderingType(1), ua.UadpNetworkMessageContentMask(0x3F), -1.0, [0.5]
        ),
        DataSetWriters=[writer],
    )
    reader = ua.DataSetReaderDataType(
        Name="reader",
        Enabled=True,
        PublisherId=ua.Variant(2234, ua.VariantType.UInt16),
        WriterGroupId=100,
        DataSetWriterId=62541,
        DataSetMetaData=theirs_metadata(),
        DataSetFieldContentMask=ua.DataSetFieldContentMask(0),
        MessageReceiveTimeout=100.0,
        TransportSettings=None,
        SubscribedDataSet=None,
        SecurityMode=ua.MessageSecurityMode.None_,
        MessageSettings=ua.UadpDataSetReaderMessageDataType(
            DataSetClassId=uuid.UUID(int=0), DataSetMessageContentMask=ua.UadpDataSetMessageContentMask(0x19)
        ),
    )
    connection = ua.PubSubConnectionDataType(
        Name="udp",
        Enabled=True,
        PublisherId=ua.Variant(7, ua.VariantType.Byte),
        TransportProfileUri="urn:udp",
        TransportSettings=None,
        Address=ua.NetworkAddressUrlDataType("eth0", "opc.udp://239.0.0.1:4840"),
        WriterGroups=[group],
        ReaderGroups=[
            ua.ReaderGroupDataType(
                Name="in",
                SecurityMode=ua.MessageSecurityMode.None_,
                TransportSettings=None,
                MessageSettings=None,
                DataSetReaders=[reader],
            )
        ],
    )
    source = ua.PublishedDataItemsDataType([ua.PublishedVariableDataType(ua.NodeId("force", 1), 13)])
    data_set = ua.PublishedDataSetDataType(
        Name="demo", DataSetFolder=["a"], DataSetMetaData=theirs_metadata(), DataSetSource=source
    )
    return ua.PubSubConfigurationDataType([data_set], [connection], True)


def ours() -> conf.PubSubConfiguration:
    writer = conf.DataSetWriter(
        "writer", True, 62541, 0, 1, "demo", message_settings=conf.UadpDataSetWriterMessage(0x21, 64, 1, 2)
    )
    group = conf.WriterGroup(
        "group",
        True,
        conf.SECURITY_SIGN,
        "keys",
        max_network_message_size=1_400,
        writer_group_id=100,
        publishing_interval=1.0,
        keep_alive_time=10.0,
        priority=3,
        locale_ids=("en",),
        header_layout_uri="urn:layout",
        message_settings=conf.UadpWriterGroupMessage(5, 1, 0x3F, -1.0, (0.5,)),
        writers=(writer,),
    )
    reader = conf.DataSetReader(
        "reader",
        True,
        Variant(BuiltinType.UINT16, 2234),
        100,
        62541,
        ours_metadata(),
        message_receive_timeout=100.0,
        message_settings=conf.UadpDataSetReaderMessage(data_set_message_content_mask=0x19),
    )
    connection = conf.PubSubConnection(
        "udp",
        True,
        Variant(BuiltinType.BYTE, 7),
        "urn:udp",
        conf.NetworkAddressUrl("eth0", "opc.udp://239.0.0.1:4840"),
        writer_groups=(group,),
        reader_groups=(conf.ReaderGroup("in", True, readers=(reader,)),),
    )
    items = conf.PublishedDataItems((conf.PublishedVariable(NodeId(1, "force")),))
    data_set = conf.PublishedDataSet("demo", ("a",), ours_metadata(), source=items)
    return conf.PubSubConfiguration((data_set,), (connection,), True)


def test_asyncua_writes_the_metadata_we_read() -> None:
    data = struct_to_binary(theirs_metadata())
    cursor = Cursor(data, 0, len(data))
    assert read_structure(cursor, meta.DataSetMetaData) == ours_metadata()
    assert cursor.pos == len(data)


def test_a_file_of_asyncua_is_read_and_ours_by_asyncua() -> None:
    body = ua.Variant(theirs(), ua.VariantType.ExtensionObject)
    file = ua.UABinaryFileDataType(Body=body)
    alone, inside = struct_to_binary(file), extensionobject_to_binary(file)
    assert read_configuration(alone) == read_configuration(inside) == ours()
    back = ua.ua_binary.from_binary(ua.ExtensionObject, ua.utils.Buffer(write_configuration(ours())))
    found = back.Body.Value
    assert found.Connections[0].WriterGroups[0].DataSetWriters[0].DataSetWriterId == 62541
    assert found.Connections[0].Address.Url == "opc.udp://239.0.0.1:4840"
    assert found.PublishedDataSets[0].DataSetMetaData.Fields[0].Name == "force"
    assert to_binary(ua.Variant, body)  # their variant alone is well-formed as well


def test_a_file_gives_the_layout_of_its_readers() -> None:
    (found,) = readers(read_configuration(write_configuration(ours())))
    layout = found.layout()
    assert (layout.publisher, layout.writer_group_id) == (PublisherId(PublisherIdType.UINT16, 2234), 100)
    assert (layout.fields, layout.encoding) == ((("force", BuiltinType.DOUBLE),), FieldEncoding.VARIANT)
    assert layout.config_version == (3, 4)
    data = LayoutWriter(layout).write(t_source_ns=10**18, values=(1.5,))
    assert LayoutReader(layout).read(data).values == (1.5,)
    assert RawLayout(found.metadata).decode(bytes(8)) == (0.0,)
    assert published(ours(), "demo").metadata == found.metadata
    with pytest.raises(LayoutError, match="configuration-data-set"):
        published(ours(), "other")


@settings(max_examples=30, **PATIENT)
@given(st.lists(connections, max_size=1), data_set_metadata)
def test_decode_inverts_encode(made: list[conf.PubSubConnection], metadata: meta.DataSetMetaData) -> None:
    plain = conf.PubSubConfiguration((conf.PublishedDataSet("a", metadata=metadata),), tuple(made), True)
    whole = conf.PubSubConfiguration2(
        connections=tuple(made),
        data_set_classes=(metadata,),
        security_groups=(conf.SecurityGroup("keys", key_lifetime=1.0),),
        configuration_version=9,
    )
    for configuration in (plain, whole):
        data = write_configuration(configuration)
        assert read_configuration(data) == configuration
        for cut in (0, 1, 4, len(data) // 2, len(data) - 1):
            with pytest.raises(UadpError):
                read_configuration(data[:cut])


REFUSED: dict[str, tuple[str, bytes]] = {
    "file-too-long": ("file-too-long", bytes(FILE_BYTES_MAX + 1)),
    "trailing-byte": ("trailing-bytes", write_configuration(conf.PubSubConfiguration()) + b"\x00"),
    "no-body": ("file-body", bytes.fromhex("ffffffff" * 6 + "00")),
    "number-for-body": ("file-body", bytes.fromhex("ffffffff" * 6 + "0301")),
    "unknown-object": ("file-body", bytes.fromhex("ffffffff" * 6 + "16 0107 0100 00")),
    "empty": ("truncated", b""),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_configuration_file_is_refused(name: str) -> None:
    code, data = REFUSED[name]
    with pytest.raises(UadpError) as caught:
        read_configuration(data)
    assert caught.value.code == code


@pytest.mark.parametrize(
    "publisher", [meta.NULL_VARIANT, Variant(BuiltinType.DOUBLE, 1.0), Variant(BuiltinType.STRING, "")]
)
def test_a_reader_must_name_one_publisher(publisher: Variant) -> None:
    reader = conf.DataSetReader("r", publisher_id=publisher)
    connection = conf.PubSubConnection(reader_groups=(conf.ReaderGroup(readers=(reader,)),))
    with pytest.raises(LayoutError, match="configuration-publisher"):
        readers(conf.PubSubConfiguration(connections=(connection,)))


@pytest.mark.parametrize(
    ("mask", "encoding"), [(0, FieldEncoding.VARIANT), (1, FieldEncoding.DATA_VALUE), (0x20, FieldEncoding.RAW)]
)
def test_the_field_encoding_follows_the_content_mask(mask: int, encoding: FieldEncoding) -> None:
    texts = meta.DataSetMetaData(fields=(meta.FieldMetaData("s", builtin_type=BuiltinType.STRING),))
    reader = conf.DataSetReader(
        "r", publisher_id=Variant(BuiltinType.UINT32, 1), field_content_mask=mask, metadata=texts
    )
    connection = conf.PubSubConnection(reader_groups=(conf.ReaderGroup(readers=(reader,)),))
    (found,) = readers(conf.PubSubConfiguration(connections=(connection,)))
    assert found.encoding is encoding
    if encoding is FieldEncoding.RAW:
        with pytest.raises(LayoutError, match="configuration-layout"):
            found.layout()  # text in RawData is for RawLayout
    else:
        assert found.layout().config_version is None


def test_structures_refuse_values_of_another_type() -> None:
    wrong: list[Any] = [
        conf.WriterGroup(writers=(1,)),  # type: ignore[arg-type]
        conf.WriterGroup(writers=[conf.DataSetWriter()]),  # type: ignore[arg-type]
        conf.WriterGroup(message_settings=conf.WriterGroup()),
        conf.DataSetReader(metadata=conf.WriterGroup()),  # type: ignore[arg-type]
        "text",
    ]
    for value in wrong:
        with pytest.raises(UadpError, match="value-type"):
            write_structure(bytearray(), value)
