"""What a server tells without security: its endpoints and their certificates.

Nothing learnt here is trusted. It explains a failure, or chooses among what the configuration allows anyway.
"""

from __future__ import annotations

import asyncio
from typing import Any

from asyncua import ua
from cryptography import x509
from cryptography.hazmat.primitives import hashes

from fieldbus.opcua.channel import ChannelClient
from fieldbus.opcua.errors import OpcUaError
from fieldbus.opcua.failures import PEER_ERRORS


async def explain_failure(url: str, pinned: x509.Certificate, policy_uri: str, *, deadline_s: float) -> None:
    """Raise OpcUaError ``server-certificate`` if the server at ``url`` presents another certificate than ``pinned``,
    ``security-policy`` if it does not offer ``policy_uri`` with SignAndEncrypt.

    Returns quietly when it does not tell.
    """
    try:
        endpoints = await endpoints_of(url, deadline_s=deadline_s)
    except PEER_ERRORS:
        return
    digest = hashes.SHA256()
    expected = pinned.fingerprint(digest).hex()
    found: set[str] = set()
    for der in _certificates(endpoints):
        try:
            found.add(x509.load_der_x509_certificate(der).fingerprint(digest).hex())
        except ValueError:
            found.add("(unreadable)")
    if found and expected not in found:
        raise OpcUaError(
            "server-certificate",
            found=f"another certificate at {url}: SHA-256 {', '.join(sorted(found))}",
            expected=f"the pinned one, SHA-256 {expected}",
            hint="if the server's certificate was renewed on purpose, pin the new one",
        )
    encrypted = ua.MessageSecurityMode.SignAndEncrypt
    offered = {str(item.SecurityPolicyUri) for item in endpoints if item.SecurityMode == encrypted}
    if endpoints and policy_uri not in offered:
        names = ", ".join(sorted(uri.rpartition("#")[2] for uri in offered)) or "nothing encrypted"
        raise OpcUaError(
            "security-policy",
            found=f"{names} at {url}",
            expected=f"{policy_uri.rpartition('#')[2]} with SignAndEncrypt",
            hint="switch it on in the server, or choose another policy",
        )


async def endpoints_of(url: str, *, deadline_s: float) -> list[Any]:
    """EndpointDescriptions of the server at ``url``; raises what ``PEER_ERRORS`` lists."""
    client = ChannelClient(url, deadline_s=deadline_s, on_lost=lambda: None)
    async with asyncio.timeout(deadline_s):
        return list(await client.connect_and_get_server_endpoints())


async def presented_certificates(url: str, *, deadline_s: float) -> frozenset[bytes]:
    """Certificates (DER) that the server's endpoints name; empty when it does not tell."""
    try:
        return _certificates(await endpoints_of(url, deadline_s=deadline_s))
    except PEER_ERRORS:
        return frozenset()


def _certificates(endpoints: list[Any]) -> frozenset[bytes]:
    return frozenset(bytes(endpoint.ServerCertificate) for endpoint in endpoints if endpoint.ServerCertificate)
