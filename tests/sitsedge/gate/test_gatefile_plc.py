"""``plc`` of a gate file: every protocol, older files, and each rule by name with its place in the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from sitsedge.config import ConfigError, load_deployment, load_gate_file
from sitsedge.config.consistency import check
from sitsedge.config.plc import CipPlc, OpcUaPlc, S7Plc, SlmpPlc
from sitsedge.gate.plc import PlcError
from sitsedge.gate.plc.make import block_values, check_block, make_port
from sitsedge.gate.plc.vendor import VendorPort
from sitsedge.modules.config import Signal
from tests.support.block_plcs import SLOT_MEMBERS, s7_layout

HEAD = "version: 1\nsource_age_ms_max: 20.0\ndecision_age_ms_max: 20.0\nfuture_ms_max: 2.0\noutputs:\n"
GAP = "  - {name: gap, unit: mm, limits: [-0.4, 0.4], node: Gap, applied_node: Gap, plc_type: REAL}\n"
TYPED = "plc_type: INT, plc_scale: 0.01"
SPEED = f"  - {{name: speed, unit: '%', limits: [-1.0, 1.0], node: Speed, applied_node: Speed, {TYPED}}}\n"
S7 = "plc: {protocol: s7, address: 10.0.0.1, layout: block.xml}\n"
CIP = "plc: {protocol: cip, address: plc.example, controller_slot: 2}\n"
SLMP = "plc: {protocol: slmp, address: 10.0.0.1, port: 5007, series: q, request_device: D1000, applied_device: D1100}\n"
OPCUA = """plc:
  endpoint: opc.tcp://127.0.0.1:4841
  namespace: urn:x
  sequence_node: S
  heartbeat_node: H
  auto_request_node: R
  auto_active_node: A
  applied_sequence_node: P
