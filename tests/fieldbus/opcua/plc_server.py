"""A small PLC with an OPC UA server, run as its own process by the client tests.

Arguments: port, folder with identity ``plc`` and trust lists ``trusted``/``writers``, padding. ``padding`` > 0
shifts namespace index and node identifiers, as a PLC does after a changed download. Prints ``ready`` when it
listens, counts ``Mill/Counter`` up every 10 ms, ends when its input is closed.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from asyncua import ua

from fieldbus.opcua import TrustList, load_identity, secure_server

NAMESPACE = "urn:tests:mill"
DI = "http://opcfoundation.org/UA/DI/"


async def main(port: int, folder: Path, padding: int, drop_speed: bool) -> None:
    identity = load_identity(folder / "plc.der", folder / "plc.key.pem")
    server = await secure_server(
        f"opc.tcp://127.0.0.1:{port}/",
        identity=identity,
        trusted=TrustList(folder / "trusted"),
        writers=TrustList(folder / "writers"),
    )
    for number in range(padding):
        index = await server.register_namespace(f"urn:tests:padding:{number}")
        await server.nodes.objects.add_object(index, f"Padding{number}")
    index = await server.register_namespace(NAMESPACE)
    mill = await server.nodes.objects.add_object(index, "Mill")
    request = await mill.add_object(index, "Request")
    gap = await request.add_variable(index, "Gap", 1.0)
    number = await request.add_variable(index, "Number", 0, ua.VariantType.UInt32)
    if not drop_speed:
        await (await request.add_variable(index, "Speed", 5.0)).set_writable()
    for node in (gap, number):
        await node.set_writable()
    await mill.add_variable(index, "Locked", 1.0)
    await mill.add_variable(index, "Profile", [1.0, 2.0])
    bad = await mill.add_variable(index, "Broken", 1.0)
    await bad.write_value(
        ua.DataValue(ua.Variant(7.0, ua.VariantType.Double), StatusCode=ua.StatusCode(ua.StatusCodes.BadSensorFailure))
    )
    di = await server.register_namespace(DI)
    device = await (await server.nodes.objects.add_object(di, "DeviceSet")).add_object(index, "Drive/A&B")
    await device.add_variable(di, "SerialNumber", "4711")
    await device.add_variable(index, "SerialNumber", "ours")
    counter = await mill.add_variable(index, "Counter", 0, ua.VariantType.UInt32)
    async with server:
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        closed = asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
        count = 0
        while not closed.done():
            count += 1
            await counter.write_value(count, ua.VariantType.UInt32)
            await asyncio.sleep(0.01)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), "--drop-speed" in sys.argv))
