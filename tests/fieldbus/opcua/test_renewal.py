"""Renewal of our certificate: the old one is in use until the server has accepted the new one."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from fieldbus.opcua import (
    CertificateError,
    Identity,
    Renewal,
    SecureClient,
    SharedIdentity,
    TrustList,
    create_identity,
    load_identity,
)
from fieldbus.opcua.certificates import term
from tests.fieldbus.opcua.support import MakeClient, Wild, free_port

NOW = dt.datetime.now(dt.UTC)


def ending(folder: Path, days: int = 10) -> Identity:
    """An identity with that many days left."""
    start = NOW - dt.timedelta(days=30)
    return create_identity(folder, "bridge", application_uri="urn:tests:bridge", not_before=start, days=30 + days)


def renewal(folder: Path, **changes: object) -> Renewal:
    arguments: dict[str, object] = {"days_before": 60, "days": 365, "probe_s": 0.05}
    return Renewal(folder, "bridge", **(arguments | changes))  # type: ignore[arg-type]


def public(identity: Identity) -> rsa.RSAPublicKey:
    key = identity.certificate.public_key()
    assert isinstance(key, rsa.RSAPublicKey)
    return key


@pytest.mark.parametrize("new_key", [False, True], ids=["same-key", "new-key"])
def test_the_next_certificate_is_made_in_time_and_takes_over_by_a_rename(tmp_path: Path, new_key: bool) -> None:
    current = ending(tmp_path)
    plan = renewal(tmp_path, new_key=new_key)
    early = current.certificate.not_valid_after_utc - dt.timedelta(days=61)
    assert plan.prepare(current, now=early) is None
    following = plan.prepare(current)
    assert following is not None
    assert (public(following) == public(current)) is not new_key
    assert following.application_uri == current.application_uri
    assert plan.prepare(current) == following  # once made it waits
    assert plan.load() == current
    promoted = plan.promote()
    assert promoted.certificate == following.certificate
    assert plan.load() == promoted
    assert plan.following() is None
    assert term(promoted.certificate, label="own", now=NOW).days_left >= 364
    previous_key = tmp_path / ("bridge.previous.key.pem" if new_key else "bridge.key.pem")
    assert load_identity(tmp_path / "bridge.previous.der", previous_key).certificate == current.certificate


def test_a_take_over_cut_off_between_key_and_certificate_is_finished(tmp_path: Path) -> None:
    current = ending(tmp_path)
    plan = renewal(tmp_path, new_key=True)
    following = plan.prepare(current)
    assert following is not None
    (tmp_path / "bridge.next.key.pem").replace(tmp_path / "bridge.key.pem")  # and then the power went
    with pytest.raises(CertificateError, match="key-mismatch"):
        load_identity(current.certificate_path, current.key_path)
    assert plan.load().certificate == following.certificate
    assert not plan.recover()


def test_a_preparation_cut_off_before_its_certificate_is_made_again(tmp_path: Path) -> None:
    current = ending(tmp_path)
    (tmp_path / "bridge.next.key.pem").write_bytes(b"half a k")
    plan = renewal(tmp_path, new_key=True)
    assert plan.following() is None
    assert not plan.recover()
    assert plan.prepare(current) is not None


def test_a_renewal_must_fit_into_a_certificates_life(tmp_path: Path) -> None:
    for wrong in ({"days_before": 0}, {"days_before": 365}, {"probe_s": 0.0}):
        with pytest.raises(ValueError, match="renewed"):
            renewal(tmp_path, **wrong)


async def test_the_old_certificate_is_used_until_the_server_trusts_the_new_one(
    wild: Wild, make_wild_client: MakeClient, tmp_path: Path
) -> None:
    trusted = TrustList(wild.folder / "trusted")
    current = ending(tmp_path)
    added = [trusted.add(current.certificate)]
    plan = renewal(tmp_path)
    client: SecureClient = make_wild_client(wild, identity=current, renewal=plan)
    try:
        async with client, asyncio.timeout(60):
            while len(client.certificates) < 3:  # the file is there before the client knows that it has made it
                await asyncio.sleep(0.01)
            codes = {item.code: item.text for item in client.findings}
            assert set(codes) == {"certificate-expiry", "certificate-renewal"}
            assert [item.label for item in client.certificates] == ["own", "server", "own-next"]
            following = plan.following()
            assert following is not None
            assert following.thumbprint in codes["certificate-renewal"]
            assert client.identity == current
            added.append(trusted.add(following.certificate))
            while client.identity.certificate != following.certificate:
                await asyncio.sleep(0.01)
            assert client.findings == ()
            assert client.connects_total == 1  # the running connection was not touched
        added[0].unlink()
        async with make_wild_client(wild, identity=plan.load()) as again:
            assert again.connected
    finally:
        for path in added:
            path.unlink(missing_ok=True)


async def test_a_current_certificate_that_has_ended_gives_way_to_the_next(
    wild: Wild, make_wild_client: MakeClient, tmp_path: Path
) -> None:
    trusted = TrustList(wild.folder / "trusted")
    plan = renewal(tmp_path)
    ended = ending(tmp_path, days=-1)
    following = plan.prepare(ended)
    assert following is not None
    path = trusted.add(following.certificate)
    try:
        async with make_wild_client(wild, identity=ended, renewal=plan) as client:
            assert client.identity.certificate == following.certificate
    finally:
        path.unlink()


async def until(happened: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not happened():
            await asyncio.sleep(0.01)


async def test_with_two_servers_each_gets_the_certificate_that_it_trusts_until_both_trust_the_next(
    wild: Wild, make_wild_client: MakeClient, folder: Path, tmp_path: Path
) -> None:
    late = Wild(folder, free_port())
    late.start()
    current = ending(tmp_path)
    plan = renewal(tmp_path)
    shared = SharedIdentity(current, plan)
    lists = [TrustList(server.folder / "trusted") for server in (wild, late)]
    added = [trusted.add(current.certificate) for trusted in lists]
    clients = [make_wild_client(server, identity=shared) for server in (wild, late)]
    ours, others = clients
    try:
        for client in clients:
            await client.connect()
        await until(lambda: plan.following() is not None)
        following = plan.following()
        assert following is not None
        added.append(lists[0].add(following.certificate))
        await until(lambda: ours.identity == following)
        assert (others.identity, plan.load()) == (current, current)  # the late one keeps the old one, and so do files
        codes = [{item.code for item in client.findings} for client in clients]
        assert codes == [{"certificate-expiry"}, {"certificate-expiry", "certificate-renewal"}]

        added[0].unlink()  # the early server has done with the old certificate
        for server, client in zip((wild, late), clients, strict=True):
            server.do("cut")
            await until(lambda client=client: client.connects_total == 2)  # type: ignore[misc]
        assert (ours.identity, others.identity, plan.load()) == (following, current, current)

        added.append(lists[1].add(following.certificate))
        await until(lambda: plan.load().certificate == following.certificate)
        assert {client.identity.certificate for client in clients} == {following.certificate}
        assert (tmp_path / "bridge.previous.der").read_bytes() == current.der
        assert [client.findings for client in clients] == [(), ()]
    finally:
        for client in clients:
            await client.close()
        late.stop()
        for path in added:
            path.unlink(missing_ok=True)


async def test_what_servers_have_accepted_is_forgotten_when_it_is_another_certificate_or_refused(
    tmp_path: Path,
) -> None:
    current = ending(tmp_path)
    plan = renewal(tmp_path)
    shared = SharedIdentity(current, plan)
    first, second = shared.join(), shared.join()
    following = await first.prepare()
    assert following is not None
    await first.accepted(following)
    assert (first.choices(), second.choices()) == ((following, current), (current, following))
    first.refused(following)
    assert first.current == current
    await first.accepted(following)
    (tmp_path / "bridge.next.der").unlink()
    another = await second.prepare()
    assert another not in (None, following)
    assert first.current == current
    await first.accepted(following)  # of a connection that began before
    await second.accepted(another)
    assert plan.load() == current
    await first.accepted(another)
    assert (first.current, plan.load().certificate) == (second.current, another.certificate)


async def test_whoever_only_looks_makes_nothing_and_promotes_nothing(tmp_path: Path) -> None:
    current = ending(tmp_path)
    plan = renewal(tmp_path)
    shared = SharedIdentity(current, plan, look_only=True)
    member = shared.join()
    assert (member.renewal, await member.prepare(), plan.following()) == (None, None, None)
    following = plan.prepare(current)
    assert following is not None
    await member.look()
    assert member.choices() == (current, following)
    await member.accepted(following)
    assert plan.load() == current
    with pytest.raises(ValueError, match="a renewal of its own"):
        SecureClient(
            "opc.tcp://x", identity=shared, server_certificate=tmp_path, namespace_uri="x", tags={}, renewal=plan
        )