"""
UNTYPED = GAP.replace(", plc_type: REAL", "").replace("applied_node: Gap", "applied_node: GapNow")
NODES = "node: Gap, applied_node: Gap, "
SIGNALS = [
    Signal(name="speed", unit="%", scale=0.01, range=(-1.0, 1.0)),
    Signal(name="gap", unit="mm", scale=0.001, range=(-0.4, 0.4)),
]


def gate_file(folder: Path, text: str) -> Path:
    path = folder / "gate.yaml"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("plc", "kind", "endpoint"),
    [
        (S7, S7Plc, "s7://10.0.0.1:102"),
        (CIP, CipPlc, "cip://plc.example:44818"),
        (SLMP, SlmpPlc, "slmp://10.0.0.1:5007"),
        (OPCUA, OpcUaPlc, "opc.tcp://127.0.0.1:4841"),
    ],
)
def test_every_protocol(plc: str, kind: type, endpoint: str, tmp_path: Path) -> None:
    outputs = GAP + SPEED
    if kind is SlmpPlc:
        outputs = outputs.replace(NODES, "").replace("node: Speed, applied_node: Speed, ", "")
    if kind is OpcUaPlc:
        outputs = UNTYPED
    gate = load_gate_file(gate_file(tmp_path, HEAD + outputs + plc))
    assert isinstance(gate.plc, kind)
    assert gate.plc.endpoint == endpoint


# rule: (outputs and plc, replaced text, new text, line of the fault, words that the message must hold)
RULES = {
    "unknown-protocol": (GAP + S7, "protocol: s7", "protocol: modbus", 7, "'opcua', 's7', 'cip', 'slmp'"),
    "unknown-key": (GAP + S7, "layout: block.xml", "layout: block.xml, endpoint: x", 7, "unknown key 'endpoint'"),
    "missing-layout": (GAP + S7, ", layout: block.xml", "", 7, "this key to be present"),
    "rack": (GAP + S7, "layout:", "rack: 9, layout:", 7, "less than or equal to 7"),
    "port": (GAP + CIP, "controller_slot: 2", "port: 0", 7, "greater than or equal to 1"),
    "device": (GAP.replace(NODES, "") + SLMP, "D1000", "M1000", 7, "pattern"),
    "series": (GAP.replace(NODES, "") + SLMP, "series: q", "series: fx3", 7, "'iq-f'"),
    "node-needed": (GAP + S7, NODES, "", 6, "'node' and 'applied_node'"),
    "node-not-with-devices": (GAP + SLMP, "", "", 6, "fixed order"),
    "type-needed": (GAP + CIP, ", plc_type: REAL", "", 6, "'plc_type' for every output"),
    "path-of-an-output": (UNTYPED + OPCUA, "applied_node: GapNow", "applied_node: 'nsu=urn:x/Gap'", 6, "no ';' after"),
    "path-of-a-node": (UNTYPED + OPCUA, "sequence_node: S", "sequence_node: 'S//T'", 10, "an empty name"),
    "type-not-with-opcua": (GAP + OPCUA, "", "", 6, "no 'plc_type'"),
    "unknown-type": (GAP + S7, "REAL", "STRING", 6, "'REAL'"),
    "scale-needed": (GAP + S7, "REAL", "DINT", 6, "'plc_scale'"),
    "scale-of-a-real": (SPEED + S7, "INT", "REAL", 6, "'plc_scale'"),
    "devices-overlap": (GAP.replace(NODES, "") + SLMP, "D1100", "D1010", 7, "20 words from D1000 on are the request's"),
    "devices-overlap-from-below": (GAP.replace(NODES, "") + SLMP, "D1100", "D995", 7, "a block apart"),
    "one-memory-two-names": (GAP.replace(NODES, "") + SLMP.replace("D1000", "R0"), "D1100", "ZR4", 7, "a block apart"),
    "structures-overlap": (GAP + CIP, "controller_slot: 2", "applied: SITSRequest.Slot", 7, "another structure"),
    "slots-overlap": (GAP + S7, "layout:", "slots: [Request.A, Request.A.B], layout:", 7, "two slots apart"),
    "slot-in-applied": (GAP + S7, "layout:", "slots: [Applied.A, Request.B], layout:", 7, "a slot outside 'applied'"),
    "member-twice": (GAP + SPEED + S7, "node: Speed", "node: Gap", 7, "Gap is outputs.0.node's"),
    "node-twice": (UNTYPED + OPCUA, "heartbeat_node: H", "heartbeat_node: S", 11, "S is plc.sequence_node's"),
    "applied-is-the-request": (UNTYPED + OPCUA, "applied_node: GapNow", "applied_node: Gap", 6, "outputs.0.node's"),
    "limits-beyond-the-type": (SPEED + S7, "0.01", "0.00001", 6, "limits that INT holds"),
}


@pytest.mark.parametrize("rule", RULES)
def test_fault_is_named_with_its_line(rule: str, tmp_path: Path) -> None:
    text, old, new, line, words = RULES[rule]
    assert old in text
    with pytest.raises(ConfigError) as caught:
        load_gate_file(gate_file(tmp_path, HEAD + text.replace(old, new, 1)))
    assert [fault.line for fault in caught.value.faults if words in str(fault)] == [line], str(caught.value)
    assert all(fault.column >= 1 for fault in caught.value.faults)


def test_values_keep_the_order_of_the_module(tmp_path: Path) -> None:
    gate = load_gate_file(gate_file(tmp_path, HEAD + GAP + SPEED + S7))
    speed, gap = block_values(gate, SIGNALS)
    assert (speed.name, speed.type, speed.scale, speed.tolerance) == ("speed", "INT", 0.01, 0.0025)
    assert (gap.name, gap.type, gap.scale, gap.tolerance) == ("gap", "REAL", None, 0.00025)


async def test_a_port_of_every_vendor_is_made(tmp_path: Path) -> None:
    (tmp_path / "block.xml").write_bytes(s7_layout())
    for plc in (S7, CIP, SLMP):
        outputs = GAP + SPEED
        if plc is SLMP:
            outputs = outputs.replace(NODES, "").replace("node: Speed, applied_node: Speed, ", "")
        path = gate_file(tmp_path, HEAD + outputs + plc)
        port = make_port(load_gate_file(path), path, tmp_path, SIGNALS)
        assert isinstance(port, VendorPort)
        assert not port.connected
        with pytest.raises(PlcError, match="plc-not-connected"):
            await port.read_back()


@pytest.mark.parametrize(
    ("layout", "words"),
    [
        (None, "No such file"),
        (b"<x/>", "layout-block"),
        (s7_layout(access="Optimized"), "optimised-block"),
        (s7_layout(SLOT_MEMBERS.replace("Check", "Chk")), r"member-unknown.*Check"),
        (s7_layout(SLOT_MEMBERS.replace('"Gap" Datatype="Real"', '"Gap" Datatype="LReal"')), "member-type"),
        (s7_layout(SLOT_MEMBERS.replace('"ValidMs" Datatype="DInt"', '"ValidMs" Datatype="Int"')), "member-type"),
    ],
)
def test_a_layout_without_the_block_is_refused_at_its_key(layout: bytes | None, words: str, tmp_path: Path) -> None:
    path = gate_file(tmp_path, HEAD + GAP + SPEED + S7)
    if layout is not None:
        (tmp_path / "block.xml").write_bytes(layout)
    with pytest.raises(ConfigError, match=words) as caught:
        check_block(load_gate_file(path), path, SIGNALS)
    assert [(fault.line, fault.where) for fault in caught.value.faults] == [(8, "plc.layout")]


DEPLOYMENT = """version: 1
name: mill
profile: development
device_id: edge-01
gate_id: gate-01
gate_file: gate.yaml
model: {}
source:
  protocol: uadp-udp
  address: 127.0.0.1
  port: 14840
  publisher_id: 1
  writer_group_id: 1
  data_set_writer_id: 1
  fields: [{name: gap, unit: mm}]
