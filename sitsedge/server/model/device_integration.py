"""The part of OPC 10000-100 (DI) that the appliance shows itself by, node by node.

Identifiers, names, types and modelling rules are those of the published nodeset (1.05.0); a test holds them against
that file where it can be had. The descriptions are ours: the published file has few. What is left out (topology,
locking, transfer, software update) is said by IsNamespaceSubset.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from asyncua import ua

from sitsedge.server.model.names import DI, Edition, di
from sitsedge.server.model.spec import (
    BASE_OBJECT,
    DATA_VARIABLE,
    ENUMERATION,
    FOLDER,
    HAS_COMPONENT,
    HAS_SUBTYPE,
    OPTIONAL,
    OPTIONAL_PLACEHOLDER,
    ORGANIZES,
    EnumValue,
    Id,
    Name,
    Node,
    base,
)
from sitsedge.server.model.standard import enum_strings, metadata, nameplate, object_node, object_type
from sitsedge.server.model.view import Health

_OBJECTS: Final = base(ua.ObjectIds.ObjectsFolder)
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
DI_EDITION: Final = Edition(DI, "1.05.0", datetime(2025, 11, 15, tzinfo=UTC))


def _di_interfaces() -> list[Node]:
    vendor, tag, health = di(15035), di(15048), di(15051)
    names = (
        "Manufacturer ManufacturerUri Model HardwareRevision SoftwareRevision DeviceRevision ProductCode DeviceManual "
        "DeviceClass SerialNumber ProductInstanceUri RevisionCounter"
    )
    return [
        object_type(vendor, "IVendorNameplateType", _INTERFACE, "What the vendor says of a thing.", abstract=True),
        *nameplate(vendor, {name: 15036 + position for position, name in enumerate(names.split())}),
        object_type(tag, "ITagNameplateType", _INTERFACE, "What the plant says of a thing.", abstract=True),
        *nameplate(tag, {"AssetId": 15049, "ComponentName": 15050}),
        object_type(health, "IDeviceHealthType", _INTERFACE, "How a device is.", abstract=True),
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
        object_node(alarms, parent, Name(DI, "DeviceHealthAlarms"), FOLDER, "The alarms behind the status signal."),
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
        object_type(group, "FunctionalGroupType", FOLDER, "Values and methods that belong together."),
        object_node(
            6027,
            group,
            Name(DI, "<GroupIdentifier>"),
            group,
            "A group inside the group.",
            rule=OPTIONAL_PLACEHOLDER,
        ),
        object_type(topology, "TopologyElementType", BASE_OBJECT, "Anything in a device's topology.", abstract=True),
        object_node(5002, topology, Name(DI, "ParameterSet"), BASE_OBJECT, "All parameters, flat."),
        object_node(5003, topology, Name(DI, "MethodSet"), BASE_OBJECT, "All methods, flat."),
        object_node(6014, topology, Name(DI, "Identification"), group, "What identifies it."),
        object_type(
            component,
            "ComponentType",
            topology,
            "A device, a part of one, or software.",
            abstract=True,
            interfaces=(di(15035), di(15048)),
        ),
        *nameplate(component, {name: 15086 + position for position, name in enumerate(component_names.split())}),
        object_type(DEVICE_TYPE, "DeviceType", component, "A device.", abstract=True, interfaces=(di(15051),)),
        *nameplate(DEVICE_TYPE, optional, mandatory),
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
    top = object_type(
        alarm, "DeviceHealthDiagnosticAlarmType", instrument, "An alarm behind a device's health.", abstract=True
    )
    return [
        top,
        *(object_type(HEALTH_ALARMS[health], name, alarm, meaning) for health, (name, meaning) in names.items()),
    ]


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
