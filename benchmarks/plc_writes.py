"""Times a command's way into a request block: ``python -m benchmarks.plc_writes [--writes N] [--output json]``.

For S7, CIP and SLMP: a write (slot acknowledged, then sequence acknowledged) and the look that reads it back, against
the controllers of the test suite in a process of their own on loopback. They answer at once, where a real one takes a
scan or several: the figures are the gate's share, not a plant's. Wall time by ``perf_counter_ns``.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import subprocess
import sys
import time
from typing import Any

from fieldbus.s7.layout import parse_layout
from sitsedge.config.plc import CipPlc, S7Plc, SlmpPlc
from sitsedge.gate.plc.block import Value
from sitsedge.gate.plc.cip import CipWire
from sitsedge.gate.plc.s7 import S7Block, S7Wire
from sitsedge.gate.plc.slmp import SlmpWire
from sitsedge.gate.plc.vendor import VendorPort, Wire
from tests.support.block_plcs import s7_layout

WARM = 100
GOOD_NS = 1_000_000_000
VALUES = (Value("gap", "Gap", "Gap", "REAL", None, 0.00025), Value("speed", "Speed", "Speed", "INT", 0.01, 0.0025))


def wire(protocol: str, port: int) -> Wire:
    common: dict[str, Any] = {"address": "127.0.0.1", "port": port}
    if protocol == "s7":
        plc = S7Plc(protocol="s7", layout="block.xml", **common)
        return S7Wire(plc, S7Block.of(parse_layout(s7_layout()), plc, VALUES))
    if protocol == "cip":
        return CipWire(CipPlc(protocol="cip", **common), VALUES)
    devices = {"request_device": "D1000", "applied_device": "D1100"}
    return SlmpWire(SlmpPlc(protocol="slmp", series="q", **devices, **common), VALUES)


async def measure(protocol: str, port: int, writes: int) -> dict[str, list[int]]:
    plc = VendorPort(wire(protocol, port), VALUES, protocol=protocol, run_only=True)
    await plc.connect()
    await plc.request_auto(True)
    times: dict[str, list[int]] = {"write": [], "look": []}
    for number in range(1, WARM + writes + 1):
        start = time.perf_counter_ns()
        await plc.write(sequence=number, values=(number % 400 / 1000, 0.5), valid_until_ns=time.time_ns() + GOOD_NS)
        written = time.perf_counter_ns()
        applied = await plc.read_back()
        looked = time.perf_counter_ns()
        assert applied.sequence == number, "the program of the test suite takes a value within the request"
        if number > WARM:
            times["write"].append(written - start)
            times["look"].append(looked - written)
    await plc.close()
    return times


def percentiles_us(times: list[int]) -> dict[str, float]:
    ordered = sorted(times)
    ranks = {"p50": 0.5, "p99": 0.99, "p999": 0.999}
    return {name: ordered[min(len(ordered) - 1, int(len(ordered) * rank))] / 1000 for name, rank in ranks.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--writes", type=int, default=2000)
    parser.add_argument("--output", choices=("text", "json"), default="text")
    arguments = parser.parse_args()
    gc.freeze()
    result = {}
    for protocol in ("s7", "cip", "slmp"):
        command = [sys.executable, "-m", "tests.support.block_plcs", protocol]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as controller:
            assert controller.stdout is not None
            times = asyncio.run(measure(protocol, int(controller.stdout.readline()), arguments.writes))
            controller.communicate("")
        result[protocol] = {name: percentiles_us(found) for name, found in times.items()}
    if arguments.output == "json":
        print(json.dumps(result))
        return 0
    for protocol, rows in result.items():
        for name, row in rows.items():
            print(f"{protocol:5} {name:6} " + "  ".join(f"{key} {value:8.1f} µs" for key, value in row.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