cycle: {period_ms: 10.0, deadline_ms: 10.0}
timing: {source_age_ms_max: 20.0, decision_age_ms_max: 20.0, future_ms_max: 2.0}
attestation: {allow_simulated: true}
mode: {initial: AUTO, approved_by: [anna, boris]}
"""


@pytest.mark.parametrize(
    ("old", "new", "simulated", "where"),
    [
        ("plc_scale: 0.01", "plc_scale: 0.015", False, "outputs.1.plc_scale"),
        ("plc_scale: 0.01", "plc_scale: 0.007", False, "outputs.1.plc_scale"),
        ("limits: [-0.4, 0.4]", "limits: [-0.4, 5000.0]", False, "outputs.0.plc_type"),
        ("", "", True, "plc.protocol"),
        ("plc_scale: 0.01", "plc_scale: 0.005", False, None),
        ("plc_scale: 0.01", "plc_scale: 0.0037", False, None),
    ],
)
def test_the_block_must_hold_every_count(
    old: str, new: str, simulated: bool, where: str | None, tmp_path: Path
) -> None:
    path = gate_file(tmp_path, HEAD + (GAP + SPEED).replace(old, new, 1) + S7)
    (tmp_path / "d.yaml").write_text(
        DEPLOYMENT + ("simulation: {kind: rolling-mill, seed: 1, publish_hz: 100}" * simulated)
    )
    deployment, gate = load_deployment(tmp_path / "d.yaml"), load_gate_file(path)
    inputs = [Signal(name="gap", unit="mm", scale=0.001, range=(-1.0, 1.0))]
    if where is None:
        check(deployment, tmp_path / "d.yaml", gate, path, inputs=inputs, outputs=SIGNALS)
        return
    with pytest.raises(ConfigError) as caught:
        check(deployment, tmp_path / "d.yaml", gate, path, inputs=inputs, outputs=SIGNALS)
    assert [fault.where for fault in caught.value.faults] == [where]
    assert caught.value.faults[0].line > 1
