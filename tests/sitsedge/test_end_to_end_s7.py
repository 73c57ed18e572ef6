"""The main job with an S7 controller in place of OPC UA: every process real, the mill behind a data block."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from attest.command import ReadBack, parse_record
from attest.ledger import Ledger, RecordKind
from attest.ledger.audit import verify
from tests.sitsedge.conftest import copy_mill, free_port, replace
from tests.sitsedge.test_end_to_end import Deployed

COMMANDS = 600
GATE_PLC = "plc:\n  protocol: s7\n  address: 127.0.0.1\n  port: {port}\n  layout: block.xml\n\nsource_age_ms_max"
NODES = "    node: RollingMill/Request/{0}\n    applied_node: RollingMill/Applied/{0}\n"


@pytest.mark.slow
def test_commands_reach_an_s7_controller_and_come_back_applied(tmp_path: Path) -> None:
    config = copy_mill(tmp_path / "mill")
    udp = free_port(socket.SOCK_DGRAM)
    text = config.read_text(encoding="utf-8")
    at = text.index("simulation:")
    port_line = next(line for line in text.splitlines() if line.startswith("  port:"))
    config.write_text(text[:at].replace(port_line, f"  port: {udp}"), encoding="utf-8")
    command = [sys.executable, "-m", "tests.support.s7_mill", str(config.parent), str(udp)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as mill:
        assert mill.stdout is not None
        gate = config.parent / "gate.yaml"
        replace(gate, NODES.format("GapCorrection"), "    node: Gap\n    applied_node: Gap\n    plc_type: REAL\n")
        typed = "    node: Speed\n    applied_node: Speed\n    plc_type: INT\n    plc_scale: 0.001\n"
        replace(gate, NODES.format("SpeedTrim"), typed)
        text = gate.read_text(encoding="utf-8")
        start, end = text.index("plc:"), text.index("source_age_ms_max")
        plc = GATE_PLC.format(port=int(mill.stdout.readline()))
        gate.write_text(text[:start] + plc + text[end + len("source_age_ms_max") :], encoding="utf-8")
        system = Deployed(config, tmp_path / "s")
        try:
            system.wait("sitsd", "accepted", COMMANDS)
        finally:
            code, _, err = system.stop()
        said = json.loads(mill.communicate("")[0])
    assert code == 0, err
    assert said["mode"] == "MAN", "AUTO was given back"
    assert not said["auto_request"]
    assert said["torn"] == said["refused"] == said["clamped"] == 0

    report = verify(system.state / "ledger")
    assert report.ok, report.findings
    snapshot = system.last("gate")
    assert snapshot["plc"] == {"protocol": "s7", "standstill": None, "reconnects": 0, "faults": {}}
    ledger = Ledger.open_readonly(system.state / "ledger" / "gate" / "ledger.db")
    receipts = [parse_record(leaf.data).record for leaf in ledger.iterate() if leaf.kind is RecordKind.RECEIPT]
    alarms = [parse_record(leaf.data).record for leaf in ledger.iterate() if leaf.kind is RecordKind.ALARM]
    ledger.close()
    states = [receipt.state for receipt in receipts]  # type: ignore[union-attr]
    written = len(states) - states.count(ReadBack.NOT_WRITTEN)
    assert snapshot["superseded"] == states.count(ReadBack.NOT_WRITTEN) < COMMANDS / 10
    assert states.count(ReadBack.OK) >= written - 2, alarms
    assert said["taken"] == written
    sys.stdout.write(f"write {snapshot['write']}, {states.count(ReadBack.OK)} of {written} applied, {said}\n")
