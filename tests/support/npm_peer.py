"""Peers from the npm registry: run as processes of their own, never imported, and no part of the product.

The pinned packages of ``tests/peers/NAME`` (with its lock file) go into the ignored folder ``.dev/peers`` the first
time they are needed. Where Node.js or the registry is missing their tests are skipped and say so (``SITS_PEERS``: as in
:mod:`tests.support.snarkjs`).
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from functools import cache
from pathlib import Path

from tests.support.snarkjs import PEERS, ROOT, only_one, unavailable

INSTALL_S_MAX = 90
"""Below a test's own limit, so that a registry nobody answers at is a skip, not a failure."""

RECIPES = ROOT / "tests" / "peers"


def npm_peer(name: str) -> tuple[str, Path]:
    """Node.js and the folder of the installed recipe ``name``; skips the test with the reason where that cannot be."""
    found = _install(name)
    if isinstance(found, str):
        unavailable(found)
    return found


@cache
def _install(name: str) -> tuple[str, Path] | str:
    if os.environ.get("SITS_PEERS") == "off":
        return "SITS_PEERS=off"
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        return f"{name} needs Node.js and npm, which are not installed"
    recipe = RECIPES / name
    lock = (recipe / "package-lock.json").read_bytes()
    folder = PEERS / f"{name}-{hashlib.sha256(lock).hexdigest()[:12]}"
    with only_one():
        if not folder.exists():
            part = folder.with_suffix(".part")
            shutil.rmtree(part, ignore_errors=True)
            shutil.copytree(recipe, part)
            try:
                done = subprocess.run(
                    [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--fetch-retries=1"],
                    cwd=part, capture_output=True, text=True, timeout=INSTALL_S_MAX, check=False,
                )  # fmt: skip
            except subprocess.TimeoutExpired:
                return f"{name} not installed: npm took over {INSTALL_S_MAX} s"
            if done.returncode != 0:
                return f"{name} not installed: {(done.stderr.strip() or 'npm failed').splitlines()[-1][:200]}"
            part.rename(folder)
    return node, folder
