"""One attempt to connect: certificates, endpoint, channel, session; every failure with a name."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from asyncua import ua
from asyncua.crypto.security_policies import SecurityPolicyAes256Sha256RsaPss, SecurityPolicyBasic256Sha256
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding

from fieldbus.opcua.certificates import Identity, parse_key, read_key
from fieldbus.opcua.channel import ChannelClient
from fieldbus.opcua.discovery import endpoints_of, explain_failure, presented_certificates
from fieldbus.opcua.errors import CertificateError, OpcUaError
from fieldbus.opcua.failures import PEER_ERRORS, status_error, transport_error
from fieldbus.opcua.policies import PolicyChoice
from fieldbus.opcua.user import UserCredential

SESSION_MS = 60_000
"""How long a server keeps our session if we vanish: long enough for a hiccup, short enough to free its slots."""

CLOSE_S_MAX = 1.0
"""A peer that does not answer the goodbye is left after this long."""

ENDPOINTS_MAX = 64
"""Endpoints of one server: four policies with three modes on a few addresses."""

STRONGEST_FIRST: tuple[Any, ...] = (SecurityPolicyAes256Sha256RsaPss, SecurityPolicyBasic256Sha256)

_FIXED: dict[PolicyChoice, Any] = {
    PolicyChoice.BASIC256SHA256: SecurityPolicyBasic256Sha256,
    PolicyChoice.AES256_SHA256_RSAPSS: SecurityPolicyAes256Sha256RsaPss,
}


@dataclass(frozen=True, slots=True)
class Peer:
    """Whom to connect to, as whom, and how."""

    url: str
    policy: PolicyChoice = PolicyChoice.BASIC256SHA256
    user: UserCredential | None = None
    token_lifetime_s: float = 3_600.0


def key_of(identity: Identity) -> rsa.RSAPrivateKey:
    """The key of ``identity``, read anew; raises CertificateError as ``load_identity``, which has checked it whole."""
    key = parse_key(read_key(identity.key_path), label=str(identity.key_path), quick=True)
    if key.public_key() != identity.certificate.public_key():
        raise CertificateError(
            "key-mismatch",
            found=f"{identity.key_path} is another certificate's key",
            expected=f"the key of {identity.certificate_path}",
        )
    return key


async def establish(
    peer: Peer,
    *,
    identity: Identity,
    key: rsa.RSAPrivateKey,
    server: x509.Certificate,
    deadline_s: float,
    on_lost: Callable[[], None],
) -> ChannelClient:
    """An activated session, within ``deadline_s``; nothing is left open otherwise. Raises OpcUaError."""
    client = ChannelClient(peer.url, deadline_s=deadline_s, on_lost=on_lost, user=peer.user)
    client.name = client.description = "SITS Edge"
    client.application_uri = identity.application_uri
    client.session_timeout = SESSION_MS
    client.secure_channel_timeout = round(peer.token_lifetime_s * 1_000)
    established = done = False
    try:
        async with asyncio.timeout(deadline_s):
            policy = await _choose(peer, deadline_s)
            client.secure(policy, certificate=identity.certificate, key=key, server=server)
            await client.connect()
            established = True
            if peer.policy is PolicyChoice.STRONGEST:
                refuse_downgrade(policy, await client.get_endpoints())
            done = True
    except ua.UaStatusCodeError as error:
        if error.code == ua.StatusCodes.BadSecurityChecksFailed:  # a server that says so instead of staying silent
            await explain_failure(peer.url, server, client.security_policy.URI, deadline_s=deadline_s)
        raise status_error(int(error.code), doing=f"connecting to {peer.url}") from error
    except ConnectionRefusedError as error:
        raise transport_error(error, doing="connecting", url=peer.url) from error
    except PEER_ERRORS as error:
        await explain_failure(peer.url, server, client.security_policy.URI, deadline_s=deadline_s)
        raise transport_error(error, doing="connecting", url=peer.url) from error
    finally:
        if established and not done:
            await shut(client)
        elif not done:
            client.disconnect_socket()
    return client


async def _choose(peer: Peer, deadline_s: float) -> Any:
    if peer.policy is not PolicyChoice.STRONGEST:
        return _FIXED[peer.policy]
    endpoints = await endpoints_of(peer.url, deadline_s=deadline_s)
    policy = strongest(endpoints)
    if policy is None:
        raise OpcUaError(
            "security-policy",
            found=f"no such endpoint among {min(len(endpoints), ENDPOINTS_MAX)} of {peer.url}",
            expected="Aes256_Sha256_RsaPss or Basic256Sha256 with SignAndEncrypt",
            hint="switch one of them on in the server; nothing weaker is used",
        )
    return policy


def strongest(endpoints: list[Any]) -> Any | None:
    """The best policy with SignAndEncrypt among ``endpoints`` that we speak, or None."""
    encrypted = ua.MessageSecurityMode.SignAndEncrypt
    offered = {item.SecurityPolicyUri for item in endpoints[:ENDPOINTS_MAX] if item.SecurityMode == encrypted}
    return next((policy for policy in STRONGEST_FIRST if policy.URI in offered), None)


def refuse_downgrade(used: Any, authentic: list[Any]) -> None:
    """Raise ``policy-downgrade`` if the endpoints told under encryption have a better one than was used
    (OPC 10000-4, 5.7.2.2: the client compares both lists)."""
    best = strongest(authentic)
    if best is not None and best.URI != used.URI:
        raise OpcUaError(
            "policy-downgrade",
            found=f"{used.URI.rpartition('#')[2]} from an unprotected list of endpoints",
            expected=f"{best.URI.rpartition('#')[2]}, which the server has",
            hint="somebody between here and the server removed the better endpoint",
        )


async def pinned_now(url: str, pins: list[x509.Certificate], *, deadline_s: float) -> x509.Certificate:
    """Which of several pinned certificates the server presents: the first where it does not tell.

    What it presents is only a choice among pins; the channel then proves that it owns the key.
    """
    if len(pins) == 1:
        return pins[0]
    presented = await presented_certificates(url, deadline_s=deadline_s)
    return next((pin for pin in pins if pin.public_bytes(Encoding.DER) in presented), pins[0])


async def shut(client: Any) -> None:
    """Close session, channel and socket as far as the peer lets us."""
    try:
        async with asyncio.timeout(CLOSE_S_MAX):
            await client.disconnect()
    except PEER_ERRORS:
        client.disconnect_socket()
