"""Proves one witness with groth16py (arkworks), again and again: python groth16py_peer.py FOLDER COUNT.

FOLDER holds circuit.r1cs and circuit.wtns. groth16py is GPL-3.0 and runs in an environment of its own. The proving key
stays in memory; reading the small witness file is part of what is timed, as its interface takes a path. Prints one JSON
object.
"""

from __future__ import annotations

import json
import sys
import time
from importlib.metadata import version
from pathlib import Path

import groth16py  # type: ignore[import-not-found]

WARM_UP = 3


def main(folder: Path, count: int) -> None:
    key, verification = groth16py.setup(str(folder / "circuit.r1cs"))
    signals = json.loads((folder / "public.json").read_text())
    cpu, wall = [], []
    proof = b""
    for number in range(WARM_UP + count):
        started, before = time.perf_counter(), time.process_time()
        proof = groth16py.prove_wtns(key, str(folder / "circuit.wtns"))
        if number >= WARM_UP:
            cpu.append((time.process_time() - before) * 1e3)
            wall.append((time.perf_counter() - started) * 1e3)
    if not groth16py.Verifier(verification).verify(proof, [int(signal) for signal in signals]):
        raise SystemExit("the proof does not verify")
    print(json.dumps({"version": version("groth16py"), "cpu_ms": cpu, "wall_ms": wall}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
