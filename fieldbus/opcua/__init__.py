"""OPC UA client and server helpers on asyncua: certificates, a locked-down server, a supervised client."""

from fieldbus.opcua.certificates import Identity, TrustList, create_identity, load_certificate, load_identity
from fieldbus.opcua.client import ReconnectPolicy, SecureClient
from fieldbus.opcua.errors import CertificateError, OpcUaError, quiet_asyncua
from fieldbus.opcua.server_security import secure_server
from fieldbus.opcua.subscription import SubscriptionOptions, ValueSubscription
from fieldbus.opcua.values import ReadResult, TagValue, WriteResult

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
