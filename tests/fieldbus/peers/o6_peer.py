"""open62541 behind the Python package ``o6`` as a UADP peer; runs under an interpreter that has it, never under ours.

``o6_peer.py publish|subscribe URL ENCODING [INTERFACE]``, URL ``opc.udp://HOST:PORT/`` or ``opc.eth://MAC:VID.PCP``:
publishes the DataSet until it is ended, or subscribes and prints each new set of values as one JSON line. Prints
``ready`` once it is set up. Without message security: o6 2.2 has no way to load a PubSub security policy.
"""

# mypy: ignore-errors
# ruff: noqa: T201 - a program for another interpreter, whose output is its interface

import json
import sys
import time

import o6
from o6.ns.ns0 import datatypes as dt

FIELDS = (("force", 11, o6.Double(22.25)), ("count", 6, o6.Int32(1002)), ("on", 1, o6.Boolean(True)))
ENCODINGS = {"variant": 0, "raw": 0x20, "data-value": 0x01}  # DataSetFieldContentMask: RawData, StatusCode
PUBLISH_SUBSCRIBE, ADD_CONNECTION = "i=14443", "i=17366"
PROFILE = "http://opcfoundation.org/UA-Profile/Transport/pubsub-{}-uadp"
NETWORK_MASK = 0x01 | 0x02 | 0x04 | 0x40  # PublisherId, GroupHeader, WriterGroupId, PayloadHeader
MESSAGE_MASK = 0x01 | 0x20  # Timestamp, SequenceNumber


def make(cls, **values):
    made = cls()
    for name, value in values.items():
        setattr(made, name, value)
    return made


def metadata():
    fields = [
        make(dt.FieldMetaData, name=name, builtInType=kind, dataType=o6.NodeId(f"i={kind}"), valueRank=-1)
        for name, kind, _ in FIELDS
    ]
    return make(dt.DataSetMetaDataType, name="demo", fields=fields)


def publisher(server, nodes, encoding):
    items = [make(dt.PublishedVariableDataType, publishedVariable=o6.NodeId(node), attributeId=13) for node in nodes]
    source = make(dt.PublishedDataItemsDataType, publishedData=items)
    server.addPublishedDataSet(
        make(dt.PublishedDataSetDataType, name="demo", dataSetMetaData=metadata(), dataSetSource=source)
    )
    writer = make(
        dt.DataSetWriterDataType,
        name="writer",
        enabled=True,
        dataSetWriterId=62541,
        keyFrameCount=1,
        dataSetName="demo",
        dataSetFieldContentMask=ENCODINGS[encoding],
        messageSettings=make(dt.UadpDataSetWriterMessageDataType, dataSetMessageContentMask=MESSAGE_MASK),
    )
    group = make(
        dt.WriterGroupDataType,
        name="group",
        enabled=True,
        writerGroupId=100,
        publishingInterval=50.0,
        keepAliveTime=1000.0,
        maxNetworkMessageSize=1400,
        securityMode=1,
        messageSettings=make(dt.UadpWriterGroupMessageDataType, networkMessageContentMask=NETWORK_MASK),
        dataSetWriters=[writer],
    )
    return {"publisherId": o6.UInt16(2234), "writerGroups": [group]}


def subscriber(nodes, encoding):
    targets = [make(dt.FieldTargetDataType, targetNodeId=o6.NodeId(node), attributeId=13) for node in nodes]
    reader = make(
        dt.DataSetReaderDataType,
        name="reader",
        enabled=True,
        publisherId=o6.UInt16(2234),
        writerGroupId=100,
        dataSetWriterId=62541,
        dataSetMetaData=metadata(),
        messageReceiveTimeout=60_000.0,
        dataSetFieldContentMask=ENCODINGS[encoding],
        messageSettings=make(
            dt.UadpDataSetReaderMessageDataType,
            networkMessageContentMask=NETWORK_MASK,
            dataSetMessageContentMask=MESSAGE_MASK,
        ),
        subscribedDataSet=make(dt.TargetVariablesDataType, targetVariables=targets),
    )
    group = make(dt.ReaderGroupDataType, name="group", enabled=True, dataSetReaders=[reader], securityMode=1)
    return {"publisherId": o6.UInt16(1), "readerGroups": [group]}


def main():
    role, url, encoding = sys.argv[1:4]
    server = o6.Server()
    nodes = [server.addVariable(name, server.objectsNode, value) for name, _, value in FIELDS]
    server.start()
    parts = publisher(server, nodes, encoding) if role == "publish" else subscriber(nodes, encoding)
    address = make(dt.NetworkAddressUrlDataType, url=url, networkInterface=next(iter(sys.argv[4:]), ""))
    profile = PROFILE.format("eth" if url.startswith("opc.eth:") else "udp")
    connection = make(
        dt.PubSubConnectionDataType, name="it", enabled=True, transportProfileUri=profile, address=address, **parts
    )
    status, _ = server.call(PUBLISH_SUBSCRIBE, ADD_CONNECTION, [connection])
    if status:
        raise SystemExit(f"refused: {status}")
    server._setAllPubSubComponentsEnabled(True)
    print("ready", flush=True)
    last = None
    while True:
        time.sleep(0.02)
        values = [kind(server.read(node)) for kind, node in zip((float, int, bool), nodes, strict=True)]
        if role == "subscribe" and values != last:
            last = values
            print(json.dumps(values), flush=True)


main()
