"""What a status or transport failure of a peer is called."""

from __future__ import annotations

import struct

from asyncua import ua
from cryptography.exceptions import InvalidSignature

from fieldbus.opcua.errors import OpcUaError

PEER_ERRORS = (
    ua.UaError,
    OSError,
    TimeoutError,
    EOFError,
    ValueError,
    TypeError,
    AttributeError,
    LookupError,
    ArithmeticError,
    AssertionError,
    RecursionError,
    NotImplementedError,
    struct.error,
    InvalidSignature,
)
"""What asyncua lets out when a peer is gone, silent, or answers with bytes its parsers did not foresee."""

SESSION_GONE = frozenset(
    {
        ua.StatusCodes.BadSessionIdInvalid,
        ua.StatusCodes.BadSessionClosed,
        ua.StatusCodes.BadSessionNotActivated,
        ua.StatusCodes.BadSecureChannelIdInvalid,
        ua.StatusCodes.BadSecureChannelClosed,
        ua.StatusCodes.BadConnectionClosed,
        ua.StatusCodes.BadServerHalted,
        ua.StatusCodes.BadShutdown,
    }
)
"""Answers after which nothing more comes of this connection."""

GOOD = 0

STATUS_CODES: dict[int, tuple[str, str]] = {
    0x801A0000: ("untrusted-certificate", "add this client's certificate to the server's trust list"),
    0x80130000: ("security-checks-failed", "the peer refuses our certificate or does not own the pinned one"),
    0x80140000: ("certificate-expired", "make a new certificate and let the peer trust it"),
    0x80120000: ("certificate-invalid", "check the certificate's application URI and key usage"),
    0x80170000: ("certificate-uri", "the certificate's application URI must be that of the application"),
    0x801F0000: ("access-denied", "this client may not do that; see the server's writers list"),
    0x80210000: ("identity-rejected", "the server wants another user identity"),
    0x80340000: ("node-missing", "the server no longer knows the node; re-resolve it"),
    0x80330000: ("node-missing", "the node id is not valid on this server"),
    0x803B0000: ("not-writable", "make the variable writable on the server"),
    0x80740000: ("value-type", "the variable has another data type"),
    0x80550000: ("security-policy", "the server must offer Basic256Sha256 with SignAndEncrypt"),
    0x800A0000: ("deadline", "the server did not answer in time"),
    0x80200000: ("identity-rejected", "the server refuses this user name or password"),
    0x80B80000: ("message-too-large", "the server sends or takes larger messages than agreed"),
    0x80B90000: ("message-too-large", "the server sends or takes larger messages than agreed"),
}
"""StatusCodes (OPC 10000-6, annex A) that have a name of their own here; others are ``status-<hex>``."""


def status_error(status: int, *, doing: str) -> OpcUaError:
    """The error for a bad StatusCode met while ``doing`` something."""
    code, hint = STATUS_CODES.get(status & 0xFFFF_0000, (f"status-{status:#010x}", ""))
    name = ua.status_codes.get_name_and_doc(status)[0]
    return OpcUaError(code, found=f"{name} while {doing}", expected="Good", hint=hint)


def transport_error(error: BaseException, *, doing: str, url: str) -> OpcUaError:
    """The error for a failed or silent connection."""
    if isinstance(error, TimeoutError):
        return OpcUaError(
            "deadline",
            found=f"no answer while {doing}",
            expected=f"an answer from {url} in time",
            hint="a write that got no answer may or may not have been applied: read back",
        )
    if isinstance(error, ConnectionRefusedError):
        return OpcUaError(
            "connection-refused",
            found=f"nothing listening at {url}",
            expected="an OPC UA server",
            hint="start the server or correct the address",
        )
    return OpcUaError(
        "connection-lost",
        found=f"{type(error).__name__} while {doing}",
        expected=f"a working connection to {url}",
        hint="the connection is retried by itself",
    )
