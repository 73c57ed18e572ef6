"""A server with users and small limits, run as its own process by the tests of hostile clients.

Arguments: port, folder with identity ``plc``, trust lists ``trusted`` and ``writers``, and ``users.json``. Prints
``ready`` when it listens, counts ``Shop/Counter`` up every 20 ms, ends when its input is closed. At SIGHUP it takes
the identity that ``current`` names and prints ``renewed``.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path
from typing import Any

from asyncua import ua
from asyncua.common.methods import uamethod

from fieldbus.opcua import TrustList, load_identity
from fieldbus.opcua.server import Access, Role, UserBook, figures, reload_identity, secure_server
from tests.fieldbus.opcua.server.shop import BIG_BYTES, LIMITS, NAMESPACE


def say(word: str) -> None:
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


async def build(server: Any) -> Any:
    index = await server.register_namespace(NAMESPACE)
    access = Access.of(server)
    shop = await server.nodes.objects.add_object(ua.NodeId("Shop", index), "Shop")

    async def variable(name: str, value: Any, role: Role | None = None, *, writable: bool = True) -> Any:
        node = await shop.add_variable(ua.NodeId(name, index), name, value)
        if writable:
            await node.set_writable()
        if role is not None:
            access.require(node, role)
        return node

    await variable("Setpoint", 1.0, Role.OPERATOR)
    profile = await variable("Profile", [1.0, 2.0], Role.OPERATOR)
    await profile.write_value_rank(ua.ValueRank.OneDimension)
    await variable("Count", ua.Variant(3, ua.VariantType.UInt32), Role.OPERATOR)
    await variable("Text", "a", Role.OPERATOR)
    await variable("Gain", 1.0, Role.ENGINEER)
    await variable("Unruled", 1.0)
    await variable("Locked", 1.0, Role.OPERATOR, writable=False)
    await variable("Big", bytes(BIG_BYTES), writable=False)
    counter = await variable("Counter", ua.Variant(0, ua.VariantType.UInt32), writable=False)

    @uamethod  # type: ignore[untyped-decorator]
    async def who(parent: Any) -> list[str]:
        caller = access.caller()
        return [caller.name, str(caller.role), caller.application_uri]

    @uamethod  # type: ignore[untyped-decorator]
    def who_in_a_thread(parent: Any) -> list[str]:
        caller = access.caller()
        return [caller.name, str(caller.role), caller.application_uri]

    @uamethod  # type: ignore[untyped-decorator]
    async def connections(parent: Any) -> list[str]:
        now = figures(server)
        return [str(now.connections), str(now.items), *(f"{one.user}@{one.application_uri}" for one in now.sessions)]

    for name, function, role in (
        ("Connections", connections, Role.OBSERVER),
        ("Who", who, Role.OBSERVER),
        ("WhoInAThread", who_in_a_thread, Role.OBSERVER),
        ("Stop", who, Role.OPERATOR),
        ("Tune", who, Role.ENGINEER),
        ("Unruled", who, None),
    ):
        method = await shop.add_method(ua.NodeId(f"{name}()", index), name, function, [], [ua.VariantType.String])
        if role is not None:
            access.require(method.nodeid, role)
    return counter


async def main(port: int, folder: Path) -> None:
    server = await secure_server(
        f"opc.tcp://127.0.0.1:{port}/",
        identity=load_identity(folder / "plc.der", folder / "plc.key.pem"),
        trusted=TrustList(folder / "trusted"),
        writers=TrustList(folder / "writers"),
        users=UserBook.load(folder / "users.json"),
        limits=LIMITS,
        sign_only=True,
    )
    counter = await build(server)
    renewed = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, renewed.set)
    async with server:
        say("ready")
        closed = asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
        count = 0
        while not closed.done():
            count += 1
            await counter.write_value(count, ua.VariantType.UInt32)
            await asyncio.sleep(0.02)
            if renewed.is_set():
                renewed.clear()
                name = (folder / "current").read_text()
                await reload_identity(server, load_identity(folder / f"{name}.der", folder / f"{name}.key.pem"))
                say("renewed")


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), Path(sys.argv[2])))
