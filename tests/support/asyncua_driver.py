"""asyncua as an OPC UA client in a process of its own: JSON lines in and out (see :mod:`tests.support.opcua_peers`)."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import sys
from pathlib import Path
from typing import Any

from asyncua import Client, ua
from asyncua.crypto import security_policies

POLICIES = {
    "Basic256Sha256": security_policies.SecurityPolicyBasic256Sha256,
    "Aes256_Sha256_RsaPss": security_policies.SecurityPolicyAes256Sha256RsaPss,
}
KINDS: dict[str, Any] = {
    "text": lambda value: ua.Variant(value, ua.VariantType.String),
    "localized": lambda value: ua.Variant(ua.LocalizedText(value), ua.VariantType.LocalizedText),
    "hex": lambda value: ua.Variant(bytes.fromhex(value), ua.VariantType.ByteString),
    "int32": lambda value: ua.Variant(value, ua.VariantType.Int32),
    "uint32": lambda value: ua.Variant(value, ua.VariantType.UInt32),
    "uint64": lambda value: ua.Variant(value, ua.VariantType.UInt64),
}


def plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return {"hex": value.hex()}
    if isinstance(value, dt.datetime):
        return value.isoformat()
    if isinstance(value, ua.NodeId):
        return value.to_string()
    if isinstance(value, ua.LocalizedText):
        return value.Text
    if isinstance(value, list):
        return [plain(item) for item in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return str(value)


class Driver:
    """One client; every command of the protocol is a method."""

    def __init__(self) -> None:
        self.client: Any = None
        self.events: asyncio.Queue[list[Any]] = asyncio.Queue()
        self.names: list[str] = []

    async def connect(self, url: str, policy: str, folder: str, name: str, server: str, **user: str) -> dict[str, Any]:
        self.client = Client(url, timeout=10)
        self.client.application_uri = f"urn:test:{name}"
        if policy != "None":
            base = Path(folder) / name
            await self.client.set_security(
                POLICIES[policy], f"{base}.der", f"{base}.key.pem", None, server, ua.MessageSecurityMode.SignAndEncrypt
            )
        if user:
            self.client.set_user(user["user"])
            self.client.set_password(user["password"])
        await self.client.connect()
        return {}

    async def read(self, ids: list[str]) -> dict[str, Any]:
        nodes = [self.client.get_node(item) for item in ids]
        values = await self.client.uaclient.read_attributes([node.nodeid for node in nodes], ua.AttributeIds.Value)
        return {
            "values": [plain(value.Value.Value if value.Value is not None else None) for value in values],
            "status": [value.StatusCode.name for value in values],
        }

    async def write(self, id: str, int32: int) -> dict[str, Any]:  # noqa: A002
        try:
            await self.client.get_node(id).write_value(KINDS["int32"](int32))
        except ua.UaStatusCodeError as error:
            return {"status": ua.StatusCode(error.code).name}
        return {"status": "Good"}

    async def call(self, object: str, method: str, args: list[list[Any]]) -> dict[str, Any]:  # noqa: A002
        request = ua.CallMethodRequest(
            ObjectId=ua.NodeId.from_string(object),
            MethodId=ua.NodeId.from_string(method),
            InputArguments=[KINDS[kind](value) for kind, value in args],
        )
        (result,) = await self.client.uaclient.call([request])
        return {
            "status": result.StatusCode.name,
            "outputs": [plain(variant.Value) for variant in result.OutputArguments or []],
        }

    async def subscribe(self, fields: list[str], type: str) -> dict[str, Any]:  # noqa: A002
        self.names = [*fields, "ConditionId"]
        subscription = await self.client.create_subscription(100, self)
        clauses = [
            ua.SimpleAttributeOperand(
                TypeDefinitionId=ua.NodeId(ua.ObjectIds.BaseEventType),
                BrowsePath=[ua.QualifiedName(part, 0) for part in name.split(".")],
                AttributeId=ua.AttributeIds.Value,
            )
            for name in fields
        ]
        clauses.append(
            ua.SimpleAttributeOperand(
                TypeDefinitionId=ua.NodeId(ua.ObjectIds.ConditionType),
                BrowsePath=[],
                AttributeId=ua.AttributeIds.NodeId,
            )
        )
        of_type = ua.ContentFilterElement(
            FilterOperator=ua.FilterOperator.OfType,
            FilterOperands=[ua.LiteralOperand(Value=ua.Variant(ua.NodeId.from_string(type), ua.VariantType.NodeId))],
        )
        chosen = ua.EventFilter(SelectClauses=clauses, WhereClause=ua.ContentFilter(Elements=[of_type]))
        await subscription.subscribe_events(ua.ObjectIds.Server, evfilter=chosen, queuesize=100)
        return {"subscription": subscription.subscription_id}

    async def alarms(self) -> dict[str, Any]:
        """asyncua's own filter: every field of every alarm type, in one list of all types."""
        subscription = await self.client.create_subscription(100, self)
        await subscription.subscribe_alarms_and_conditions(evtypes=ua.ObjectIds.AlarmConditionType)
        return {}

    def event_notification(self, event: Any) -> None:
        if self.names:
            self.events.put_nowait([field.Value for field in event.event_fields])
        else:
            self.events.put_nowait([event.ConditionName])

    async def event(self, timeout: float) -> dict[str, Any]:
        try:
            async with asyncio.timeout(timeout):
                values = await self.events.get()
        except TimeoutError:
            return {"event": None}
        return {"event": dict(zip(self.names or ["ConditionName"], map(plain, values), strict=True))}

    async def close(self) -> dict[str, Any]:
        if self.client is not None:
            await self.client.disconnect()
        return {}


async def main() -> None:
    driver = Driver()
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        request = json.loads(line)
        name = request.pop("do")
        try:
            answer = {"ok": True, **await getattr(driver, name)(**request)}
        except (ua.UaError, OSError, TimeoutError) as error:
            answer = {"ok": False, "error": str(error) or type(error).__name__}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
        if name == "close":
            break


if __name__ == "__main__":
    asyncio.run(main())
