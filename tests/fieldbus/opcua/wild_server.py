"""An OPC UA server that misbehaves when told to, run as its own process by the subscription tests.

Arguments: port, folder with identity ``plc`` and trust list ``trusted``. Prints ``ready``, then answers each line of
its input, a command and its arguments, with ``ok``; ends when its input closes.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import asyncua.common.connection
from asyncua import Server, ua
from asyncua.server.internal_subscription import InternalSubscription
from asyncua.server.monitored_item_service import MonitoredItemService
from asyncua.server.subscription_service import SubscriptionService
from asyncua.server.uaprocessor import UaProcessor
from cryptography import x509

from fieldbus.opcua import Identity, TrustList, load_identity

NAMESPACE = "urn:tests:mill"
POLICIES = [
    ua.SecurityPolicyType.Basic256Sha256_SignAndEncrypt,
    ua.SecurityPolicyType.Aes256Sha256RsaPss_SignAndEncrypt,
]
PASSWORDS = {"anna": "correct horse", None: None}


class Wild:
    """What the server does wrong at the moment, and the address space it does it with."""

    def __init__(self) -> None:
        self.drop = 0
        """Notifications to swallow; with ``forget`` they cannot be republished either."""
        self.forget = False
        self.repeat = 0
        self.mute = False
        self.tell_renewals = False
        """A new value shortly after each renewal of a channel, before the client has used its new token."""
        self.publishing_ms: float | None = None
        self.sampling_ms: float | None = None
        self.queue_max: int | None = None
        self.refuse_deadbands = False
        self.renewals: list[asyncio.Task[None]] = []
        self.server: Any = None
        self.index = 0
        self.mill: Any = None
        self.nodes: dict[str, Any] = {}

    async def build(self, server: Any) -> None:
        self.server = server
        self.index = await server.register_namespace(NAMESPACE)
        self.mill = await server.nodes.objects.add_object(self.index, "Mill")
        for name in ("Gap", "Speed", "Level"):
            await self.do_add(name)
        await self.nodes["Level"].add_property(
            ua.NodeId("Level.EURange", self.index), "0:EURange", ua.Range(0.0, 200.0)
        )
        self.nodes["Profile"] = await self.mill.add_variable(self.index, "Profile", [1.0, 2.0])

    async def do_add(self, name: str, identifier: str = "") -> None:
        node_id = ua.NodeId(identifier or name, self.index)
        self.nodes[name] = await self.mill.add_variable(node_id, ua.QualifiedName(name, self.index), 0.0)

    async def do_remove(self, name: str) -> None:
        await self.server.delete_nodes([self.nodes.pop(name)])

    async def do_write(self, name: str, value: str, status: str = "0", age_s: str = "0") -> None:
        moment = dt.datetime.now(dt.UTC) - dt.timedelta(seconds=float(age_s))
        data = ua.DataValue(
            ua.Variant(float(value), ua.VariantType.Double),
            StatusCode=ua.StatusCode(int(status, 0)),
            SourceTimestamp=moment,
            SourcePicoseconds=1234,
        )
        await self.server.iserver.write_attribute_value(self.nodes[name].nodeid, data)

    async def do_set(self, name: str, value: str) -> None:
        """An attribute of ours: drop, forget, repeat, mute, publishing_ms, …"""
        setattr(self, name, None if value == "none" else type(getattr(self, name) or 0.0)(float(value)))

    async def do_state(self, value: str) -> None:
        node = self.server.get_node(ua.ObjectIds.Server_ServerStatus_State)
        await node.write_value(ua.ServerState(int(value)), ua.VariantType.Int32)

    async def do_level(self, value: str) -> None:
        node = self.server.get_node(ua.ObjectIds.Server_ServiceLevel)
        await node.write_value(int(value), ua.VariantType.Byte)

    async def do_status(self, code: str) -> None:
        for subscription in self.outside():
            await subscription.enqueue_statuschange(ua.StatusCode(int(code, 0)))

    async def do_end(self) -> None:
        """Delete every client's subscriptions, as a foreign session or a restart of the server's own part does."""
        service = self.server.iserver.subscription_service
        await service.delete_subscriptions([int(item.data.SubscriptionId) for item in self.outside()])

    async def do_skew(self, seconds: str) -> None:
        """The clock that the secure channel tells times by is off."""
        shift_clock(float(seconds))

    async def do_cut(self) -> None:
        for processor in list(self.server.bserver.clients):
            processor.transport.abort()

    async def tell_of_renewal(self) -> None:
        await asyncio.sleep(0.05)
        await self.do_write("Gap", str(1e6 + len(self.renewals)))

    def outside(self) -> list[Any]:
        service = self.server.iserver.subscription_service
        return [item for item in service.subscriptions.values() if item.pub_request_callback is not None]


wild = Wild()


def misbehave() -> None:
    """Put the misbehaviour between asyncua's parts."""
    forward = UaProcessor.forward_publish_response
    publish = InternalSubscription.publish_results
    create = SubscriptionService.create_subscription
    item = MonitoredItemService._create_data_change_monitored_item
    opened = asyncua.common.connection.SecureConnection.open

    async def forward_publish_response(self: Any, result: Any, requestdata: Any) -> None:
        if wild.drop and result.NotificationMessage.NotificationData:
            wild.drop -= 1
            self._publish_requests.appendleft(requestdata)
            if wild.forget:
                for subscription in wild.outside():
                    subscription._not_acknowledged_results.pop(result.NotificationMessage.SequenceNumber, None)
            return
        await forward(self, result, requestdata)
        if wild.repeat and result.NotificationMessage.NotificationData and self._publish_requests:
            wild.repeat -= 1
            await forward(self, result, self._publish_requests.popleft())

    async def publish_results(self: Any, requestdata: Any = None) -> bool:
        if wild.mute and self.pub_request_callback is not None:
            return False
        return bool(await publish(self, requestdata))

    async def create_subscription(self: Any, params: Any, *rest: Any, **named: Any) -> Any:
        result = await create(self, params, *rest, **named)
        if wild.publishing_ms:
            result.RevisedPublishingInterval = wild.publishing_ms
        return result

    async def create_item(self: Any, params: Any) -> Any:
        change = params.RequestedParameters.Filter
        if wild.refuse_deadbands and getattr(change, "DeadbandType", ua.DeadbandType.None_) != ua.DeadbandType.None_:
            return ua.MonitoredItemCreateResult(StatusCode=ua.StatusCode(ua.StatusCodes.BadFilterNotAllowed))
        result = await item(self, params)
        if wild.sampling_ms:
            result.RevisedSamplingInterval = wild.sampling_ms
        if wild.queue_max:
            result.RevisedQueueSize = min(result.RevisedQueueSize, int(wild.queue_max))
        return result

    def open_channel(self: Any, params: Any, server: Any) -> Any:
        if wild.tell_renewals and params.RequestType == ua.SecurityTokenRequestType.Renew:
            wild.renewals.append(asyncio.create_task(wild.tell_of_renewal()))
        return opened(self, params, server)

    asyncua.common.connection.SecureConnection.open = open_channel
    UaProcessor.forward_publish_response = forward_publish_response
    InternalSubscription.publish_results = publish_results
    SubscriptionService.create_subscription = create_subscription
    MonitoredItemService._create_data_change_monitored_item = create_item


