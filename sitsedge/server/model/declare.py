"""Short ways to describe the nodes of our own types: NodeId, name and parent of a node follow from its path."""

from __future__ import annotations

from dataclasses import replace

from asyncua import ua

from sitsedge.server.model.device_integration import FUNCTIONAL_GROUP
from sitsedge.server.model.names import sits, sits_name
from sitsedge.server.model.spec import (
    ARGUMENT,
    ARRAY,
    DATA_VARIABLE,
    ENUMERATION,
    HAS_COMPONENT,
    HAS_PROPERTY,
    HAS_SUBTYPE,
    KEY_VALUE_PAIR,
    MANDATORY,
    PROPERTY,
    SCALAR,
    UA,
    Argument,
    EnumValue,
    Id,
    Name,
    Node,
)
from sitsedge.server.model.standard import enum_strings


def _split(path: str) -> tuple[Id, str]:
    parent, _, name = path.rpartition(".")
    return sits(parent), name


def own_type(name: str, supertype: Id, meaning: str) -> Node:
    """An ObjectType."""
    return Node(sits(name), sits_name(name), ua.NodeClass.ObjectType, meaning, supertype, HAS_SUBTYPE)


def group(path: str, meaning: str, *, kind: Id = FUNCTIONAL_GROUP, rule: Id = MANDATORY) -> Node:
    """An object that holds others."""
    parent, name = _split(path)
    own, called = sits(path), sits_name(name)
    return Node(own, called, ua.NodeClass.Object, meaning, parent, HAS_COMPONENT, type=kind, rule=rule)


def variable(path: str, data_type: Id, meaning: str, *, rank: int = SCALAR, rule: Id = MANDATORY) -> Node:
    """A DataVariable."""
    parent, name = _split(path)
    return Node(
        sits(path),
        sits_name(name),
        ua.NodeClass.Variable,
        meaning,
        parent,
        HAS_COMPONENT,
        type=DATA_VARIABLE,
        rule=rule,
        data_type=data_type,
        rank=rank,
    )


def variables(group: str, *rows: tuple[str, Id, str]) -> list[Node]:
    """Mandatory DataVariables of one group: name, DataType, meaning."""
    return [variable(f"{group}.{name}", data_type, meaning) for name, data_type, meaning in rows]


def properties(group: str, *rows: tuple[Name, Id, str]) -> list[Node]:
    """Mandatory properties of a type: name, DataType, meaning."""
    return [
        Node(
            sits(f"{group}.{name.text}"),
            name,
            ua.NodeClass.Variable,
            meaning,
            sits(group),
            HAS_PROPERTY,
            type=PROPERTY,
            rule=MANDATORY,
            data_type=data_type,
        )
        for name, data_type, meaning in rows
    ]


def tables(group: str, *rows: tuple[str, str]) -> list[Node]:
    """Counts by code or reason: the code as QualifiedName, how often as UInt64."""
    return [variable(f"{group}.{name}", KEY_VALUE_PAIR, meaning, rank=ARRAY) for name, meaning in rows]


def method(path: str, meaning: str, inputs: tuple[Argument, ...], outputs: tuple[Argument, ...]) -> list[Node]:
    """A method with its arguments."""
    parent, name = _split(path)
    top = Node(sits(path), sits_name(name), ua.NodeClass.Method, meaning, parent, HAS_COMPONENT, rule=MANDATORY)
    return [
        top,
        _arguments(path, "InputArguments", "What the method is given.", inputs),
        _arguments(path, "OutputArguments", "What the method returns.", outputs),
    ]


def _arguments(path: str, name: str, meaning: str, arguments: tuple[Argument, ...]) -> Node:
    (node,) = properties(path, (Name(UA, name), ARGUMENT, meaning))
    return replace(node, rank=ARRAY, arguments=arguments)


def enumeration(own: Id, name: str, meaning: str, values: tuple[EnumValue, ...]) -> list[Node]:
    """An enumeration and its EnumStrings."""
    top = Node(own, sits_name(name), ua.NodeClass.DataType, meaning, ENUMERATION, HAS_SUBTYPE, values=values)
    return [top, enum_strings(sits(f"{name}.EnumStrings"), top)]
