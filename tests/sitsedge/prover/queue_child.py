"""Adds jobs for ever, printing the number of each one that is durable; the test kills it."""

from __future__ import annotations

import sys
from pathlib import Path

from sitsedge.prover.queue import ProofQueue
from tests.sitsedge.prover.commands import owing


def main() -> None:
    queue = ProofQueue(Path(sys.argv[1]), capacity=100_000)
    sequence = 0
    while True:
        sequence += 1
        queue.add([(owing(sequence, prove=False).data, sequence)])
        sys.stdout.write(f"{sequence}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
