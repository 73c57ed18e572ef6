"""The part of OPC 40001-1 (Machinery) that the appliance's machine is shown by, node by node.

Identifiers, names, types and modelling rules are those of the published nodeset (1.04.1), as in
:mod:`.device_integration`. What is left out (state machines, counters, monitoring) is said by IsNamespaceSubset.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from asyncua import ua

from sitsedge.server.model.device_integration import FUNCTIONAL_GROUP
from sitsedge.server.model.names import DI, MACHINERY, Edition, di, machinery
from sitsedge.server.model.spec import BASE_OBJECT, FOLDER, OPTIONAL_PLACEHOLDER, ORGANIZES, Name, Node, base
from sitsedge.server.model.standard import default_name, metadata, nameplate, object_node, object_type

_OBJECTS: Final = base(ua.ObjectIds.ObjectsFolder)
MACHINES: Final = machinery(1001)
MACHINE_IDENTIFICATION: Final = machinery(1012)
COMPONENT_IDENTIFICATION: Final = machinery(1005)
MACHINE_COMPONENTS: Final = machinery(1006)
MACHINERY_EDITION: Final = Edition(MACHINERY, "1.04.1", datetime(2026, 1, 1, tzinfo=UTC))


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
        object_type(
            vendor, "IMachineryItemVendorNameplateType", di(15035), "What its vendor says of it.", abstract=True
        ),
        *nameplate(vendor, vendor_optional, {"Manufacturer": 6022, "SerialNumber": 6024}),
        object_type(
            machine_vendor, "IMachineVendorNameplateType", vendor, "What a machine's vendor says.", abstract=True
        ),
        *nameplate(machine_vendor, {}, {"ProductInstanceUri": 6023}),
        object_type(
            machine_tag, "IMachineTagNameplateType", di(15048), "What the plant says of a machine.", abstract=True
        ),
        *nameplate(machine_tag, {"Location": 6028}),
        object_type(
            item,
            "MachineryItemIdentificationType",
            FUNCTIONAL_GROUP,
            "Identification of a machine or a part of one.",
            abstract=True,
            interfaces=(vendor, di(15048)),
        ),
        *nameplate(item, item_optional, {"Manufacturer": 6002, "SerialNumber": 6003}),
        default_name(6088, item, called),
        object_type(
            identification,
            "MachineIdentificationType",
            item,
            "Identification of a machine.",
            interfaces=(machine_tag, machine_vendor),
        ),
        *nameplate(identification, {"Location": 6029}, {"ProductInstanceUri": 6015}),
        default_name(6030, identification, called),
        object_type(component, "MachineryComponentIdentificationType", item, "Identification of a part of a machine."),
        *nameplate(component, {"DeviceRevision": 6017}),
        default_name(6016, component, called),
        object_type(components, "MachineComponentsType", BASE_OBJECT, "The parts of a machine."),
        object_node(
            5002, components, Name(MACHINERY, "<Component>"), BASE_OBJECT, "A part.", rule=OPTIONAL_PLACEHOLDER
        ),
        default_name(6018, components, Name(MACHINERY, "Components")),
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
