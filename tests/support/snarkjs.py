"""snarkjs as a peer in the interoperability tests: another process, installed beside the repository's own tools.

snarkjs is GPL-3.0: it is run, never imported, and no part of the product. The pinned version of
``tests/peers/snarkjs`` (with its lock file) goes into the ignored folder ``.dev/peers`` the first time it is needed.
Where Node.js or the package registry is missing the tests are skipped and say so. ``SITS_PEERS=off`` skips them
without trying; ``SITS_PEERS=required`` (continuous integration) turns a skip into a failure.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NoReturn

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
RECIPE = ROOT / "tests" / "peers" / "snarkjs"
PEERS = ROOT / ".dev" / "peers"
NODE_MAJOR_MIN = 18
INSTALL_S_MAX = 60
"""Below a test's own limit, so that a registry nobody answers at is a skip, not a failure."""
RUN_S_MAX = 100
ENTROPY = "a test's own entropy: nobody uses these keys"


class SnarkjsError(Exception):
    """snarkjs ended with an error; the text is what it printed."""


def unavailable(reason: str) -> NoReturn:
    """Skips the test, or fails it where peers are required."""
    if os.environ.get("SITS_PEERS") == "required":
        pytest.fail(f"a peer is required: {reason}")
    pytest.skip(reason)


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


@cache
def _install() -> Snarkjs | str:
    """The installation, or why there is none."""
    if os.environ.get("SITS_PEERS") == "off":
        return "SITS_PEERS=off"
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        return "snarkjs needs Node.js and npm, which are not installed"
    version = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    if int(version.lstrip("v").split(".")[0]) < NODE_MAJOR_MIN:
        return f"snarkjs needs Node.js {NODE_MAJOR_MIN}, found {version}"
    lock = (RECIPE / "package-lock.json").read_bytes()
    folder = PEERS / f"snarkjs-{hashlib.sha256(lock).hexdigest()[:12]}"
    script = folder / "node_modules" / "snarkjs" / "build" / "cli.cjs"
    with only_one():
        if not script.exists():
            part = folder.with_suffix(".part")
            shutil.rmtree(part, ignore_errors=True)
            shutil.copytree(RECIPE, part)
            try:
                done = subprocess.run(
                    [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--fetch-retries=1"],
                    cwd=part, capture_output=True, text=True, timeout=INSTALL_S_MAX, check=False,
                )  # fmt: skip
            except subprocess.TimeoutExpired:
                return f"snarkjs not installed: npm took over {INSTALL_S_MAX} s"
            if done.returncode != 0:
                return f"snarkjs not installed: {(done.stderr.strip() or 'npm failed').splitlines()[-1][:200]}"
            part.rename(folder)
    return Snarkjs(node, script)


@contextmanager
def only_one() -> Iterator[None]:
    """Test processes that run side by side install once."""
    PEERS.mkdir(parents=True, exist_ok=True)
    with (PEERS / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def find_snarkjs() -> Snarkjs:
    """The pinned snarkjs, installed if need be; skips the test with the reason where that is impossible."""
    found = _install()
    if isinstance(found, str):
        unavailable(found)
    return found


def snarkjs_if_present() -> Snarkjs | None:
    """For a test of which snarkjs is only the last part: ``None`` where :func:`find_snarkjs` would skip."""
    found = _install()
    if isinstance(found, str) and os.environ.get("SITS_PEERS") != "required":
        return None
    return find_snarkjs()
