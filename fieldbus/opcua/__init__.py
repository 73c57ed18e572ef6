"""OPC UA client and server helpers on asyncua: certificates, a locked-down server, a supervised client."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from fieldbus.opcua.certificates import Identity, TrustList, create_identity, load_certificate, load_identity
from fieldbus.opcua.errors import CertificateError, OpcUaError, quiet_asyncua

if TYPE_CHECKING:
    from fieldbus.opcua.client import ReconnectPolicy, SecureClient
    from fieldbus.opcua.server import secure_server
    from fieldbus.opcua.subscription import SubscriptionOptions, ValueSubscription
    from fieldbus.opcua.values import ReadResult, TagValue, WriteResult

_LATER = {
    "ReconnectPolicy": "client",
    "SecureClient": "client",
    "secure_server": "server",
    "SubscriptionOptions": "subscription",
    "ValueSubscription": "subscription",
    "ReadResult": "values",
    "TagValue": "values",
    "WriteResult": "values",
}

__all__ = [
    "CertificateError",
    "Identity",
    "OpcUaError",
    "ReadResult",
    "ReconnectPolicy",
    "SecureClient",
    "SubscriptionOptions",
    "TagValue",
    "TrustList",
    "ValueSubscription",
    "WriteResult",
    "create_identity",
    "load_certificate",
    "load_identity",
    "quiet_asyncua",
    "secure_server",
]


def __getattr__(name: str) -> object:
    """Load asyncua, some half a second, only for who speaks OPC UA: certificates and errors work without."""
    if name not in _LATER:
        raise AttributeError(name)
    return getattr(import_module(f"fieldbus.opcua.{_LATER[name]}"), name)
