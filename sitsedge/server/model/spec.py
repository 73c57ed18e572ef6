"""Nodes as plain descriptions, free of any server: what an address space is filled from and a nodeset is written from.

Namespaces are named by URI everywhere; only :mod:`.space` and :mod:`.nodeset` know the numbers a server or a file gives
them. Identifiers and names of the base namespace are those of OPC 10000-3, -5 and -9.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from asyncua import ua

UA: Final = "http://opcfoundation.org/UA/"
LOCAL: Final = ""
"""Stands for the server's own namespace (index 1, OPC 10000-3, 8.2.2), whose URI is that of the application."""


@dataclass(frozen=True, slots=True)
class Id:
    """A NodeId whose namespace is named."""

    namespace: str
    identifier: int | str


@dataclass(frozen=True, slots=True)
class Name:
    """A BrowseName whose namespace is named."""

    namespace: str
    text: str


def base(identifier: int) -> Id:
    """A node of the base namespace."""
    return Id(UA, identifier)


HAS_COMPONENT: Final = base(ua.ObjectIds.HasComponent)
HAS_PROPERTY: Final = base(ua.ObjectIds.HasProperty)
HAS_SUBTYPE: Final = base(ua.ObjectIds.HasSubtype)
HAS_INTERFACE: Final = base(ua.ObjectIds.HasInterface)
HAS_ADD_IN: Final = base(ua.ObjectIds.HasAddIn)
HAS_NOTIFIER: Final = base(ua.ObjectIds.HasNotifier)
HAS_CONDITION: Final = base(ua.ObjectIds.HasCondition)
HAS_EVENT_SOURCE: Final = base(ua.ObjectIds.HasEventSource)
GENERATES_EVENT: Final = base(ua.ObjectIds.GeneratesEvent)
ORGANIZES: Final = base(ua.ObjectIds.Organizes)
HAS_TYPE_DEFINITION: Final = base(ua.ObjectIds.HasTypeDefinition)
HAS_MODELLING_RULE: Final = base(ua.ObjectIds.HasModellingRule)

MANDATORY: Final = base(ua.ObjectIds.ModellingRule_Mandatory)
OPTIONAL: Final = base(ua.ObjectIds.ModellingRule_Optional)
OPTIONAL_PLACEHOLDER: Final = base(ua.ObjectIds.ModellingRule_OptionalPlaceholder)

BASE_OBJECT: Final = base(ua.ObjectIds.BaseObjectType)
FOLDER: Final = base(ua.ObjectIds.FolderType)
PROPERTY: Final = base(ua.ObjectIds.PropertyType)
DATA_VARIABLE: Final = base(ua.ObjectIds.BaseDataVariableType)
ANALOG_UNIT_RANGE: Final = base(ua.ObjectIds.AnalogUnitRangeType)
TWO_STATE: Final = base(ua.ObjectIds.TwoStateVariableType)
CONDITION_VARIABLE: Final = base(ua.ObjectIds.ConditionVariableType)

BOOLEAN: Final = base(ua.ObjectIds.Boolean)
BYTE: Final = base(ua.ObjectIds.Byte)
UINT16: Final = base(ua.ObjectIds.UInt16)
INT32: Final = base(ua.ObjectIds.Int32)
UINT32: Final = base(ua.ObjectIds.UInt32)
UINT64: Final = base(ua.ObjectIds.UInt64)
DOUBLE: Final = base(ua.ObjectIds.Double)
STRING: Final = base(ua.ObjectIds.String)
DATE_TIME: Final = base(ua.ObjectIds.DateTime)
BYTE_STRING: Final = base(ua.ObjectIds.ByteString)
NODE_ID: Final = base(ua.ObjectIds.NodeId)
QUALIFIED_NAME: Final = base(ua.ObjectIds.QualifiedName)
LOCALIZED_TEXT: Final = base(ua.ObjectIds.LocalizedText)
STATUS_CODE: Final = base(ua.ObjectIds.StatusCode)
UTC_TIME: Final = base(ua.ObjectIds.UtcTime)
DURATION: Final = base(ua.ObjectIds.Duration)
RANGE: Final = base(ua.ObjectIds.Range)
EU_INFORMATION: Final = base(ua.ObjectIds.EUInformation)
ARGUMENT: Final = base(ua.ObjectIds.Argument)
KEY_VALUE_PAIR: Final = base(ua.ObjectIds.KeyValuePair)
ENUMERATION: Final = base(ua.ObjectIds.Enumeration)

SCALAR: Final = -1
ARRAY: Final = 1

