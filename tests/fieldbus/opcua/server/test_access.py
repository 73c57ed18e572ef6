"""Users, roles and what a session may change, tried with asyncua's client against a server in another process."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from asyncua import ua
from asyncua.crypto.security_policies import SecurityPolicyAes256Sha256RsaPss

from fieldbus.opcua import Identity
from fieldbus.opcua.server import UserBook
from tests.fieldbus.opcua.server.shop import PASSWORDS, Shop, call, node_id, write

People = dict[str, Identity]
DENIED = "BadUserAccessDenied"


async def test_calls_are_allowed_by_role_and_each_on_its_own(shop: Shop, people: People) -> None:
    async with shop.session(people["panel"], "olga") as client:
        results = await call(client, "Tune", "Stop", "WhoInAThread")
    assert [status for status, _ in results] == [DENIED, "Good", "Good"]
    assert results[1][1] == results[2][1] == [["olga", "operator", "urn:tests:panel"]]


async def test_a_method_or_variable_without_a_rule_is_nobodys(shop: Shop, people: People) -> None:
    async with shop.session(people["panel"], "ed", policy=SecurityPolicyAes256Sha256RsaPss) as client:
        assert [status for status, _ in await call(client, "Unruled", "Tune")] == [DENIED, "Good"]
        assert await write(client, "Unruled", 2.0) == DENIED
        assert await write(client, "Gain", 2.0) == "Good"


async def test_nobody_anonymous_changes_anything_whatever_role_its_application_has(shop: Shop, people: People) -> None:
    async with shop.session(people["desk"]) as client:
        results = await call(client, "Who", "Stop", "Tune")
        assert results[0] == ("Good", [["", "engineer", "urn:tests:desk"]])
        assert [status for status, _ in results[1:]] == [DENIED, DENIED]
        assert await write(client, "Setpoint", 2.0) == DENIED


async def test_a_signed_channel_is_there_where_asked_for_and_encrypts_the_password(shop: Shop, people: People) -> None:
    async with shop.session(people["panel"], "olga", mode=ua.MessageSecurityMode.Sign) as client:
        assert (await call(client, "Stop"))[0][0] == "Good"


async def test_a_user_at_an_application_that_is_no_writer_changes_nothing(shop: Shop, people: People) -> None:
    async with shop.session(people["screen"], "ed") as client:
        assert [status for status, _ in await call(client, "Who", "Stop")] == ["Good", DENIED]
        assert await write(client, "Setpoint", 2.0) == DENIED


async def test_a_wrong_password_is_refused_like_an_unknown_name(shop: Shop, people: People) -> None:
    for user, password in (("olga", "wrong"), ("nobody", PASSWORDS["olga"]), ("olga", "")):
        client = await shop.client(people["evil"], user, password)
        with pytest.raises((ua.uaerrors.BadUserAccessDenied, ua.uaerrors.BadIdentityTokenInvalid)):
            await client.connect()
    async with shop.session(people["evil"], "ed") as client:
        assert (await call(client, "Who"))[0][1] == [["ed", "engineer", "urn:tests:evil"]]


async def test_a_signed_in_user_loses_the_role_with_the_entry(shop: Shop, people: People) -> None:
    path = shop.folder / "users.json"
    before = path.read_bytes()
    book = UserBook.load(path)
    async with shop.session(people["panel"], "olga") as client:
        assert (await call(client, "Stop"))[0][0] == "Good"
        book.remove("olga")
        book.save(path)
        assert (await call(client, "Stop"))[0][0] == DENIED
        assert (await call(client, "Who"))[0] == ("Good", [["", "observer", "urn:tests:panel"]])
        path.write_bytes(before[:-2])  # torn: nobody has a role
        async with shop.session(people["desk"]) as desk:
            assert (await call(desk, "Who"))[0][1][0][1] == "observer"
        path.write_bytes(before)
        assert (await call(client, "Stop"))[0][0] == "Good"


async def test_a_password_in_the_clear_or_played_again_is_refused(shop: Shop, people: People) -> None:
    async with shop.session(people["panel"], "olga") as client:
        session = client.uaclient.session
        params = ua.ActivateSessionParameters()
        params.ClientSignature.Algorithm = client.security_policy.AsymmetricSignatureURI
        token = ua.UserNameIdentityToken(PolicyId="username", UserName="ed")
        params.UserIdentityToken = token

        async def activate() -> None:
            challenge = client.security_policy.peer_certificate + client._server_nonce
            params.ClientSignature.Signature = client.security_policy.asymmetric_cryptography.signature(challenge)
            client._server_nonce = (await session.activate_session(params)).ServerNonce

        token.Password = PASSWORDS["ed"].encode()
        with pytest.raises(ua.uaerrors.BadIdentityTokenInvalid):
            await activate()
        token.Password, token.EncryptionAlgorithm = client._encrypt_password(
            PASSWORDS["ed"], client.security_policy.URI
        )
        await activate()  # the session goes on as another user
        assert (await call(client, "Tune"))[0] == ("Good", [["ed", "engineer", "urn:tests:panel"]])
        with pytest.raises(ua.uaerrors.BadIdentityTokenInvalid):
            await activate()


HOUR = dt.timedelta(hours=1)
REFUSED_WRITES: dict[str, tuple[str, str, tuple[Any, ...], dict[str, Any]]] = {
    "an array into a scalar": ("Setpoint", "BadTypeMismatch", ([1.0, 2.0],), {}),
    "a scalar into an array": ("Profile", "BadTypeMismatch", (1.0,), {}),
    "a matrix into an array": (
        "Profile",
        "BadTypeMismatch",
        (ua.Variant([[1.0], [2.0]], ua.VariantType.Double, Dimensions=[2, 1]),),
        {},
    ),
    "NaN": ("Setpoint", "BadOutOfRange", (float("nan"),), {}),
    "infinity": ("Setpoint", "BadOutOfRange", (float("-inf"),), {}),
    "NaN in an array": ("Profile", "BadOutOfRange", ([1.0, float("nan")],), {}),
    "a wrong type": ("Setpoint", "BadTypeMismatch", (1,), {}),
    "another integer": ("Count", "BadTypeMismatch", (1, ua.VariantType.Int32), {}),
    "a null": ("Setpoint", "BadTypeMismatch", (None,), {}),
    "the year 2099": (
        "Setpoint",
        "BadInvalidTimestamp",
        (1.0,),
        {"SourceTimestamp": dt.datetime(2099, 1, 1, tzinfo=dt.UTC)},
    ),
    "the year 2000": (
        "Setpoint",
        "BadInvalidTimestamp",
        (1.0,),
        {"SourceTimestamp": dt.datetime(2000, 1, 1, tzinfo=dt.UTC)},
    ),
    "a bad status": ("Setpoint", "BadWriteNotSupported", (1.0,), {"StatusCode": ua.StatusCode(ua.StatusCodes.Bad)}),
    "a locked variable": ("Locked", DENIED, (1.0,), {}),
}


async def test_values_that_do_not_fit_are_refused_by_name(shop: Shop, people: People) -> None:
    async with shop.session(people["panel"], "olga") as client:
        found = {
            name: await write(client, node, *value, **changes)
            for name, (node, _, value, changes) in REFUSED_WRITES.items()
        }
        assert found == {name: status for name, (_, status, _, _) in REFUSED_WRITES.items()}
        for name, value in {"Setpoint": 4.5, "Profile": [3.0], "Text": "b"}.items():
            assert await write(client, name, value, SourceTimestamp=dt.datetime.now(dt.UTC)) == "Good"
        item = ua.WriteValue(NodeId=node_id("Profile"), AttributeId=ua.AttributeIds.Value, IndexRange="0")
        item.Value = ua.DataValue(ua.Variant([9.0]), StatusCode=None)
        name_item = ua.WriteValue(NodeId=node_id("Setpoint"), AttributeId=ua.AttributeIds.BrowseName)
        name_item.Value = ua.DataValue(ua.Variant(ua.QualifiedName("x", 2)), StatusCode=None)
        results = await client.uaclient.session.write(ua.WriteParameters(NodesToWrite=[item, name_item]))
        assert [status.name for status in results] == ["BadIndexRangeInvalid", DENIED]
        assert await client.get_node(node_id("Profile")).read_value() == [3.0]
        assert await client.get_node(node_id("Setpoint")).read_value() == 4.5
