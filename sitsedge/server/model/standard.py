"""What the nodes of the companion specifications have in common: nameplates, default names, namespace metadata."""

from __future__ import annotations

from typing import Any, Final

from asyncua import ua

from sitsedge.server.model.names import DI, MACHINERY, Edition
from sitsedge.server.model.spec import (
    ARRAY,
    BOOLEAN,
    BYTE,
    DATE_TIME,
    HAS_COMPONENT,
    HAS_INTERFACE,
    HAS_PROPERTY,
    HAS_SUBTYPE,
    INT32,
    LOCALIZED_TEXT,
    MANDATORY,
    OPTIONAL,
    PROPERTY,
    QUALIFIED_NAME,
    STRING,
    UA,
    UINT16,
    Id,
    Link,
    Name,
    Node,
    base,
)

_NAMESPACES: Final = base(ua.ObjectIds.Server_Namespaces)
_METADATA: Final = base(ua.ObjectIds.NamespaceMetadataType)
_MEANINGS: Final = {
    "Manufacturer": "Name of the company that made it.",
    "ManufacturerUri": "Unique identifier of the company that made it.",
    "Model": "Name of the product.",
    "HardwareRevision": "Revision of the hardware.",
    "SoftwareRevision": "Version of the software or firmware.",
    "DeviceRevision": "Revision of hardware and software together.",
    "ProductCode": "Code under which the product is ordered.",
    "DeviceManual": "Where the manual is: a path or an address.",
    "DeviceClass": "What it is used for.",
    "SerialNumber": "Number that the manufacturer gave to this one.",
    "ProductInstanceUri": "Globally unique identifier of this one, given by the manufacturer.",
    "RevisionCounter": "How often its configuration has changed; -1 where nobody counts.",
    "AssetId": "The plant's own identification of it.",
    "ComponentName": "The plant's own name for it.",
    "InitialOperationDate": "When it was first switched on at the plant.",
    "MonthOfConstruction": "Month in which it was made, 1 to 12.",
    "YearOfConstruction": "Year in which it was made.",
    "Location": "Where it stands, in the plant's own scheme.",
}
_NAMEPLATE: Final = {
    "Manufacturer": LOCALIZED_TEXT,
    "Model": LOCALIZED_TEXT,
    "ComponentName": LOCALIZED_TEXT,
    "RevisionCounter": INT32,
    "InitialOperationDate": DATE_TIME,
    "MonthOfConstruction": BYTE,
    "YearOfConstruction": UINT16,
}
"""DataTypes of the nameplate; all others are String."""
_OWN_OF_MACHINERY: Final = frozenset({"InitialOperationDate", "MonthOfConstruction", "YearOfConstruction", "Location"})


def object_type(
    node: Id, name: str, supertype: Id, meaning: str, *, abstract: bool = False, interfaces: tuple[Id, ...] = ()
) -> Node:
    """An ObjectType of one of the companion specifications."""
    return Node(
        node,
        Name(node.namespace, name),
        ua.NodeClass.ObjectType,
        meaning,
        supertype,
        HAS_SUBTYPE,
        abstract=abstract,
        links=tuple(Link(HAS_INTERFACE, interface) for interface in interfaces),
    )


def object_node(node: int, parent: Id, name: Name, definition: Id, meaning: str, *, rule: Id = OPTIONAL) -> Node:
    """An object that a type declares."""
    own, kind = Id(parent.namespace, node), ua.NodeClass.Object
    return Node(own, name, kind, meaning, parent, HAS_COMPONENT, type=definition, rule=rule)


def nameplate(parent: Id, optional: dict[str, int], mandatory: dict[str, int] | None = None) -> list[Node]:
    """Properties of a type by name; nearly all of their names are DI's, in Machinery's types too."""
    return [
        Node(
            Id(parent.namespace, number),
            Name(MACHINERY if name in _OWN_OF_MACHINERY else DI, name),
            ua.NodeClass.Variable,
            _MEANINGS[name],
            parent,
            HAS_PROPERTY,
            type=PROPERTY,
            rule=rule,
            data_type=_NAMEPLATE.get(name, STRING),
        )
        for rule, numbers in ((MANDATORY, mandatory or {}), (OPTIONAL, optional))
        for name, number in numbers.items()
    ]


def property_node(node: Id, parent: Id, name: str, data_type: Id, value: Any, meaning: str, *, rank: int = -1) -> Node:
    """A property without modelling rule: it belongs to this one node."""
    return Node(
        node,
        Name(UA, name),
        ua.NodeClass.Variable,
        meaning,
        parent,
        HAS_PROPERTY,
        type=PROPERTY,
        data_type=data_type,
        value=value,
        rank=rank,
    )


def default_name(node: int, parent: Id, name: Name) -> Node:
    """DefaultInstanceBrowseName of a type (OPC 10000-3)."""
    meaning = "How instances of this type are called."
    own = Id(parent.namespace, node)
    return property_node(own, parent, "DefaultInstanceBrowseName", QUALIFIED_NAME, name, meaning)


def enum_strings(node: Id, enumeration: Node) -> Node:
    """The EnumStrings of an enumeration that counts from 0 (OPC 10000-3, 5.8.3)."""
    texts = [ua.LocalizedText(value.name) for value in enumeration.values]
    meaning = "Names of the values, from 0."
    return property_node(node, enumeration.id, "EnumStrings", LOCALIZED_TEXT, texts, meaning, rank=ARRAY)


def metadata(edition: Edition, root: Id, numbers: dict[str, Id], *, subset: bool) -> list[Node]:
    """The NamespaceMetadata object of a namespace (OPC 10000-5, NamespaceMetadataType)."""
    meaning = f"Which edition of {edition.uri} this server shows" + (", in part." if subset else ".")
    top = Node(
        root,
        Name(edition.uri, edition.uri),
        ua.NodeClass.Object,
        meaning,
        _NAMESPACES,
        HAS_COMPONENT,
        type=_METADATA,
    )
    id_type, ranges = base(ua.ObjectIds.IdType), base(ua.ObjectIds.NumericRange)
    strings = isinstance(root.identifier, str)
    kind = ua.IdType.String if strings else ua.IdType.Numeric
    rows: tuple[tuple[str, Id, Any, int, str], ...] = (
        ("NamespaceUri", STRING, edition.uri, -1, "The namespace."),
        ("NamespaceVersion", STRING, edition.version, -1, "Version of the model."),
        ("NamespacePublicationDate", DATE_TIME, edition.published, -1, "When that version was published."),
        ("IsNamespaceSubset", BOOLEAN, subset, -1, "Whether this server leaves nodes of the namespace out."),
        ("StaticNodeIdTypes", id_type, [int(kind)], ARRAY, "Types of NodeIds that are the same on every server."),
        ("StaticNumericNodeIdRange", ranges, [] if strings else ["1:2147483647"], ARRAY, "Numeric NodeIds that are."),
        ("StaticStringNodeIdPattern", STRING, "%" if strings else "", -1, "String NodeIds that are (pattern of Like)."),
    )
    return [top, *(property_node(numbers[row[0]], root, row[0], row[1], row[2], row[4], rank=row[3]) for row in rows)]
