"""What of the model is fixed when the server starts: who the appliance is, its outputs, processes and alarms."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from sitsedge.errors import SitsError
from sitsedge.server.model.units import CODES
from sitsedge.server.model.view import Health

OUTPUTS_MAX: Final = 1024  # as many as a circuit has
PROCESSES_MAX: Final = 16
CONDITIONS_MAX: Final = 64
MACHINE_NAME_MAX: Final = 255  # a BrowseName may have 512 (OPC 10000-3, 8.3)
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}\Z")
DEVICE_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}\Z")


@dataclass(frozen=True, slots=True)
class DeviceIdentity:
    """The nameplate of OPC 10000-100, 4.5.2; empty where nobody said, ``revision_counter`` -1 where nobody counts."""

    manufacturer: str = ""
    model: str = ""
    serial_number: str = ""
    hardware_revision: str = ""
    software_revision: str = ""
    device_revision: str = ""
    device_manual: str = ""
    device_class: str = ""
    product_code: str = ""
    product_instance_uri: str = ""
    manufacturer_uri: str = ""
    asset_id: str = ""
    component_name: str = ""
    revision_counter: int = -1


@dataclass(frozen=True, slots=True)
class MachineIdentity:
    """The machine that the appliance is a part of (OPC 40001-1, 8.6)."""

    name: str
    manufacturer: str
    serial_number: str
    product_instance_uri: str
    model: str = ""
    product_code: str = ""
    location: str = ""
    asset_id: str = ""
    year_of_construction: int | None = None

    @property
    def nameable(self) -> bool:
        """Whether the name can be a BrowseName."""
        return self.name.isprintable() and 1 <= len(self.name) <= MACHINE_NAME_MAX


@dataclass(frozen=True, slots=True)
class Output:
    """One output of the module: a unit of deployment files and the gate's limits in it."""

    name: str
    unit: str
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class ConditionConfig:
    """One alarm: what it does to the device's health, and what it means in words."""

    name: str
    health: Health
    meaning: str


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """``name``: the device's, as in the deployment. ``curve``: bn254 or bls12-381."""

    name: str
    device: DeviceIdentity
    profile: str
    curve: str
    outputs: tuple[Output, ...]
    processes: tuple[str, ...] = ("sitsd", "gate")
    machine: MachineIdentity | None = None
    conditions: tuple[ConditionConfig, ...] = ()

    def check(self) -> None:
        """Raises :class:`SitsError` ``model-config`` for names and units that cannot be shown."""
        kinds = (
            ("outputs", tuple(output.name for output in self.outputs), OUTPUTS_MAX),
            ("processes", self.processes, PROCESSES_MAX),
            ("conditions", tuple(condition.name for condition in self.conditions), CONDITIONS_MAX),
        )
        for kind, names, most in kinds:
            wrong = [name for name in names if NAME.match(name) is None]
            if wrong or len(set(names)) != len(names) or len(names) > most:
                expected = f"at most {most} different names of letters, digits, '_' and '-'"
                raise _wrong(wrong[0] if wrong else f"{len(names)} {kind}", expected)
        if DEVICE_NAME.match(self.name) is None:
            raise _wrong(self.name, "a device's name")
        if self.machine is not None and not self.machine.nameable:
            raise _wrong(self.machine.name, f"a machine's name of 1..{MACHINE_NAME_MAX} printable characters")
        for output in self.outputs:
            if output.unit not in CODES:
                raise _wrong(output.unit, "a unit of deployment files")
            if not output.low < output.high:
                raise _wrong(f"{output.low} to {output.high}", "low below high")
        if any(condition.health is Health.NORMAL for condition in self.conditions):
            raise _wrong("an alarm that means NORMAL", "one of the other signals of NE 107")


def _wrong(found: str, expected: str) -> SitsError:
    return SitsError("model-config", found=repr(found)[:80], expected=expected)
