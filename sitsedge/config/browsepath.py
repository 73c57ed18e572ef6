"""Browse paths of OPC UA variables in deployment and gate files, checked when the file is read."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator

from fieldbus.opcua.errors import OpcUaError
from fieldbus.opcua.paths import parse_path


def browse_path(text: str) -> str:
    """``text`` itself, if it is a browse path (see :mod:`fieldbus.opcua.paths`). Raises ValueError."""
    try:
        parse_path(text)
    except OpcUaError as error:
        raise ValueError(f"{error.expected} (there is {error.found})") from None
    return text


BrowsePath = Annotated[str, AfterValidator(browse_path)]
"""Names joined by ``/``, each in the configured namespace or with its own: ``nsu=URI;Name``."""
