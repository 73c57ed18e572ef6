"""What a server answers is walked over before asyncua decodes it: the same walk that guards our own server.

asyncua's decoder believes lengths (see ``fieldbus.opcua.server.shape``): an answer of nine bytes may take all memory,
one with a negative length may never end. An answer that is no complete message within ``ANSWER_LIMITS``, or is to no
service that we call, ends the connection.
"""

from __future__ import annotations

from typing import Any

from asyncua import ua

from fieldbus.opcua.server.limits import Limits
from fieldbus.opcua.server.shape import ShapeError, check, service_number

ANSWER_LIMITS = Limits(string_bytes=1_048_576, array_length=20_000, elements=200_000)
"""A namespace array, endpoints with certificates and their chains, a thousand notifications, a long array of which we
only say that it is none of ours: all with room to spare."""

_SERVICES = (
    *("OpenSecureChannel", "GetEndpoints", "CreateSession", "ActivateSession", "CloseSession"),
    *("Read", "Write", "Call", "TranslateBrowsePathsToNodeIds"),
    *("CreateSubscription", "ModifySubscription", "DeleteSubscriptions", "Publish", "Republish"),
    *("CreateMonitoredItems", "DeleteMonitoredItems"),
)
ANSWERS: dict[int, Any] = {
    getattr(ua.ObjectIds, f"{name}Response_Encoding_DefaultBinary"): getattr(ua, f"{name}Response")
    for name in _SERVICES
} | {ua.ObjectIds.ServiceFault_Encoding_DefaultBinary: ua.ServiceFault}
"""By the number of their encoding: the services this client calls, and the fault any of them may end in."""


def check_answer(data: bytes) -> None:
    """Raise ShapeError unless ``data`` is one whole answer of a service that we call."""
    number = service_number(data, ANSWER_LIMITS)
    kind = None if number is None else ANSWERS.get(number)
    if kind is None:
        raise ShapeError(f"an answer of encoding {number}")
    check(kind, data, ANSWER_LIMITS)
