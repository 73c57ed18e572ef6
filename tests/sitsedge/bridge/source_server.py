"""A secured OPC UA server with numeric tags, run as its own process and driven line by line by the bridge tests.

Arguments: port, folder (identity ``source``, trust list ``trusted``), tag names. Prints ``ready``; then takes one
JSON object a line, ``{"tag": [value, status, t_source_ns], …}``, writes those values in order, waits until every
subscription has taken them and prints ``done``. A status that is bad is sent *with* the value, as PLCs do.
Ends when its input is closed.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import sys
from pathlib import Path

from asyncua import ua

from fieldbus.opcua import TrustList, load_identity, secure_server

NAMESPACE = "urn:tests:source"
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def data_value(value: object, status: int, t_source_ns: int | None) -> ua.DataValue:
    moment = None if t_source_ns is None else EPOCH + dt.timedelta(microseconds=t_source_ns // 1000)
    kind = {bool: ua.VariantType.Boolean, int: ua.VariantType.Int64, str: ua.VariantType.String}.get(
        type(value), ua.VariantType.Double
    )
    return ua.DataValue(ua.Variant(value, kind), StatusCode=ua.StatusCode(status), SourceTimestamp=moment)


async def main(port: int, folder: Path, tags: list[str]) -> None:
    server = await secure_server(
        f"opc.tcp://127.0.0.1:{port}/",
        identity=load_identity(folder / "source.der", folder / "source.key.pem"),
        trusted=TrustList(folder / "trusted"),
    )
    index = await server.register_namespace(NAMESPACE)
    plant = await server.nodes.objects.add_object(index, "Plant")
    nodes = {tag: await plant.add_variable(index, tag, 0.0) for tag in tags}
    for node in nodes.values():
        waiting = ua.DataValue(StatusCode=ua.StatusCode(ua.StatusCodes.BadWaitingForInitialData))
        await server.write_attribute_value(node.nodeid, waiting)
    async with server:
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        loop = asyncio.get_running_loop()
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            for tag, (value, status, t_source_ns) in json.loads(line).items():
                node_id = nodes[tag].nodeid
                # asyncua keeps a node to one type; a device after a changed download does not.
                server.iserver.aspace[node_id].attributes[ua.AttributeIds.Value].value = None
                await server.write_attribute_value(node_id, data_value(value, status, t_source_ns))
            sys.stdout.write("done\n")
            sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:]))
