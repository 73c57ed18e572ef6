"""The published nodesets of OPC 10000-100 and OPC 40001-1: files to compare with, never a part of the product.

They come with the npm package ``node-opcua-nodesets`` (MIT), pinned in ``tests/peers/node-opcua`` (see
``tests.support.peers``).
"""

from __future__ import annotations

import json
import subprocess
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.peers import RUN_S_MAX, npm_peer

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
    return read_nodeset(npm_peer("node-opcua").modules / "node-opcua-nodesets" / "nodesets" / file_name)


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


def node_opcua_loads(file: Path, uri: str) -> dict[str, Any]:
    """What node-opcua makes of a nodeset; skips the test where it cannot be installed."""
    peer = npm_peer("node-opcua")
    done = subprocess.run(
        [peer.node, str(peer.recipe / "load.cjs"), str(peer.modules), str(file), uri],
        capture_output=True, text=True, timeout=RUN_S_MAX, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer
