"""The PLC's address space: browse names, types and who may write, under one namespace URI.

Browse path of a node: ``RollingMill/<folder>/<name>``, every segment in :data:`NAMESPACE`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from asyncua import ua

NAMESPACE = "urn:sits-edge:plant:rolling-mill"
ROOT = "RollingMill"


class Role(StrEnum):
    """Who a client certificate belongs to."""

    GATE = "gate"
    OPERATOR = "operator"


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """One variable. ``writer`` is the only role that may write it; ``None`` means the PLC alone."""

    folder: str
    name: str
    type: ua.VariantType
    initial: bool | int | float | str
    writer: Role | None = None

    @property
    def key(self) -> str:
        """Folder and name."""
        return f"{self.folder}/{self.name}"

    @property
    def path(self) -> str:
        """Browse path below Objects."""
        return f"{ROOT}/{self.key}"


_DOUBLE, _BOOL = ua.VariantType.Double, ua.VariantType.Boolean
_U32, _U64, _TEXT = ua.VariantType.UInt32, ua.VariantType.UInt64, ua.VariantType.String

NODES: tuple[NodeSpec, ...] = (
    NodeSpec("Request", "GapCorrection", _DOUBLE, 0.0, Role.GATE),  # mm
    NodeSpec("Request", "SpeedTrim", _DOUBLE, 0.0, Role.GATE),  # %
    NodeSpec("Request", "Sequence", _U64, 0, Role.GATE),
    NodeSpec("Request", "Heartbeat", _U32, 0, Role.GATE),
    NodeSpec("Request", "ValidUntil", _U64, 0, Role.GATE),  # CLOCK_REALTIME ns, 0 = no limit
    NodeSpec("Mode", "AutoRequest", _BOOL, False, Role.GATE),
    NodeSpec("Mode", "ManualSelected", _BOOL, False, Role.OPERATOR),
    NodeSpec("Mode", "AutoActive", _BOOL, False),
    NodeSpec("Applied", "GapCorrection", _DOUBLE, 0.0),  # mm
    NodeSpec("Applied", "SpeedTrim", _DOUBLE, 0.0),  # %
    NodeSpec("Applied", "Sequence", _U64, 0),
    NodeSpec("Status", "Heartbeat", _U32, 0),
    NodeSpec("Status", "BlockMode", _TEXT, "MAN"),
    NodeSpec("Status", "WatchdogTripped", _BOOL, False),
    NodeSpec("Status", "LastRefusal", _TEXT, "none"),
    NodeSpec("Status", "RefusedCount", _U32, 0),
    NodeSpec("Status", "ClampedCount", _U32, 0),
    NodeSpec("Status", "TripCount", _U32, 0),
    NodeSpec("Status", "ExitThickness", _DOUBLE, 4.0),  # mm, gauge
    NodeSpec("Status", "RollForceDev", _DOUBLE, 0.0),  # MN from lock-on
    NodeSpec("Status", "GapPositionDev", _DOUBLE, 0.0),  # mm from lock-on
)