def shift_clock(seconds: float) -> None:
    class Shifted(dt.datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return dt.datetime.now(tz) + dt.timedelta(seconds=seconds)

    asyncua.common.connection.datetime = Shifted  # type: ignore[misc]


class Users:
    """Trusted applications with a known name and password, or with none."""

    def __init__(self, trusted: TrustList) -> None:
        self._trusted = trusted

    def get_user(self, iserver: Any, username: Any = None, password: Any = None, certificate: Any = None) -> Any:
        from asyncua.crypto.permission_rules import User, UserRole

        if not certificate or PASSWORDS.get(username, "") != password:
            return None
        self._trusted.check(x509.load_der_x509_certificate(certificate), label="the client")
        return User(role=UserRole.User, name=username)


async def main(port: int, folder: Path) -> None:
    identity: Identity = load_identity(folder / "plc.der", folder / "plc.key.pem")
    misbehave()
    server = Server(user_manager=Users(TrustList(folder / "trusted")))
    await server.init()
    await server.set_application_uri(identity.application_uri)
    server.set_endpoint(f"opc.tcp://127.0.0.1:{port}/")
    server.set_security_policy(POLICIES)
    server.set_identity_tokens([ua.AnonymousIdentityToken, ua.UserNameIdentityToken])
    await server.load_certificate(str(identity.certificate_path))
    await server.load_private_key(identity.key_path)
    await wild.build(server)
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    async with server:
        say("ready")
        while line := await reader.readline():
            command, *arguments = line.decode().split()
            method: Callable[..., Awaitable[None]] = getattr(wild, f"do_{command}")
            await method(*arguments)
            say("ok")


def say(word: str) -> None:
    sys.stdout.write(word + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), Path(sys.argv[2])))
