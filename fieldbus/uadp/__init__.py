"""OPC UA PubSub UADP (OPC 10000-14): strict codec, the deployment's DataSet, message security, sequence numbers.

``decode`` and ``encode`` work on any NetworkMessage but Actions; ``SecureReader`` and ``SecureWriter`` open and seal
protected ones; ``Reassembler`` and ``split`` handle chunks; ``RawLayout`` reads RawData by its metadata;
``LayoutReader`` and ``LayoutWriter`` are for the one DataSet that a deployment declares.
"""

from fieldbus.uadp.chunks import Reassembler, split
from fieldbus.uadp.decoder import decode, decode_data_set_message
from fieldbus.uadp.discovery import (
    ActionAnnouncement,
    Announcement,
    ApplicationAnnouncement,
    ConnectionsAnnouncement,
    MetaDataAnnouncement,
    Probe,
    PublisherEndpoints,
    ResponderAnnouncement,
    StatusAnnouncement,
    WriterConfiguration,
)
from fieldbus.uadp.encoder import encode
from fieldbus.uadp.errors import KeepAlive, LayoutError, SecurityError, UadpError
from fieldbus.uadp.keeper import KeyEvent, KeyKeeper
from fieldbus.uadp.keyfile import KeyFile, make_keys, parse_key_file, read_key_file, write_key_file
from fieldbus.uadp.keys import KeyRing, SecurityMode, SecurityPolicy
from fieldbus.uadp.layout import DataSetLayout, DataSetSample
from fieldbus.uadp.model import (
    Chunk,
    DataSetMessage,
    FieldEncoding,
    GroupHeader,
    MessageKind,
    NetworkMessage,
    PublisherId,
    PublisherIdType,
    SecurityHeader,
)
from fieldbus.uadp.raw import RawLayout, StructureTypes
from fieldbus.uadp.reader import LayoutReader
from fieldbus.uadp.security import Opened, ReplayMark, SecureReader, SecureWriter
from fieldbus.uadp.sequence import SequenceEvent, SequenceTracker, SequenceVerdict
from fieldbus.uadp.times import ns_to_ticks, ticks_to_ns
from fieldbus.uadp.typecodec import RawMatrix, RawValue
from fieldbus.uadp.types import (
    Builtin,
    BuiltinType,
    DataValue,
    DiagnosticInfo,
    ExpandedNodeId,
    ExtensionObject,
    Field,
    LocalizedText,
    NodeId,
    QualifiedName,
    Scalar,
    Variant,
)
from fieldbus.uadp.writer import LayoutWriter

__all__ = [
    "ActionAnnouncement",
    "Announcement",
    "ApplicationAnnouncement",
    "Builtin",
    "BuiltinType",
    "Chunk",
    "ConnectionsAnnouncement",
    "DataSetLayout",
    "DataSetMessage",
    "DataSetSample",
    "DataValue",
    "DiagnosticInfo",
    "ExpandedNodeId",
    "ExtensionObject",
    "Field",
    "FieldEncoding",
    "GroupHeader",
    "KeepAlive",
    "KeyEvent",
    "KeyFile",
    "KeyKeeper",
    "KeyRing",
    "LayoutError",
    "LayoutReader",
    "LayoutWriter",
    "LocalizedText",
    "MessageKind",
    "MetaDataAnnouncement",
    "NetworkMessage",
    "NodeId",
    "Opened",
    "Probe",
    "PublisherEndpoints",
    "PublisherId",
    "PublisherIdType",
    "QualifiedName",
    "RawLayout",
    "RawMatrix",
    "RawValue",
    "Reassembler",
    "ReplayMark",
    "ResponderAnnouncement",
    "Scalar",
    "SecureReader",
    "SecureWriter",
    "SecurityError",
    "SecurityHeader",
    "SecurityMode",
    "SecurityPolicy",
    "SequenceEvent",
    "SequenceTracker",
    "SequenceVerdict",
    "StatusAnnouncement",
    "StructureTypes",
    "UadpError",
    "Variant",
    "WriterConfiguration",
    "decode",
    "decode_data_set_message",
    "encode",
    "make_keys",
    "ns_to_ticks",
    "parse_key_file",
    "read_key_file",
    "split",
    "ticks_to_ns",
    "write_key_file",
]
