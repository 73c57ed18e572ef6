"""Proves one inference with ezkl, tuned by hand: python ezkl_peer.py FOLDER COUNT.

FOLDER holds network.onnx (the float form of the same network) and input.json. Nothing is calibrated: scales are 2^7 for
inputs and weights as in an int8 network, the tables of lookups are empty, and of a few good settings (base and legs of
the range decomposition, columns), each with the least number of rows that fits, the fastest is measured. The weights
are fixed, inputs and outputs public, as in our statement. Prints one JSON object.
"""

from __future__ import annotations

import json
import math
import os
import sys
import time
from importlib.metadata import version
from pathlib import Path

import ezkl  # type: ignore[import-not-found]

SETTINGS = ((512, 2, 2), (128, 3, 2), (128, 3, 4), (1000, 2, 4))
"""(base, legs, inner columns) that came out best of a wider search on control networks."""
SCALE_BITS = 7
BLINDING_ROWS = 8
"""Rows that the proof system keeps for itself."""
LOGROWS_MAX = 18


def prepare(name: str, base: int, legs: int, columns: int) -> int:
    """Compiles, makes keys and a witness for one setting; returns the number of rows' logarithm."""
    arguments = ezkl.PyRunArgs()
    arguments.input_scale = arguments.param_scale = SCALE_BITS
    arguments.decomp_base, arguments.decomp_legs, arguments.num_inner_cols = base, legs, columns
    arguments.lookup_range = (-2, 2)
    arguments.logrows = LOGROWS_MAX
    ezkl.gen_settings("network.onnx", f"{name}.json", py_run_args=arguments)
    settings = json.loads(Path(f"{name}.json").read_text())
    logrows = math.ceil(math.log2(max(settings["num_rows"], base) + BLINDING_ROWS))
    settings["run_args"]["logrows"] = logrows
    Path(f"{name}.json").write_text(json.dumps(settings))
    ezkl.compile_circuit("network.onnx", f"{name}.compiled", f"{name}.json")
    ezkl.gen_srs(f"{name}.srs", logrows)
    ezkl.setup(f"{name}.compiled", f"{name}.vk", f"{name}.pk", srs_path=f"{name}.srs")
    ezkl.gen_witness("input.json", f"{name}.compiled", f"{name}.witness")
    return logrows


def prove(name: str) -> tuple[float, float]:
    """CPU and wall milliseconds of one proof; the key is read from its file, as ezkl's interface has it."""
    started, before = time.perf_counter(), time.process_time()
    ezkl.prove(f"{name}.witness", f"{name}.compiled", f"{name}.pk", f"{name}.proof", srs_path=f"{name}.srs")
    return (time.process_time() - before) * 1e3, (time.perf_counter() - started) * 1e3


def main(folder: Path, count: int) -> None:
    os.chdir(folder)
    tried = {}
    for base, legs, columns in SETTINGS:
        name = f"b{base}l{legs}c{columns}"
        logrows = prepare(name, base, legs, columns)
        tried[name] = (min(prove(name)[0] for _ in range(2)), logrows)
    name = min(tried, key=lambda key: tried[key][0])
    times = [prove(name) for _ in range(count)]
    if not ezkl.verify(f"{name}.proof", f"{name}.json", f"{name}.vk", srs_path=f"{name}.srs"):
        raise SystemExit("the proof does not verify")
    proof = json.loads(Path(f"{name}.proof").read_text())
    report = {
        "version": version("ezkl"),
        "cpu_ms": [cpu for cpu, _ in times],
        "wall_ms": [wall for _, wall in times],
        "proof_bytes": len(proof["proof"]),
        "note": f"best of {len(SETTINGS)} settings: {name}, 2^{tried[name][1]} rows",
    }
    print(json.dumps(report))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
