"""Why does a server not answer? Ask it, without security, which certificate it has: for a better error only."""

from __future__ import annotations

import asyncio

from asyncua import Client
from cryptography import x509
from cryptography.hazmat.primitives import hashes

from fieldbus.opcua.errors import OpcUaError
from fieldbus.opcua.failures import PEER_ERRORS


async def refuse_other_server(url: str, pinned: x509.Certificate, *, deadline_s: float) -> None:
    """Raise OpcUaError ``server-certificate`` if the server at ``url`` presents another one than ``pinned``.

    Returns quietly when it does not tell. Nothing learnt here is trusted: it only explains a failure.
    """
    client = Client(url, timeout=deadline_s)
    try:
        async with asyncio.timeout(deadline_s):
            endpoints = await client.connect_and_get_server_endpoints()
    except PEER_ERRORS:
        return
    presented = {bytes(endpoint.ServerCertificate) for endpoint in endpoints if endpoint.ServerCertificate}
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
