"""snarkjs as a peer in the interoperability tests: another process, installed beside the repository's own tools.

snarkjs is GPL-3.0: it is run, never imported, and no part of the product (see ``tests.support.peers``).
"""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.support.peers import RUN_S_MAX, install, unavailable

ENTROPY = "a test's own entropy: nobody uses these keys"


class SnarkjsError(Exception):
    """snarkjs ended with an error; the text is what it printed."""


@dataclass(frozen=True, slots=True)
class Snarkjs:
    """The command line of one installation."""

    node: str
    script: Path

    def run(self, *arguments: str | Path, cwd: Path) -> str:
        """Standard output; raises :class:`SnarkjsError`."""
        done = subprocess.run(
            [self.node, str(self.script), *map(str, arguments)],
            cwd=cwd, capture_output=True, text=True, timeout=RUN_S_MAX, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        if done.returncode != 0:
            raise SnarkjsError(f"{arguments[:2]}: {done.stdout}{done.stderr}")
        return done.stdout

    def verifies(self, folder: Path) -> bool:
        """``groth16 verify`` on verification_key.json, public.json and proof.json of ``folder``."""
        try:
            text = self.run("groth16", "verify", "verification_key.json", "public.json", "proof.json", cwd=folder)
        except SnarkjsError as error:
            if "Invalid proof" in str(error):
                return False
            raise
        return "OK!" in text

    def powers_of_tau(self, curve: str, power: int, folder: Path) -> Path:
        """A prepared phase 1 with one contribution; ``curve`` is ``bn128`` or ``bls12381``."""
        first, second, final = (folder / f"{name}.ptau" for name in ("first", "second", "final"))
        self.run("powersoftau", "new", curve, str(power), first, cwd=folder)
        self.run("powersoftau", "contribute", first, second, "--name=test", f"-e={ENTROPY}", cwd=folder)
        self.run("powersoftau", "prepare", "phase2", second, final, cwd=folder)
        return final

    def setup(self, r1cs: Path, ptau: Path, folder: Path) -> tuple[Path, Path]:
        """Phase 2 with one contribution: the proving key (.zkey) and ``verification_key.json``."""
        empty, final, key = folder / "empty.zkey", folder / "final.zkey", folder / "verification_key.json"
        self.run("groth16", "setup", r1cs, ptau, empty, cwd=folder)
        self.run("zkey", "contribute", empty, final, "--name=test", f"-e={ENTROPY}", cwd=folder)
        self.run("zkey", "export", "verificationkey", final, key, cwd=folder)
        return final, key


def _found() -> Snarkjs | str:
    """The installation, or why there is none."""
    peer = install("snarkjs")
    return peer if isinstance(peer, str) else Snarkjs(peer.node, peer.modules / "snarkjs" / "build" / "cli.cjs")


def find_snarkjs() -> Snarkjs:
    """The pinned snarkjs, installed if need be; skips the test with the reason where that is impossible."""
    found = _found()
    if isinstance(found, str):
        unavailable(found)
    return found


def snarkjs_if_present() -> Snarkjs | None:
    """For a test of which snarkjs is only the last part: ``None`` where :func:`find_snarkjs` would skip."""
    found = _found()
    if isinstance(found, str) and os.environ.get("SITS_PEERS") != "required":
        return None
    return find_snarkjs()
