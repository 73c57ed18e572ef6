"""The information model of the appliance's own OPC UA server (DI, Machinery and ours), and what fills it."""

from sitsedge.server.model.config import ConditionConfig, DeviceIdentity, MachineIdentity, ModelConfig, Output
from sitsedge.server.model.nodes import ConditionNodes, Nodes, build
from sitsedge.server.model.nodeset import nodeset_xml
from sitsedge.server.model.space import ModelError
from sitsedge.server.model.view import (
    BridgeView,
    CommandView,
    EpochView,
    GateView,
    Health,
    HealthView,
    LoopView,
    Percentiles,
    ProcessView,
    ProverView,
    Reach,
    RefusalView,
    View,
    Word,
)

__all__ = [
    "BridgeView",
    "CommandView",
    "ConditionConfig",
    "ConditionNodes",
    "DeviceIdentity",
    "EpochView",
    "GateView",
    "Health",
    "HealthView",
    "LoopView",
    "MachineIdentity",
    "ModelConfig",
    "ModelError",
    "Nodes",
    "Output",
    "Percentiles",
    "ProcessView",
    "ProverView",
    "Reach",
    "RefusalView",
    "View",
    "Word",
    "build",
    "nodeset_xml",
]
