"""What a hostile client cannot do to ``secure_server``, tried with raw asyncua clients."""

from __future__ import annotations

from typing import Any

import pytest
from asyncua import Client, ua
from asyncua.crypto.security_policies import (
    SecurityPolicyAes128Sha256RsaOaep,
    SecurityPolicyAes256Sha256RsaPss,
    SecurityPolicyBasic256Sha256,
)

from fieldbus.opcua import Identity
from tests.fieldbus.opcua.support import MakeClient, Plc

ATTACK_ERRORS = (ua.UaError, OSError, TimeoutError)


async def test_two_policies_are_offered_and_none_without_encryption(shared_plc: Plc) -> None:
    endpoints = await Client(shared_plc.url).connect_and_get_server_endpoints()
    offered = {(item.SecurityPolicyUri, item.SecurityMode) for item in endpoints}
    policies = (SecurityPolicyBasic256Sha256, SecurityPolicyAes256Sha256RsaPss)
    assert offered == {(policy.URI, ua.MessageSecurityMode.SignAndEncrypt) for policy in policies}


async def test_no_session_without_security(shared_plc: Plc) -> None:
    client = Client(shared_plc.url, timeout=1)
    with pytest.raises(ATTACK_ERRORS):
        await client.connect()


async def test_an_unsecured_channel_can_only_ask_for_endpoints(shared_plc: Plc) -> None:
    """asyncua opens the channel, and by itself would make a session on it."""
    client = Client(shared_plc.url, timeout=1)
    await client.connect_sessionless()
    try:
        assert await client.get_endpoints()
        assert await client.uaclient.find_servers(ua.FindServersParameters(EndpointUrl=shared_plc.url))
        with pytest.raises(ATTACK_ERRORS):
            await create_unsecured_session(client)
        with pytest.raises(ATTACK_ERRORS):  # and it was cut off
            await client.get_endpoints()
    finally:
        client.disconnect_socket()


async def create_unsecured_session(client: Client) -> None:
    params = ua.CreateSessionParameters()
    params.ClientDescription.ApplicationUri = "urn:tests:attacker"
    params.EndpointUrl = client.server_url.geturl()
    params.SessionName = "attack"
    params.RequestedSessionTimeout = 10_000
    params.ClientNonce = bytes(32)
    result = await client.uaclient.session.create_session(params)
    client._server_nonce = result.ServerNonce
    client._policy_ids = []


async def test_a_live_session_cannot_be_taken_over_from_an_unsecured_channel(
    shared_plc: Plc, make_client: MakeClient
) -> None:
    """asyncua 2.1 attaches the session a token names before it checks who asks; tokens are small numbers."""
    async with make_client(shared_plc) as victim:
        token = victim._connection.client.uaclient.session.authentication_token
        gap = victim._connection.nodes["gap"].node_id
        await victim.write_many({"gap": 1.0})
        attacker = Client(shared_plc.url, timeout=1)
        await attacker.connect_sessionless()
        try:
            attacker.uaclient.session.restore_authentication_token(token)
            with pytest.raises(ATTACK_ERRORS):
                await attacker.activate_session()
            params = ua.WriteParameters()
            item = ua.WriteValue()
            item.NodeId = gap
            item.AttributeId = ua.AttributeIds.Value
            item.Value = ua.DataValue(ua.Variant(666.0, ua.VariantType.Double))
            params.NodesToWrite.append(item)
            with pytest.raises(ATTACK_ERRORS):
                await attacker.uaclient.session.write(params)
        finally:
            attacker.disconnect_socket()
        assert (await victim.read_many(["gap"]))[0].value == 1.0


@pytest.mark.parametrize(
    ("policy", "mode"),
    [
        (SecurityPolicyBasic256Sha256, ua.MessageSecurityMode.Sign),
        (SecurityPolicyAes256Sha256RsaPss, ua.MessageSecurityMode.Sign),
        (SecurityPolicyAes128Sha256RsaOaep, ua.MessageSecurityMode.SignAndEncrypt),
    ],
    ids=["sign-only", "sign-only-pss", "other-policy"],
)
async def test_other_policies_and_modes_are_refused_even_with_a_trusted_certificate(
    shared_plc: Plc, plant: dict[str, Identity], policy: Any, mode: Any
) -> None:
    gate = plant["gate"]
    client = Client(shared_plc.url, timeout=1)
    client.application_uri = gate.application_uri
    await client.set_security(
        policy,
        gate.certificate_path,
        gate.key_path,
        server_certificate=str(plant["plc"].certificate_path),
        mode=mode,
    )
    with pytest.raises(ATTACK_ERRORS):
        await client.connect()


async def test_a_user_name_does_not_help(shared_plc: Plc, plant: dict[str, Identity]) -> None:
    stranger = plant["stranger"]
    client = Client(shared_plc.url, timeout=1)
    client.application_uri = stranger.application_uri
    client.set_user("admin")
    client.set_password("admin")
    await client.set_security(
        SecurityPolicyBasic256Sha256,
        stranger.certificate_path,
        stranger.key_path,
        server_certificate=str(plant["plc"].certificate_path),
    )
    with pytest.raises(ua.uaerrors.BadCertificateUntrusted):
        await client.connect()


async def test_a_trusted_certificate_shown_on_anothers_channel_does_not_help(
    shared_plc: Plc, plant: dict[str, Identity]
) -> None:
    """CreateSession with the gate's certificate on the stranger's channel."""
    stranger, gate = plant["stranger"], plant["gate"]
    client = Client(shared_plc.url, timeout=1)
    client.application_uri = gate.application_uri
    await client.set_security(
        SecurityPolicyBasic256Sha256,
        stranger.certificate_path,
        stranger.key_path,
        server_certificate=str(plant["plc"].certificate_path),
    )
    await client.connect_sessionless()
    try:
        params = ua.CreateSessionParameters()
        params.ClientDescription.ApplicationUri = gate.application_uri
        params.ClientCertificate = gate.der
        params.EndpointUrl = shared_plc.url
        params.ClientNonce = bytes(32)
        params.RequestedSessionTimeout = 10_000
        with pytest.raises(ua.uaerrors.BadCertificateUntrusted):
            await client.uaclient.session.create_session(params)
    finally:
        client.disconnect_socket()


async def test_the_address_space_cannot_be_changed(shared_plc: Plc, make_client: MakeClient) -> None:
    async with make_client(shared_plc) as client:
        raw = client._connection.client
        with pytest.raises(ua.UaStatusCodeError):
            await raw.nodes.objects.add_variable(2, "Injected", 1.0)
        with pytest.raises(ua.UaStatusCodeError):
            await raw.delete_nodes([raw.get_node(client._connection.nodes["gap"].node_id)])
