"""Who may call or write what: three roles, and a rule per node.

A node nobody gave a rule to can be changed by no one once the server has a user book. What changes something
needs a named user besides the role: an application certificate alone names a machine, not a person.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from fieldbus.opcua.errors import OpcUaError


class Role(StrEnum):
    """Observers look, operators act within the deployment, engineers change it. Ordered by what they may do."""

    OBSERVER = "observer"
    OPERATOR = "operator"
    ENGINEER = "engineer"

    def __lt__(self, other: str) -> bool:
        return _RANK[self] < _RANK[Role(other)]

    def __le__(self, other: str) -> bool:
        return _RANK[self] <= _RANK[Role(other)]

    def __gt__(self, other: str) -> bool:
        return _RANK[self] > _RANK[Role(other)]

    def __ge__(self, other: str) -> bool:
        return _RANK[self] >= _RANK[Role(other)]


_RANK = {Role.OBSERVER: 0, Role.OPERATOR: 1, Role.ENGINEER: 2}


@dataclass(frozen=True, slots=True)
class Caller:
    """Who made a call. ``name`` is empty where no user signed in; ``role`` is the one in force at the call."""

    name: str
    role: Role
    application_uri: str


@dataclass(frozen=True, slots=True)
class _Rule:
    role: Role
    changes: bool


_CALLER: ContextVar[Caller] = ContextVar("fieldbus.opcua.server caller")


class Access:
    """The rules of one server; ``Access.of(server)`` of a server made by ``secure_server``."""

    __slots__ = ("_rules",)

    def __init__(self) -> None:
        self._rules: dict[Any, _Rule] = {}

    @staticmethod
    def of(server: Any) -> Access:
        """The rules of ``server``; raises OpcUaError ``not-guarded`` for one that has none."""
        access = getattr(server.iserver, "access", None)
        if not isinstance(access, Access):
            raise OpcUaError("not-guarded", found=f"{server}", expected="a server made by secure_server")
        return access

    def require(self, node_id: Any, role: Role, *, changes: bool | None = None) -> None:
        """Let ``role`` and above call this method, or write this variable (a NodeId, or a Node).

        ``changes``: what it does changes something, so that a named user is needed (default: whenever more than
        an observer is). Others get Bad_UserAccessDenied for that operation only.
        """
        self._rules[getattr(node_id, "nodeid", node_id)] = _Rule(
            role, role > Role.OBSERVER if changes is None else changes
        )

    def knows(self, node_id: Any) -> bool:
        """Whether a rule was given for this node."""
        return node_id in self._rules

    def changes(self, node_id: Any) -> bool:
        """Whether a rule says that calling or writing this node changes something."""
        rule = self._rules.get(node_id)
        return rule is not None and rule.changes

    def allows(self, node_id: Any, caller: Caller, *, writes: bool = False, writer: bool = True) -> bool:
        """Whether ``caller`` may do it. ``writes``: a Write, which always changes something. ``writer``: the
        application is one of those that may change anything at all."""
        rule = self._rules.get(node_id)
        if rule is None or caller.role < rule.role:
            return False
        return not (rule.changes or writes) or (writer and bool(caller.name))

    def caller(self) -> Caller:
        """Inside a method callback: who called. Raises OpcUaError ``no-caller`` outside of one."""
        try:
            return _CALLER.get()
        except LookupError:
            raise OpcUaError(
                "no-caller", found="no call of a client", expected="use inside a method callback"
            ) from None


@contextmanager
def calling(caller: Caller) -> Iterator[None]:
    """For the time of one call."""
    token = _CALLER.set(caller)
    try:
        yield
    finally:
        _CALLER.reset(token)
