"""The part of OPC 10000-100 (DI) and OPC 40001-1 (Machinery) that the appliance shows itself by, node by node.

Identifiers, names, types and modelling rules are those of the published nodesets (DI 1.05.0, Machinery 1.04.1); a test
holds them against those files where they can be had. The descriptions are ours: the published files have few.
What is left out (topology, locking, transfer, software update, state machines) is said by IsNamespaceSubset.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

from asyncua import ua

from sitsedge.server.model.names import DI, MACHINERY, Edition, di, machinery
from sitsedge.server.model.spec import (
    ARRAY,
    BASE_OBJECT,
    BOOLEAN,
    BYTE,
    DATA_VARIABLE,
    DATE_TIME,
    ENUMERATION,
    FOLDER,
    HAS_COMPONENT,
    HAS_INTERFACE,
    HAS_PROPERTY,
    HAS_SUBTYPE,
    INT32,
    LOCALIZED_TEXT,
    MANDATORY,
    OPTIONAL,
    OPTIONAL_PLACEHOLDER,
    ORGANIZES,
    PROPERTY,
    QUALIFIED_NAME,
    STRING,
    UA,
    UINT16,
    EnumValue,
    Id,
    Link,
    Name,
    Node,
    base,
)
from sitsedge.server.model.view import Health

_OBJECTS: Final = base(ua.ObjectIds.ObjectsFolder)
_NAMESPACES: Final = base(ua.ObjectIds.Server_Namespaces)
_METADATA: Final = base(ua.ObjectIds.NamespaceMetadataType)
_INTERFACE: Final = base(ua.ObjectIds.BaseInterfaceType)

DEVICE_SET: Final = di(5001)
DEVICE_TYPE: Final = di(1002)
FUNCTIONAL_GROUP: Final = di(1005)
DEVICE_HEALTH_ENUMERATION: Final = di(6244)
HEALTH_ALARMS: Final = {
    Health.FAILURE: di(15292),
    Health.CHECK_FUNCTION: di(15441),
    Health.OFF_SPEC: di(15590),
    Health.MAINTENANCE_REQUIRED: di(15739),
}
MACHINES: Final = machinery(1001)
MACHINE_IDENTIFICATION: Final = machinery(1012)
COMPONENT_IDENTIFICATION: Final = machinery(1005)
MACHINE_COMPONENTS: Final = machinery(1006)

DI_EDITION: Final = Edition(DI, "1.05.0", datetime(2025, 11, 15, tzinfo=UTC))
MACHINERY_EDITION: Final = Edition(MACHINERY, "1.04.1", datetime(2026, 1, 1, tzinfo=UTC))

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


def _type(
    node: Id, name: str, supertype: Id, meaning: str, *, abstract: bool = False, interfaces: tuple[Id, ...] = ()
) -> Node:
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


def _object(node: int, parent: Id, name: Name, definition: Id, meaning: str, *, rule: Id = OPTIONAL) -> Node:
    own, kind = Id(parent.namespace, node), ua.NodeClass.Object
    return Node(own, name, kind, meaning, parent, HAS_COMPONENT, type=definition, rule=rule)


def _nameplate(parent: Id, optional: dict[str, int], mandatory: dict[str, int] | None = None) -> list[Node]:
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


def _property(node: Id, parent: Id, name: str, data_type: Id, value: Any, meaning: str, *, rank: int = -1) -> Node:
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


def _default_name(node: int, parent: Id, name: Name) -> Node:
    meaning = "How instances of this type are called."
    own = Id(parent.namespace, node)
    return _property(own, parent, "DefaultInstanceBrowseName", QUALIFIED_NAME, name, meaning)


def metadata(edition: Edition, root: Id, numbers: dict[str, Id], *, subset: bool) -> list[Node]:
    """The NamespaceMetadata object of a namespace (OPC 10000-5, 6.3.14)."""
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
    return [top, *(_property(numbers[row[0]], root, row[0], row[1], row[2], row[4], rank=row[3]) for row in rows)]


def _di_interfaces() -> list[Node]:
    vendor, tag, health = di(15035), di(15048), di(15051)
    names = (
        "Manufacturer ManufacturerUri Model HardwareRevision SoftwareRevision DeviceRevision ProductCode DeviceManual "
        "DeviceClass SerialNumber ProductInstanceUri RevisionCounter"
    )
    return [
        _type(vendor, "IVendorNameplateType", _INTERFACE, "What the vendor says of a thing.", abstract=True),
        *_nameplate(vendor, {name: 15036 + position for position, name in enumerate(names.split())}),
        _type(tag, "ITagNameplateType", _INTERFACE, "What the plant says of a thing.", abstract=True),
        *_nameplate(tag, {"AssetId": 15049, "ComponentName": 15050}),
        _type(health, "IDeviceHealthType", _INTERFACE, "How a device is.", abstract=True),
        *_health(15052, 15053, health),
    ]


def _health(health: int, alarms: int, parent: Id) -> list[Node]:
    meaning = "Status signal of NAMUR NE 107 that applies now."
    return [
        Node(
            di(health),
            Name(DI, "DeviceHealth"),
            ua.NodeClass.Variable,
            meaning,
            parent,
            HAS_COMPONENT,
            type=DATA_VARIABLE,
            rule=OPTIONAL,
            data_type=DEVICE_HEALTH_ENUMERATION,
        ),
        _object(alarms, parent, Name(DI, "DeviceHealthAlarms"), FOLDER, "The alarms behind the status signal."),
    ]


def _di_types() -> list[Node]:
    topology, component, group = di(1001), di(15063), FUNCTIONAL_GROUP
    component_names = (
        "Manufacturer ManufacturerUri Model HardwareRevision SoftwareRevision DeviceRevision ProductCode DeviceManual "
        "DeviceClass SerialNumber ProductInstanceUri RevisionCounter AssetId ComponentName"
    )
    mandatory = {
        "Manufacturer": 6003,
        "Model": 6004,
        "HardwareRevision": 6008,
        "SoftwareRevision": 6007,
        "DeviceRevision": 6006,
        "DeviceManual": 6005,
        "SerialNumber": 6001,
        "RevisionCounter": 6002,
    }
    optional = {"ManufacturerUri": 15100, "ProductCode": 15101, "DeviceClass": 6470, "ProductInstanceUri": 15102}
    return [
        _type(group, "FunctionalGroupType", FOLDER, "Values and methods that belong together."),
        _object(
            6027,
            group,
            Name(DI, "<GroupIdentifier>"),
            group,
            "A group inside the group.",
            rule=OPTIONAL_PLACEHOLDER,
        ),
        _type(topology, "TopologyElementType", BASE_OBJECT, "Anything in a device's topology.", abstract=True),
        _object(5002, topology, Name(DI, "ParameterSet"), BASE_OBJECT, "All parameters, flat."),
        _object(5003, topology, Name(DI, "MethodSet"), BASE_OBJECT, "All methods, flat."),
        _object(6014, topology, Name(DI, "Identification"), group, "What identifies it."),
        _type(
            component,
            "ComponentType",
            topology,
            "A device, a part of one, or software.",
            abstract=True,
            interfaces=(di(15035), di(15048)),
        ),
        *_nameplate(component, {name: 15086 + position for position, name in enumerate(component_names.split())}),
        _type(DEVICE_TYPE, "DeviceType", component, "A device.", abstract=True, interfaces=(di(15051),)),
        *_nameplate(DEVICE_TYPE, optional, mandatory),
        *_health(6208, 15105, DEVICE_TYPE),
    ]


def _di_alarms() -> list[Node]:
    alarm = di(15143)
    instrument = base(ua.ObjectIds.InstrumentDiagnosticAlarmType)
    names = {
        Health.FAILURE: ("FailureAlarmType", "Status signal F: the device does not do its work."),
        Health.CHECK_FUNCTION: ("CheckFunctionAlarmType", "Status signal C: what it says or does is not to be used."),
        Health.OFF_SPEC: ("OffSpecAlarmType", "Status signal S: it works outside of what it was made for."),
        Health.MAINTENANCE_REQUIRED: (
            "MaintenanceRequiredAlarmType",
            "Status signal M: somebody has to see to it soon.",
        ),
    }
    top = _type(
        alarm, "DeviceHealthDiagnosticAlarmType", instrument, "An alarm behind a device's health.", abstract=True
    )
    return [top, *(_type(HEALTH_ALARMS[health], name, alarm, meaning) for health, (name, meaning) in names.items())]


def _di_enumeration() -> list[Node]:
    meanings = {
        Health.NORMAL: "It does its work.",
        Health.FAILURE: "It does not do its work.",
        Health.CHECK_FUNCTION: "What it says or does is not to be used for now.",
        Health.OFF_SPEC: "It works outside of what it was made for.",
        Health.MAINTENANCE_REQUIRED: "It does its work; somebody has to see to it soon.",
    }
    values = tuple(EnumValue(int(health), health.name, meaning) for health, meaning in meanings.items())
    top = Node(
        DEVICE_HEALTH_ENUMERATION,
        Name(DI, "DeviceHealthEnumeration"),
        ua.NodeClass.DataType,
        "Status signals of NAMUR NE 107.",
        ENUMERATION,
        HAS_SUBTYPE,
        values=values,
    )
    return [top, enum_strings(di(6450), top)]


def enum_strings(node: Id, enumeration: Node) -> Node:
    """The EnumStrings of an enumeration that counts from 0 (OPC 10000-3, 5.8.3)."""
    texts = [ua.LocalizedText(value.name) for value in enumeration.values]
    meaning = "Names of the values, from 0."
    return _property(node, enumeration.id, "EnumStrings", LOCALIZED_TEXT, texts, meaning, rank=ARRAY)


def device_integration() -> list[Node]:
    """The nodes of OPC 10000-100, parents before children."""
    numbers = {
        "NamespaceUri": di(15002),
        "NamespaceVersion": di(15003),
        "NamespacePublicationDate": di(15004),
        "IsNamespaceSubset": di(15005),
        "StaticNodeIdTypes": di(15006),
        "StaticNumericNodeIdRange": di(15007),
        "StaticStringNodeIdPattern": di(15008),
    }
    meaning = "All devices that this server shows."
    device_set = Node(
        DEVICE_SET, Name(DI, "DeviceSet"), ua.NodeClass.Object, meaning, _OBJECTS, ORGANIZES, type=BASE_OBJECT
    )
    return [
        *metadata(DI_EDITION, di(15001), numbers, subset=True),
        *_di_enumeration(),
        *_di_interfaces(),
        *_di_types(),
        *_di_alarms(),
        device_set,
    ]


def _machinery_types() -> list[Node]:
    item, vendor, machine_vendor, machine_tag = machinery(1004), machinery(1003), machinery(1010), machinery(1011)
    identification, component, components = MACHINE_IDENTIFICATION, COMPONENT_IDENTIFICATION, MACHINE_COMPONENTS
    item_optional = {
        "AssetId": 6013,
        "ComponentName": 6014,
        "DeviceClass": 6012,
        "HardwareRevision": 6010,
        "InitialOperationDate": 6006,
        "ManufacturerUri": 6007,
        "Model": 6008,
        "MonthOfConstruction": 6005,
        "ProductCode": 6009,
        "ProductInstanceUri": 6001,
        "SoftwareRevision": 6011,
        "YearOfConstruction": 6004,
    }
    vendor_optional = {"InitialOperationDate": 6027, "MonthOfConstruction": 6026, "YearOfConstruction": 6025}
    called = Name(DI, "Identification")
    return [
        _type(vendor, "IMachineryItemVendorNameplateType", di(15035), "What its vendor says of it.", abstract=True),
        *_nameplate(vendor, vendor_optional, {"Manufacturer": 6022, "SerialNumber": 6024}),
        _type(machine_vendor, "IMachineVendorNameplateType", vendor, "What a machine's vendor says.", abstract=True),
        *_nameplate(machine_vendor, {}, {"ProductInstanceUri": 6023}),
        _type(machine_tag, "IMachineTagNameplateType", di(15048), "What the plant says of a machine.", abstract=True),
        *_nameplate(machine_tag, {"Location": 6028}),
        _type(
            item,
            "MachineryItemIdentificationType",
            FUNCTIONAL_GROUP,
            "Identification of a machine or a part of one.",
            abstract=True,
            interfaces=(vendor, di(15048)),
        ),
        *_nameplate(item, item_optional, {"Manufacturer": 6002, "SerialNumber": 6003}),
        _default_name(6088, item, called),
        _type(
            identification,
            "MachineIdentificationType",
            item,
            "Identification of a machine.",
            interfaces=(machine_tag, machine_vendor),
        ),
        *_nameplate(identification, {"Location": 6029}, {"ProductInstanceUri": 6015}),
        _default_name(6030, identification, called),
        _type(component, "MachineryComponentIdentificationType", item, "Identification of a part of a machine."),
        *_nameplate(component, {"DeviceRevision": 6017}),
        _default_name(6016, component, called),
        _type(components, "MachineComponentsType", BASE_OBJECT, "The parts of a machine."),
        _object(5002, components, Name(MACHINERY, "<Component>"), BASE_OBJECT, "A part.", rule=OPTIONAL_PLACEHOLDER),
        _default_name(6018, components, Name(MACHINERY, "Components")),
    ]


def machines() -> list[Node]:
    """The nodes of OPC 40001-1, parents before children; those of OPC 10000-100 have to be there."""
    numbers = {
        "NamespaceUri": machinery(6033),
        "NamespaceVersion": machinery(6034),
        "NamespacePublicationDate": machinery(6032),
        "IsNamespaceSubset": machinery(6031),
        "StaticNodeIdTypes": machinery(6035),
        "StaticNumericNodeIdRange": machinery(6036),
        "StaticStringNodeIdPattern": machinery(6037),
    }
    meaning = "All machines that this server shows."
    top = Node(MACHINES, Name(MACHINERY, "Machines"), ua.NodeClass.Object, meaning, _OBJECTS, ORGANIZES, type=FOLDER)
    return [*metadata(MACHINERY_EDITION, machinery(5001), numbers, subset=True), *_machinery_types(), top]