BUILT_IN: Final[Mapping[Id, ua.VariantType]] = {
    **{base(kind.value): kind for kind in ua.VariantType if 1 <= kind.value <= 25},
    base(ua.ObjectIds.NumericRange): ua.VariantType.String,
    UTC_TIME: ua.VariantType.DateTime,
    DURATION: ua.VariantType.Double,
    ENUMERATION: ua.VariantType.Int32,
    **dict.fromkeys((RANGE, EU_INFORMATION, ARGUMENT, KEY_VALUE_PAIR), ua.VariantType.ExtensionObject),
}
"""How a value of a DataType is encoded (OPC 10000-6, 5.1.2); enumerations of other namespaces are Int32."""


@dataclass(frozen=True, slots=True)
class EnumValue:
    """One value of an enumeration; they count from 0 without gaps, so that EnumStrings can hold them."""

    value: int
    name: str
    description: str


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of a method."""

    name: str
    data_type: Id
    description: str
    rank: int = SCALAR


@dataclass(frozen=True, slots=True)
class Link:
    """A reference beyond those to parent, type and modelling rule."""

    reference: Id
    target: Id


@dataclass(frozen=True, slots=True)
class Node:
    """One node. ``parent`` and ``reference``: where it hangs; a type's parent is its supertype.

    ``value`` is a plain value of ``data_type`` (``ua`` objects for structures); ``values`` are an enumeration's.
    ``links`` are references from it, ``inverse`` those to it.
    """

    id: Id
    name: Name
    kind: ua.NodeClass
    description: str
    parent: Id
    reference: Id
    type: Id | None = None
    rule: Id | None = None
    data_type: Id | None = None
    rank: int = SCALAR
    value: Any = None
    abstract: bool = False
    notifies: bool = False
    values: tuple[EnumValue, ...] = ()
    arguments: tuple[Argument, ...] = ()
    links: tuple[Link, ...] = ()
    inverse: tuple[Link, ...] = ()


class Types:
    """Types by id and what hangs below any node: what an instance is made from."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self._nodes: dict[Id, Node] = {}
        self._below: dict[Id, list[Node]] = {}
        for node in nodes:
            self._nodes[node.id] = node
            self._below.setdefault(node.parent, []).append(node)

    def declarations(self, type_id: Id | None) -> dict[Name, Node]:
        """Instance declarations of a type and its supertypes, those of a supertype first, overridden by name."""
        node = None if type_id is None else self._nodes.get(type_id)
        if node is None:
            return {}
        found = self.declarations(node.parent)
        found.update(self.below(node.id))
        return found

    def below(self, node_id: Id) -> dict[Name, Node]:
        """What hangs below one node and has a modelling rule."""
        return {node.name: node for node in self._below.get(node_id, ()) if node.rule is not None}


def completed(nodes: Iterable[Node], types: Types) -> Iterator[Node]:
    """The nodes and, below each instance declaration, what its own type makes mandatory and it does not declare itself.

    So whoever browses a type sees the whole of what an instance will have (OPC 10000-3, 6.2).
    """
    for node in nodes:
        yield node
        if node.rule is None or node.type is None:
            continue
        own = types.below(node.id)
        for name, declaration in types.declarations(node.type).items():
            if declaration.rule == MANDATORY and name not in own:
                copy_id = Id(node.id.namespace, f"{node.id.identifier}.{name.text}")
                yield from completed([replace(declaration, id=copy_id, parent=node.id)], types)


def instance(
    types: Types, root: Node, *, prefix: str, optional: frozenset[str], values: Mapping[str, Any]
) -> Iterator[Node]:
    """``root`` and everything its type declares: all that is mandatory, and the ``optional`` paths.

    Paths are names joined by dots, below the root; NodeIds of the instance are ``prefix`` and path in the server's own
    namespace. ``values``: by path, for what is fixed when the server starts.
    """
    yield root
    yield from _children(types, root, root.type, None, "", prefix, optional, values)


def _children(
    types: Types,
    node: Node,
    type_id: Id | None,
    declared: Id | None,
    path: str,
    prefix: str,
    optional: frozenset[str],
    values: Mapping[str, Any],
) -> Iterator[Node]:
    declarations = types.declarations(type_id)
    if declared is not None:
        declarations.update(types.below(declared))
    for declaration in declarations.values():
        own = f"{path}.{declaration.name.text}" if path else declaration.name.text
        if declaration.rule == OPTIONAL_PLACEHOLDER or (declaration.rule == OPTIONAL and own not in optional):
            continue
        made = replace(
            declaration,
            id=Id(LOCAL, f"{prefix}.{own}"),
            parent=node.id,
            rule=None,
            value=values.get(own, declaration.value),
        )
        yield made
        yield from _children(types, made, made.type, declaration.id, own, prefix, optional, values)
