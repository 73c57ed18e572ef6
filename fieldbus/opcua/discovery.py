"""What a server tells without security: its endpoints and their certificates.

Nothing learnt here is trusted. It explains a failure, or chooses among what the configuration allows anyway.
"""

from __future__ import annotations

import asyncio
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes

from fieldbus.opcua.channel import ChannelClient
from fieldbus.opcua.errors import OpcUaError
from fieldbus.opcua.failures import PEER_ERRORS


async def refuse_other_server(url: str, pinned: x509.Certificate, *, deadline_s: float) -> None:
    """Raise OpcUaError ``server-certificate`` if the server at ``url`` presents another one than ``pinned``.

    Returns quietly when it does not tell. Nothing learnt here is trusted: it only explains a failure.
    """
    presented = await presented_certificates(url, deadline_s=deadline_s)
    digest = hashes.SHA256()
    expected = pinned.fingerprint(digest).hex()
    found: set[str] = set()
    for der in presented:
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


async def endpoints_of(url: str, *, deadline_s: float) -> list[Any]:
    """EndpointDescriptions of the server at ``url``; raises what ``PEER_ERRORS`` lists."""
    client = ChannelClient(url, deadline_s=deadline_s, on_lost=lambda: None)
    async with asyncio.timeout(deadline_s):
        return list(await client.connect_and_get_server_endpoints())


async def presented_certificates(url: str, *, deadline_s: float) -> frozenset[bytes]:
    """Certificates (DER) that the server's endpoints name; empty when it does not tell."""
    try:
        endpoints = await endpoints_of(url, deadline_s=deadline_s)
    except PEER_ERRORS:
        return frozenset()
    return frozenset(bytes(endpoint.ServerCertificate) for endpoint in endpoints if endpoint.ServerCertificate)
