"""Reads the whole negative corpus in this process under hard limits: a program of ``test_hostile``.

    python -m tests.sitsedge.compiler.importer.confined FOLDER

After everything is imported, the address space may grow by ``MEMORY_MAX`` and the processor time by ``SECONDS_MAX``;
the system enforces both, also for what protobuf and numpy allocate by themselves. Prints one JSON object, rule → code
of the refusal; what is no typed refusal ends the process.
"""

from __future__ import annotations

import json
import resource
import sys
from pathlib import Path

from sitsedge.compiler.errors import OnnxImportError
from sitsedge.compiler.importer import import_graph_bytes
from sitsedge.compiler.passes import simplify
from tests.sitsedge.compiler.importer.hostile import CORPUS

MEMORY_MAX = 512 << 20
SECONDS_MAX = 60


def limit() -> None:
    """From here on: no more memory and time than the constants say."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    memory = pages * resource.getpagesize() + MEMORY_MAX
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    spent = resource.getrusage(resource.RUSAGE_SELF)
    seconds = int(spent.ru_utime + spent.ru_stime) + SECONDS_MAX
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))


def main(folder: Path) -> None:
    limit()
    found = {}
    for rule, hostile in CORPUS.items():
        try:
            simplify(import_graph_bytes(hostile.data, folder=folder).graph)
            found[rule] = "imported"
        except OnnxImportError as error:
            found[rule] = error.code
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
