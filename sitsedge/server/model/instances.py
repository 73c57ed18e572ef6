"""The nodes of one appliance: the device, its machine, its outputs and processes, all in the server's own namespace.

NodeIds are ``Appliance`` or ``Machine`` and the path of names: ``Appliance.Epoch.Number``. They do not hold the
device's name, so that a client's configuration serves any appliance; who it talks to is what the nameplate says.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from asyncua import ua

from sitsedge.server.model.appliance import APPLIANCE_TYPE
from sitsedge.server.model.conditions import condition_nodes
from sitsedge.server.model.config import DeviceIdentity, MachineIdentity, ModelConfig, Output
from sitsedge.server.model.device_integration import DEVICE_SET
from sitsedge.server.model.machines import MACHINE_COMPONENTS, MACHINE_IDENTIFICATION, MACHINES
from sitsedge.server.model.names import DI, MACHINERY, sits_name
from sitsedge.server.model.parts import OUTPUT_TYPE, PROCESS_TYPE
from sitsedge.server.model.spec import (
    BASE_OBJECT,
    DOUBLE,
    HAS_ADD_IN,
    HAS_COMPONENT,
    HAS_NOTIFIER,
    LOCAL,
    Id,
    Link,
    Name,
    Node,
    Types,
    base,
    instance,
)
from sitsedge.server.model.units import engineering_units

APPLIANCE: Final = "Appliance"
MACHINE: Final = "Machine"
DEVICE: Final = Id(LOCAL, APPLIANCE)
ALARMS: Final = Id(LOCAL, f"{APPLIANCE}.DeviceHealthAlarms")
BESIDE: Final = {"bridge": "Bridge", "prover": "Prover"}
"""Groups that are there only with a process."""

_NAMEPLATE: Final = (
    "ManufacturerUri",
    "ProductCode",
    "DeviceClass",
    "ProductInstanceUri",
    "AssetId",
    "ComponentName",
)
_GROUPS: Final = ("FrameToVerdict", "Proof", "Gate", "Write", "EndToEnd")


def appliance_nodes(config: ModelConfig, types: Types) -> Iterator[Node]:
    """Everything of one appliance, parents before children."""
    yield from _device(config, types)
    for output in config.outputs:
        yield from _output(output, types)
    for name in config.processes:
        yield from _process(name, types)
    if config.machine is not None:
        yield from _machine(config.machine, types)
    for condition in config.conditions:
        yield from condition_nodes(condition, parent=ALARMS, source=DEVICE, source_name=config.name)


def _device(config: ModelConfig, types: Types) -> Iterator[Node]:
    nameplate = _nameplate(config.device)
    identification = {
        f"Identification.{name}": nameplate[name]
        for name in (*_NAMEPLATE, "Manufacturer", "Model", "SerialNumber", "SoftwareRevision", "HardwareRevision")
    }
    identification["Identification.DeviceRevision"] = nameplate["DeviceRevision"]
    extras = {"Identification", "DeviceHealth", "DeviceHealthAlarms"}
    extras |= {f"Latency.{group}.{value}" for group in _GROUPS for value in ("P999", "Max")}
    extras |= {group for process, group in BESIDE.items() if process in config.processes}
    root = Node(
        DEVICE,
        Name(LOCAL, config.name),
        ua.NodeClass.Object,
        "This appliance.",
        DEVICE_SET,
        HAS_COMPONENT,
        type=APPLIANCE_TYPE,
        notifies=True,
        inverse=(Link(HAS_NOTIFIER, base(ua.ObjectIds.Server)),),
    )
    yield from instance(
        types,
        root,
        prefix=APPLIANCE,
        optional=frozenset(extras | set(_NAMEPLATE) | set(identification)),
        values={**nameplate, **identification, "CurveText": config.curve, "Profile": config.profile},
    )


def _nameplate(device: DeviceIdentity) -> dict[str, Any]:
    return {
        "Manufacturer": ua.LocalizedText(device.manufacturer),
        "ManufacturerUri": device.manufacturer_uri,
        "Model": ua.LocalizedText(device.model),
        "HardwareRevision": device.hardware_revision,
        "SoftwareRevision": device.software_revision,
        "DeviceRevision": device.device_revision,
        "ProductCode": device.product_code,
        "DeviceManual": device.device_manual,
        "DeviceClass": device.device_class,
        "SerialNumber": device.serial_number,
        "ProductInstanceUri": device.product_instance_uri,
        "RevisionCounter": device.revision_counter,
        "AssetId": device.asset_id,
        "ComponentName": ua.LocalizedText(device.component_name),
    }


def _output(output: Output, types: Types) -> Iterator[Node]:
    folder = f"{APPLIANCE}.LastCommand.Outputs"
    root = Node(
        Id(LOCAL, f"{folder}.{output.name}"),
        sits_name(output.name),
        ua.NodeClass.Variable,
        f"Output {output.name} of the newest command, in {output.unit}.",
        Id(LOCAL, folder),
        HAS_COMPONENT,
        type=OUTPUT_TYPE,
        data_type=DOUBLE,
    )
    values = {"EURange": ua.Range(output.low, output.high), "EngineeringUnits": engineering_units(output.unit)}
    yield from instance(types, root, prefix=str(root.id.identifier), optional=frozenset(), values=values)


def _process(name: str, types: Types) -> Iterator[Node]:
    folder = f"{APPLIANCE}.Processes"
    root = Node(
        Id(LOCAL, f"{folder}.{name}"),
        sits_name(name),
        ua.NodeClass.Object,
        f"Process {name}.",
        Id(LOCAL, folder),
        HAS_COMPONENT,
        type=PROCESS_TYPE,
    )
    yield from instance(types, root, prefix=str(root.id.identifier), optional=frozenset(), values={})


def _machine(machine: MachineIdentity, types: Types) -> Iterator[Node]:
    values = {
        "Manufacturer": ua.LocalizedText(machine.manufacturer),
        "SerialNumber": machine.serial_number,
        "ProductInstanceUri": machine.product_instance_uri,
        "Model": ua.LocalizedText(machine.model),
        "ProductCode": machine.product_code,
        "Location": machine.location,
        "AssetId": machine.asset_id,
        "YearOfConstruction": machine.year_of_construction,
    }
    given = {
        name: value
        for name, value in values.items()
        if value is not None and value != "" and value != ua.LocalizedText("")
    }
    top = Node(
        Id(LOCAL, MACHINE),
        Name(LOCAL, machine.name),
        ua.NodeClass.Object,
        "The machine that the appliance is a part of.",
        MACHINES,
        HAS_COMPONENT,
        type=BASE_OBJECT,
    )
    yield top
    identification = Node(
        Id(LOCAL, f"{MACHINE}.Identification"),
        Name(DI, "Identification"),
        ua.NodeClass.Object,
        "Identification of the machine.",
        top.id,
        HAS_ADD_IN,
        type=MACHINE_IDENTIFICATION,
    )
    yield from instance(
        types, identification, prefix=str(identification.id.identifier), optional=frozenset(given), values=values
    )
    yield Node(
        Id(LOCAL, f"{MACHINE}.Components"),
        Name(MACHINERY, "Components"),
        ua.NodeClass.Object,
        "Parts of the machine: this appliance.",
        top.id,
        HAS_COMPONENT,
        type=MACHINE_COMPONENTS,
        links=(Link(HAS_COMPONENT, DEVICE),),
    )
