"""The simulated mill behind an S7 data block: ``python -m tests.support.s7_mill FOLDER UDP``.

Writes ``block.xml`` into the folder, prints the S7 port, publishes to the UDP port, and at the end of its input
prints one JSON object.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path

from fieldbus.capture import Protocol
from fieldbus.net import UdpSender
from sitsedge.plant.arbiter import BlockMode, RequestImage
from sitsedge.plant.realtime import RealtimePlant
from sitsedge.plant.record import PlantRecord
from sitsedge.plant.signals import dataset_layout
from sitsedge.plant.simulate import PlantCell
from tests.fieldbus.fake_plc import FakePlc
from tests.support.block_plcs import ONES, S7Block, s7_layout

PUBLISH_HZ = 100
TRIM_PERCENT = 0.001  # a count of the block's INT
SWITCH_INTERVAL_S = 0.0005


class MillProgram:
    """The handshake of the block in front of the mill's own arbiter."""

    def __init__(self, block: S7Block, plant: RealtimePlant) -> None:
        self._block, self._plant = block, plant
        self._seen = block.sequence()
        self.taken = self.torn = 0

    def scan(self) -> None:
        block, plant, request = self._block, self._plant, self._plant.request
        sequence, auto = block.sequence(), block.auto_request()
        gap, trim, until = request.gap_correction_mm, request.speed_trim_percent, request.valid_until_ns
        number = request.sequence
        if sequence != self._seen:
            slot = block.slot(sequence & 1)
            if slot.number == sequence and slot.check == sequence ^ ONES and block.sequence() == sequence:
                self._seen = number = sequence
                gap, trim = slot.values[0], slot.values[1] * TRIM_PERCENT
                until = time.time_ns() + slot.valid_ms * 1_000_000
                self.taken += 1
            else:
                self.torn += 1
        plant.request = RequestImage(gap, trim, number, number, until, auto)
        applied = plant.applied
        values = (applied.gap_correction_mm, round(applied.speed_trim_percent / TRIM_PERCENT))
        block.show(applied.sequence, applied.mode is BlockMode.AUTO, values)


async def main(folder: Path, udp: int) -> None:
    (folder / "block.xml").write_bytes(s7_layout())
    sender = UdpSender("127.0.0.1", udp)
    plant = RealtimePlant(
        PlantCell(20_261), layout=dataset_layout(), publish_hz=PUBLISH_HZ, send=sender.send, record=PlantRecord()
    )
    block = S7Block()
    program = MillProgram(block, plant)
    block.program = program  # type: ignore[assignment]
    plc = FakePlc(Protocol.S7, block.answer)
    await plc.start()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    plant.start()
    sys.stdout.write(f"{plc.port}\n")
    sys.stdout.flush()
    await asyncio.to_thread(sys.stdin.read)
    await asyncio.sleep(0.1)  # scans that follow the gate's last write
    plant.stop()
    await plc.stop()
    applied = plant.applied
    said = {
        "mode": applied.mode.value,
        "taken": program.taken,
        "torn": program.torn,
        "refused": applied.refused_count,
        "clamped": applied.clamped_count,
        "applied": applied.sequence,
        "auto_request": block.auto_request(),
    }
    sys.stdout.write(json.dumps(said) + "\n")


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
