"""The published nodesets of OPC 10000-100 and OPC 40001-1: files to compare with, never a part of the product.

They come with the npm package ``node-opcua-nodesets`` (MIT), pinned in ``tests/peers/opcua-nodesets`` and installed
into the ignored folder ``.dev/peers`` the first time. ``SITS_PEERS`` is as for other peers (``tests.support.snarkjs``).
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.support.snarkjs import INSTALL_S_MAX, PEERS, ROOT, RUN_S_MAX, only_one, unavailable

RECIPE = ROOT / "tests" / "peers" / "opcua-nodesets"
_NS = "{http://opcfoundation.org/UA/2011/03/UANodeSet.xsd}"


@dataclass(frozen=True, slots=True)
class Published:
    """One node of a published file; identifiers and names with their namespace's URI, references as (type, target)."""

    kind: str
    name: tuple[str, str]
    data_type: str | None
    rank: int
    abstract: bool
    forward: frozenset[tuple[str, str]]
    inverse: frozenset[tuple[str, str]]
    fields: tuple[tuple[str, int], ...]


def published_nodeset(file_name: str) -> dict[str, Published]:
    """All nodes by ``URI;i=…``. Skips the test where the files cannot be had."""
    found = _install()
    if isinstance(found, str):
        unavailable(found)
    return read_nodeset(found / file_name)


def read_nodeset(path: Path) -> dict[str, Published]:
    """The nodes of any UANodeSet file."""
    root = ET.parse(path).getroot()
    uris = ["http://opcfoundation.org/UA/", *(uri.text or "" for uri in root.iterfind(f"{_NS}NamespaceUris/{_NS}Uri"))]
    aliases = {alias.attrib["Alias"]: alias.text or "" for alias in root.iterfind(f"{_NS}Aliases/{_NS}Alias")}

    def node_id(text: str) -> str:
        text = aliases.get(text, text)
        index, _, rest = text.partition(";") if text.startswith("ns=") else ("ns=0", "", text)
        return f"{uris[int(index[3:])]};{rest}"

    def name(text: str) -> tuple[str, str]:
        index, colon, rest = text.partition(":")
        return (uris[int(index)], rest) if colon and index.isdigit() else (uris[0], text)

    nodes = {}
    for element in root:
        if not element.tag.startswith(f"{_NS}UA"):
            continue
        references = element.findall(f"{_NS}References/{_NS}Reference")
        pairs = [
            (node_id(r.attrib["ReferenceType"]), node_id(r.text or ""), r.attrib.get("IsForward", "true") == "true")
            for r in references
        ]
        data_type = element.attrib.get("DataType")
        nodes[node_id(element.attrib["NodeId"])] = Published(
            element.tag.removeprefix(f"{_NS}UA"),
            name(element.attrib["BrowseName"]),
            None if data_type is None else node_id(data_type),
            int(element.attrib.get("ValueRank", "-1")),
            element.attrib.get("IsAbstract") == "true",
            frozenset((kind, target) for kind, target, forward in pairs if forward),
            frozenset((kind, target) for kind, target, forward in pairs if not forward),
            tuple(
                (field.attrib["Name"], int(field.attrib.get("Value", "-1")))
                for field in element.iterfind(f"{_NS}Definition/{_NS}Field")
            ),
        )
    return nodes


@cache
def _install() -> Path | str:
    """The folder of the files, or why there is none."""
    if os.environ.get("SITS_PEERS") == "off":
        return "SITS_PEERS=off"
    npm = shutil.which("npm")
    if npm is None:
        return "the published nodesets need npm, which is not installed"
    lock = (RECIPE / "package-lock.json").read_bytes()
    folder = PEERS / f"opcua-nodesets-{hashlib.sha256(lock).hexdigest()[:12]}"
    files = folder / "node_modules" / "node-opcua-nodesets" / "nodesets"
    with only_one():
        if not files.is_dir():
            part = folder.with_suffix(".part")
            shutil.rmtree(part, ignore_errors=True)
            shutil.copytree(RECIPE, part)
            try:
                done = subprocess.run(
                    [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--fetch-retries=1"],
                    cwd=part, capture_output=True, text=True, timeout=INSTALL_S_MAX, check=False,
                )  # fmt: skip
            except subprocess.TimeoutExpired:
                return f"the published nodesets are not installed: npm took over {INSTALL_S_MAX} s"
            if done.returncode != 0:
                reason = (done.stderr.strip() or "npm failed").splitlines()[-1][:200]
                return f"the published nodesets are not installed: {reason}"
            part.rename(folder)
    return files


def node_opcua_loads(file: Path, uri: str) -> dict[str, Any]:
    """What node-opcua makes of a nodeset; skips the test where no other test has installed it."""
    if os.environ.get("SITS_PEERS") == "off":
        unavailable("SITS_PEERS=off")
    node = shutil.which("node")
    found = sorted(PEERS.glob("node-opcua-server-*/node_modules/node-opcua-address-space/package.json"))
    if node is None or not found:
        pytest.skip("node-opcua's address space is not at hand: the tests of its server install it")
    done = subprocess.run(
        [node, str(RECIPE / "load.cjs"), str(found[-1].parent.parent), str(file), uri],
        capture_output=True, text=True, timeout=RUN_S_MAX, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer
