"""The port of a gate file's ``plc``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fieldbus.opcua import load_identity
from sitsedge.config import GateFile
from sitsedge.config.plc import CipPlc, OpcUaPlc, S7Plc
from sitsedge.gate.plc.block import Value
from sitsedge.gate.plc.cip import CipWire
from sitsedge.gate.plc.opcua import OpcUaPort
from sitsedge.gate.plc.port import PlcPort
from sitsedge.gate.plc.s7 import S7Wire, load_block
from sitsedge.gate.plc.slmp import SlmpWire
from sitsedge.gate.plc.vendor import VendorPort, Wire
from sitsedge.modules.config import Signal


def make_port(gate: GateFile, gate_path: Path, pki: Path, signals: Sequence[Signal]) -> PlcPort:
    """A port that is not connected yet; ``signals`` are the module's outputs, whose order it keeps.

    Raises :class:`~sitsedge.config.source.ConfigError` for an S7 block that is not what the gate file says,
    FieldbusError for certificates.
    """
    plc = gate.plc
    assert plc is not None
    if isinstance(plc, OpcUaPlc):
        return opcua_port(gate, pki, [signal.name for signal in signals])
    values = block_values(gate, signals)
    wire: Wire
    if isinstance(plc, S7Plc):
        wire = S7Wire(plc, load_block(gate, gate_path, values))
    elif isinstance(plc, CipPlc):
        wire = CipWire(plc, values)
    else:
        wire = SlmpWire(plc, values)
    return VendorPort(wire, values, protocol=plc.protocol, run_only=plc.run_only)


def opcua_port(gate: GateFile, pki: Path, names: Sequence[str]) -> OpcUaPort:
    """A port to an OPC UA PLC, values in the order of ``names``. Raises FieldbusError for certificates."""
    return OpcUaPort(
        gate,
        identity=load_identity(pki / "gate.der", pki / "gate.key.pem"),
        server_certificate=pki / "plc.der",
        names=names,
    )


def check_block(gate: GateFile, gate_path: Path, signals: Sequence[Signal]) -> None:
    """Raise ConfigError where the gate file's S7 layout has no place for the block; others show when connected."""
    if isinstance(gate.plc, S7Plc):
        load_block(gate, gate_path, block_values(gate, signals))


def block_values(gate: GateFile, signals: Sequence[Signal]) -> tuple[Value, ...]:
    """What the block of a vendor's PLC holds for each output, in the module's order."""
    outputs = {item.name: item for item in gate.outputs}
    return tuple(Value.of(outputs[signal.name], signal.scale) for signal in signals)
