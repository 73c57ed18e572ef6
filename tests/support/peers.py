"""Programs nobody here wrote, run beside the tests as processes of their own: never imported, no part of the product.

The pinned packages of ``tests/peers/NAME`` (with their lock file) go into the ignored folder ``.dev/peers`` the first
time they are needed. Where Node.js or the package registry is missing their tests are skipped and say so.
``SITS_PEERS=off`` skips them without trying; ``SITS_PEERS=required`` turns a skip into a failure.
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
RECIPES = ROOT / "tests" / "peers"
PEERS = ROOT / ".dev" / "peers"
NODE_MAJOR_MIN = 18
INSTALL_S_MAX = 90
"""Below a test's own limit, so that a registry nobody answers at is a skip, not a failure."""
RUN_S_MAX = 100


@dataclass(frozen=True, slots=True)
class NpmPeer:
    """An installed recipe: ``node`` runs ``recipe``'s programs with the packages below ``folder``."""

    node: str
    recipe: Path
    folder: Path

    @property
    def modules(self) -> Path:
        return self.folder / "node_modules"


def unavailable(reason: str) -> NoReturn:
    """Skips the test, or fails it where peers are required."""
    if os.environ.get("SITS_PEERS") == "required":
        pytest.fail(f"a peer is required: {reason}")
    pytest.skip(reason)


@contextmanager
def only_one() -> Iterator[None]:
    """Test processes that run side by side install once."""
    PEERS.mkdir(parents=True, exist_ok=True)
    with (PEERS / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def npm_peer(name: str) -> NpmPeer:
    """The installed recipe ``name``; skips the test with the reason where it cannot be."""
    found = install(name)
    if isinstance(found, str):
        unavailable(found)
    return found


@cache
def install(name: str) -> NpmPeer | str:
    """The recipe ``name``, installed if need be, or why it is not."""
    if os.environ.get("SITS_PEERS") == "off":
        return "SITS_PEERS=off"
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        return f"{name} needs Node.js and npm, which are not installed"
    version = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    if int(version.lstrip("v").split(".")[0]) < NODE_MAJOR_MIN:
        return f"{name} needs Node.js {NODE_MAJOR_MIN}, found {version}"
    recipe = RECIPES / name
    lock = (recipe / "package-lock.json").read_bytes()
    folder = PEERS / f"{name}-{hashlib.sha256(lock).hexdigest()[:12]}"
    with only_one():
        failed = None if folder.exists() else _npm_ci(npm, recipe, folder)
    return NpmPeer(node, recipe, folder) if failed is None else f"{name} not installed: {failed}"


def _npm_ci(npm: str, recipe: Path, folder: Path) -> str | None:
    """Install into ``folder``, which appears whole or not at all; what went wrong otherwise."""
    part = folder.with_suffix(".part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir()
    for file in ("package.json", "package-lock.json"):
        shutil.copy(recipe / file, part / file)
    try:
        done = subprocess.run(
            [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--fetch-retries=1"],
            cwd=part, capture_output=True, text=True, timeout=INSTALL_S_MAX, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"npm took over {INSTALL_S_MAX} s"
    if done.returncode != 0:
        return (done.stderr.strip() or "npm failed").splitlines()[-1][:200]
    part.rename(folder)
    return None
