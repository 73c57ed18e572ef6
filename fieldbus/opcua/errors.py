"""Errors of the OPC UA layer; no OPC UA library is loaded for them."""

from __future__ import annotations

import logging

from fieldbus.errors import FieldbusError


class OpcUaError(FieldbusError):
    """A connection, service or node failed. ``code`` names the case."""


class CertificateError(OpcUaError):
    """A certificate, its key or the trust list is not usable."""


def quiet_asyncua() -> None:
    """For programs: keep asyncua's log (tracebacks for every refused peer) out of theirs.

    Everything it says that matters here is raised as an OpcUaError or logged by ``fieldbus.opcua`` itself.
    """
    logging.getLogger("asyncua").setLevel(logging.CRITICAL + 1)
