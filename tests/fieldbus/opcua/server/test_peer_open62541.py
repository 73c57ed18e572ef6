"""open62541's client, under both policies and as a user, against the guarded server."""

from __future__ import annotations

import asyncio

import pytest

from fieldbus.opcua import Identity
from tests.fieldbus.opcua.server.shop import LIMITS, PASSWORDS, Shop
from tests.support import open62541


@pytest.mark.parametrize("policy", ["Basic256Sha256", "Aes256_Sha256_RsaPss"])
async def test_open62541_reads_writes_calls_browses_and_subscribes_as_a_user(
    shop: Shop, people: dict[str, Identity], policy: str
) -> None:
    who = people["panel"]
    options = open62541.identity_options(who.certificate_path, who.key_path, [shop.folder / "plc.der"])
    done = await asyncio.to_thread(
        open62541.client,
        f"url={shop.url}",
        f"policy={policy}",
        "mode=sign-encrypt",
        f"uri={who.application_uri}",
        *options,
        f"user=olga:{PASSWORDS['olga']}",
        "timeout=30000",
        "endpoints",
        "read|ns=2;s=Text",
        "write|ns=2;s=Setpoint|Double|2.5",
        "write|ns=2;s=Gain|Double|2.5",
        "browse|ns=2;s=Shop",
        "call|ns=2;s=Shop|ns=2;s=Stop()",
        "call|ns=2;s=Shop|ns=2;s=Tune()",
        "subscribe|ns=2;s=Counter|3|1",
    )
    statuses = [(entry["do"], entry["status"]) for entry in done]
    assert statuses == [
        ("endpoints", "Good"),
        ("read", "Good"),
        ("write", "Good"),
        ("write", "BadUserAccessDenied"),
        ("browse", "Good"),
        ("call", "Good"),
        ("call", "BadUserAccessDenied"),
        ("subscribe", "Good"),
    ], done
    assert all("None" not in offered for offered, _ in done[0]["endpoints"])
    assert len(done[4]["nodes"]) == LIMITS.references_per_node
    assert done[7]["interval_ms"] == LIMITS.publishing_ms_min
    assert len(done[7]["values"]) == 3
