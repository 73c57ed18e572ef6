"""What the address space says of this appliance and never changes: from the server's file to the model's own terms."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import Final

from sitsedge.server.alarms import ALARMS, AlarmSpec
from sitsedge.server.config import ServerConfig
from sitsedge.server.model import ConditionConfig, DeviceIdentity, MachineIdentity, ModelConfig, Output
from sitsedge.server.viewmaker import HEALTH

_ONLY_WITH: Final = {"BridgeDown": "bridge", "ProverDown": "prover", "LaneWithdrawn": "prover"}
_PLANT: Final = frozenset({"NotApplied", "PlcUnreachable", "HeartbeatLost"})


def alarms_of(config: ServerConfig) -> tuple[AlarmSpec, ...]:
    """The alarms that this deployment can have."""
    return tuple(
        spec
        for name, spec in ALARMS.items()
        if (config.has_plc or name not in _PLANT) and _ONLY_WITH.get(name, "gate") in config.processes
    )


def model_config(config: ServerConfig) -> ModelConfig:
    """The model of one deployment."""
    device, machine = config.device, config.machine
    return ModelConfig(
        name=config.device_id,
        device=DeviceIdentity(
            manufacturer=device.manufacturer,
            model=device.model,
            serial_number=device.serial_number or config.device_id,
            hardware_revision=device.hardware_revision or "",
            software_revision=_release(),
            device_class="Edge appliance",
            product_code=device.product_code or "",
            product_instance_uri=f"{device.manufacturer_uri}:{device.serial_number or config.device_id}",
            manufacturer_uri=device.manufacturer_uri,
            asset_id=device.asset_id or "",
            component_name=device.component_name or "",
        ),
        profile=config.profile,
        curve=config.curve,
        outputs=tuple(Output(signal.name, signal.unit, signal.low, signal.high) for signal in config.outputs),
        processes=tuple(config.processes),
        machine=None
        if machine is None
        else MachineIdentity(
            name=machine.name,
            manufacturer=machine.manufacturer,
            serial_number=machine.serial_number,
            product_instance_uri=machine.product_instance_uri,
            model=machine.model or "",
            location=machine.location or "",
            asset_id=machine.asset_id or "",
            year_of_construction=machine.year_of_construction,
        ),
        conditions=tuple(ConditionConfig(spec.name, HEALTH[spec.ne107], spec.meaning) for spec in alarms_of(config)),
    )


def _release() -> str:
    """Of the installed package; empty where the sources run without one."""
    try:
        return version("sitsedge")
    except PackageNotFoundError:
        return ""
