"""OPC UA client and server helpers on asyncua: certificates, a locked-down server, a supervised client."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from fieldbus.opcua.certificates import (
    CertificateTerm,
    Identity,
    TrustList,
    create_identity,
    load_certificate,
    load_identity,
)
from fieldbus.opcua.errors import CertificateError, OpcUaError, quiet_asyncua
from fieldbus.opcua.findings import Finding, ItemRevision, Revisions
from fieldbus.opcua.options import Deadband, DeadbandKind, ItemOptions, SubscriptionOptions, Trigger
from fieldbus.opcua.own_identity import SharedIdentity
from fieldbus.opcua.paths import PathElement, format_path, in_namespace, parse_path
from fieldbus.opcua.policies import PolicyChoice, ReconnectPolicy
from fieldbus.opcua.renewal import Renewal
from fieldbus.opcua.user import UserCredential

if TYPE_CHECKING:
    from fieldbus.opcua.client import SecureClient
    from fieldbus.opcua.server import secure_server
    from fieldbus.opcua.subscription import ValueSubscription
    from fieldbus.opcua.values import ReadResult, TagValue, WriteResult

_LATER = {
    "SecureClient": "client",
    "secure_server": "server",
    "ValueSubscription": "subscription",
    "ReadResult": "values",
    "TagValue": "values",
    "WriteResult": "values",
}

__all__ = [
    "CertificateError",
    "CertificateTerm",
    "Deadband",
    "DeadbandKind",
    "Finding",
    "Identity",
    "ItemOptions",
    "ItemRevision",
    "OpcUaError",
    "PathElement",
    "PolicyChoice",
    "ReadResult",
    "ReconnectPolicy",
    "Renewal",
    "Revisions",
    "SecureClient",
    "SharedIdentity",
    "SubscriptionOptions",
    "TagValue",
    "Trigger",
    "TrustList",
    "UserCredential",
    "ValueSubscription",
    "WriteResult",
    "create_identity",
    "format_path",
    "in_namespace",
    "load_certificate",
    "load_identity",
    "parse_path",
    "quiet_asyncua",
    "secure_server",
]


def __getattr__(name: str) -> object:
    """Load asyncua, some half a second, only for who speaks OPC UA: certificates and errors work without."""
    if name not in _LATER:
        raise AttributeError(name)
    return getattr(import_module(f"fieldbus.opcua.{_LATER[name]}"), name)
