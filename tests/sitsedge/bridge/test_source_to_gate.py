"""A deployment whose source is an S7 controller: bridge, loop, gate (SHADOW) and ledgers as the processes they are."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import struct
from pathlib import Path
from typing import Any

import pytest

from attest.ledger.audit import verify
from fieldbus.capture import Protocol
from sitsedge.telemetry import read_snapshot
from tests.fieldbus.fake_plc import FakePlc, running
from tests.fieldbus.vendor_cpus import S7Cpu
from tests.sitsedge.bridge.controllers import RUN, STOP, layout
from tests.sitsedge.conftest import copy_mill, free_port
from tests.sitsedge.test_end_to_end import Deployed

COMMANDS = 30
INPUTS = (
    ("entry_thickness_dev", "mm"),
    ("exit_thickness_dev", "mm"),
    ("roll_force_dev", "MN"),
    ("gap_position_dev", "mm"),
    ("entry_temperature_dev", "°C"),
    ("strip_speed_dev", "m/s"),
    ("entry_tension_dev", "kN"),
    ("last_gap_correction", "mm"),
)


def deployment(folder: Path, plc: FakePlc) -> Path:
    """The mill's module with its inputs in a data block, and a gate without a PLC."""
    path = copy_mill(folder)
    (folder / "mill.xml").write_text(
        layout("".join(f'<Member Name="{name}" Datatype="Real"/>' for name, _ in INPUTS)), encoding="utf-8"
    )
    text = path.read_text(encoding="utf-8")
    tags = "".join(f'    - {{name: {name}, unit: "{unit}", path: {name}}}\n' for name, unit in INPUTS)
    source = f"""source:
  protocol: s7
  bridge_port: {free_port(socket.SOCK_DGRAM)}
  host: 127.0.0.1
  port: {plc.port}
  reconnect_ms_max: 200.0
  layouts: [{{file: mill.xml}}]
  tags:
{tags}
cycle: {{period_ms: 50.0, deadline_ms: 100.0, proof: inline}}
timing: {{source_age_ms_max: 500.0, decision_age_ms_max: 500.0, future_ms_max: 2.0}}
attestation: {{allow_simulated: true}}
mode: {{initial: SHADOW}}
"""
    path.write_text(text[: text.index("source:")] + source, encoding="utf-8")
    gate = folder / "gate.yaml"
    text = gate.read_text(encoding="utf-8")
    outputs = "".join(line for line in text[: text.index("plc:")].splitlines(True) if "node:" not in line)
    gate.write_text(
        f"{outputs}source_age_ms_max: 500.0\ndecision_age_ms_max: 500.0\nfuture_ms_max: 2.0\nproof: inline\n",
        encoding="utf-8",
    )
    return path


async def refused(state: Path, count: int) -> dict[str, Any]:
    """The loop's account once it has refused ``count`` samples of bad quality."""
    while True:
        snapshot = read_snapshot(state / "run", "sitsd")
        if snapshot is not None and snapshot.data.get("refused", {}).get("bad-quality", 0) >= count:
            return snapshot.data
        await asyncio.sleep(0.1)


@pytest.mark.slow
async def test_the_gate_accepts_what_an_s7_block_says_and_the_loop_refuses_what_it_does_not(tmp_path: Path) -> None:
    cpu = S7Cpu()
    cpu.block[:32] = struct.pack(">8f", *([0.0] * 8))
    async with running(Protocol.S7, cpu.answer) as plc:
        system = Deployed(deployment(tmp_path / "mill", plc), tmp_path / "s")
        try:
            await asyncio.to_thread(system.wait, "gate", "accepted", COMMANDS)
            cpu.mode = STOP
            async with asyncio.timeout(60):
                stopped = await refused(system.state, 5)
            await plc.stop()
            async with asyncio.timeout(60):
                gone = await refused(system.state, stopped["refused"]["bad-quality"] + 2)
            cpu.mode = RUN
            await plc.start()
            await asyncio.to_thread(system.wait, "gate", "accepted", system.last("gate")["accepted"] + COMMANDS)
            bridge = read_snapshot(system.state / "run", "bridge")
            assert bridge is not None
            os.kill(bridge.pid, signal.SIGKILL)
            await asyncio.to_thread(system.wait, "gate", "accepted", system.last("gate")["accepted"] + COMMANDS)
            code, out, errors = await asyncio.to_thread(system.stop)
        finally:
            await asyncio.to_thread(system.stop)
    assert code == 0, errors
    assert "the bridge ended with -9" in out + errors
    assert set(gone["refused"]) == {"bad-quality"}
    [station] = system.last("bridge")["stations"]
    assert (station["protocol"], station["bad_tags"]) == ("s7", {})
    report = verify(system.state / "ledger")
    assert report.ok, report.findings
    assert report.accepted >= 2 * COMMANDS
