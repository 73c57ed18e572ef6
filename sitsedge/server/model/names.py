"""The namespaces, and shorthands for identifiers in them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from sitsedge.server.model.spec import UA, Id, Name

DI: Final = "http://opcfoundation.org/UA/DI/"
MACHINERY: Final = "http://opcfoundation.org/UA/Machinery/"
SITS: Final = "urn:sits-edge:appliance"
"""Types of the appliance. Instances are in the namespace of their server, whose URI is that of its application."""


@dataclass(frozen=True, slots=True)
class Edition:
    """One version of an information model; ``needs``: the oldest versions of others that it can stand on."""

    uri: str
    version: str
    published: datetime
    needs: tuple[Edition, ...] = ()


SITS_EDITION: Final = Edition(
    SITS,
    "1.0.0",
    datetime(2026, 11, 30, tzinfo=UTC),
    (
        Edition(UA, "1.05.02", datetime(2022, 11, 1, tzinfo=UTC)),
        Edition(DI, "1.04.0", datetime(2022, 11, 3, tzinfo=UTC)),
        Edition(MACHINERY, "1.02.0", datetime(2022, 5, 1, tzinfo=UTC)),
    ),
)


def di(identifier: int) -> Id:
    """A node of OPC 10000-100."""
    return Id(DI, identifier)


def machinery(identifier: int) -> Id:
    """A node of OPC 40001-1."""
    return Id(MACHINERY, identifier)


def sits(path: str) -> Id:
    """A node of ours; the identifier is the path of names from its type on."""
    return Id(SITS, path)


def sits_name(text: str) -> Name:
    """A name of ours."""
    return Name(SITS, text)
