"""An OPC UA server that nobody can misuse: trusted applications, users with roles, limits on everything.

It is asyncua 2.1.0 (pinned) with the parts exchanged that let too much through; each module says what and why.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from fieldbus.opcua.server.limits import Limits
from fieldbus.opcua.server.roles import Access, Caller, Role
from fieldbus.opcua.server.users import UserBook

if TYPE_CHECKING:
    from fieldbus.opcua.server.secure import Figures, Product, SessionFigures, figures, reload_identity, secure_server

_LATER = frozenset({"Figures", "Product", "SessionFigures", "figures", "reload_identity", "secure_server"})

__all__ = [
    "Access",
    "Caller",
    "Figures",
    "Limits",
    "Product",
    "Role",
    "SessionFigures",
    "UserBook",
    "figures",
    "reload_identity",
    "secure_server",
]


def __getattr__(name: str) -> object:
    """Load asyncua, some half a second, only for who runs a server: books and roles work without."""
    if name not in _LATER:
        raise AttributeError(name)
    return getattr(import_module("fieldbus.opcua.server.secure"), name)
