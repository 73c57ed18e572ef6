"""OPC UA PubSub UADP (OPC 10000-14): strict codec, the deployment's DataSet, sequence numbers.

``decode`` and ``encode`` work on any supported NetworkMessage; ``LayoutReader`` and ``LayoutWriter`` on the one
DataSet that a deployment declares. Not read yet, and refused by name: security, chunks, discovery, events.
"""

from fieldbus.uadp.decoder import decode
from fieldbus.uadp.encoder import encode
from fieldbus.uadp.errors import LayoutError, UadpError
from fieldbus.uadp.layout import DataSetLayout, DataSetSample
from fieldbus.uadp.model import (
    DataSetMessage,
    FieldEncoding,
    GroupHeader,
    MessageKind,
    NetworkMessage,
    PublisherId,
    PublisherIdType,
)
from fieldbus.uadp.reader import LayoutReader
from fieldbus.uadp.sequence import SequenceEvent, SequenceTracker, SequenceVerdict
from fieldbus.uadp.times import ns_to_ticks, ticks_to_ns
from fieldbus.uadp.types import BuiltinType, DataValue, Field, Scalar, Variant
from fieldbus.uadp.writer import LayoutWriter

__all__ = [
    "BuiltinType",
    "DataSetLayout",
    "DataSetMessage",
    "DataSetSample",
    "DataValue",
    "Field",
    "FieldEncoding",
    "GroupHeader",
    "LayoutError",
    "LayoutReader",
    "LayoutWriter",
    "MessageKind",
    "NetworkMessage",
    "PublisherId",
    "PublisherIdType",
    "Scalar",
    "SequenceEvent",
    "SequenceTracker",
    "SequenceVerdict",
    "UadpError",
    "Variant",
    "decode",
    "encode",
    "ns_to_ticks",
    "ticks_to_ns",
]
