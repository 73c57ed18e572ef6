"""gnark as a peer in the interoperability tests: its Groth16 verifier in a small Go program of ``tests/peers/gnark``.

gnark is Apache-2.0; the program is built into the ignored folder ``.dev/peers`` the first time it is needed (half a
minute of one core) with the versions that ``go.mod`` and ``go.sum`` pin. ``SITS_PEERS``: see ``tests.support.peers``.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from functools import cache
from pathlib import Path

from tests.support.peers import PEERS, ROOT, only_one, unavailable

SOURCE = ROOT / "tests" / "peers" / "gnark"
BUILD_S_MAX = 300


@cache
def _build() -> Path | str:
    """The program, or why there is none."""
    if os.environ.get("SITS_PEERS") == "off":
        return "SITS_PEERS=off"
    go = shutil.which("go")
    if go is None:
        return "gnark needs Go, which is not installed"
    files = sorted(path for path in SOURCE.iterdir() if path.is_file())
    digest = hashlib.sha256(b"".join(path.name.encode() + path.read_bytes() for path in files)).hexdigest()
    program = PEERS / f"gnark-{digest[:12]}"
    with only_one():
        if not program.exists():
            part = program.with_suffix(".part")
            try:
                done = subprocess.run(
                    [go, "build", "-mod=readonly", "-trimpath", "-o", str(part), "."],
                    cwd=SOURCE, capture_output=True, text=True, timeout=BUILD_S_MAX, check=False,
                )  # fmt: skip
            except subprocess.TimeoutExpired:
                return f"gnark not built: go took over {BUILD_S_MAX} s"
            if done.returncode != 0:
                return f"gnark not built: {(done.stderr.strip() or 'go failed').splitlines()[-1][:200]}"
            part.rename(program)
    return program


def gnark_verdicts(*folders: Path) -> list[str]:
    """``ok`` or ``refused: …`` for each folder; skips the test with the reason where gnark cannot be built."""
    program = _build()
    if isinstance(program, str):
        unavailable(program)
    done = subprocess.run([str(program), *map(str, folders)], capture_output=True, text=True, timeout=60, check=True)
    return done.stdout.splitlines()
