"""From browse paths to NodeIds and data types, asked of the server anew on every connect."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from asyncua import ua

from fieldbus.opcua.errors import OpcUaError
from fieldbus.opcua.failures import status_error
from fieldbus.opcua.paths import PathElement, in_namespace, parse_path
from fieldbus.opcua.values import variant_type_of

TAGS_MAX = 1_000
"""Tags of one client: more than any loop reads, and few enough to look for every few seconds."""

NODES_PER_CALL = 250
"""Paths or nodes in one service call: small servers refuse calls with more than a few hundred."""


@dataclass(frozen=True, slots=True)
class ResolvedNode:
    """A variable: its NodeId on this server now, and the VariantType to write (None: not a plain scalar)."""

    node_id: Any
    variant_type: Any


@dataclass(frozen=True, slots=True)
class NodeTable:
    """What a server has of the tags asked for. ``foreign``: tags whose path goes through a namespace that it does not
    have, with that namespace's URI. The dictionaries are the connection's own and change with every look."""

    found: dict[str, ResolvedNode] = field(default_factory=dict)
    foreign: dict[str, str] = field(default_factory=dict)

    def take(self, other: NodeTable) -> None:
        """Be as ``other``."""
        self.found.clear()
        self.found.update(other.found)
        self.foreign.clear()
        self.foreign.update(other.foreign)


async def resolve(client: Any, namespace_uri: str, tags: Mapping[str, str]) -> NodeTable:
    """Nodes of those ``tags`` (name → path, see ``paths``) that the server has: three service calls for each 250.

    Raises OpcUaError ``namespace-missing`` (the configured one: it is another server), ``browse-path``,
    ``node-ambiguous``.
    """
    if len(tags) > TAGS_MAX:
        raise OpcUaError("too-many-tags", found=str(len(tags)), expected=f"at most {TAGS_MAX}")
    namespaces = await client.get_namespace_array()
    if namespace_uri not in namespaces:
        raise OpcUaError(
            "namespace-missing",
            found=", ".join(str(uri) for uri in namespaces),
            expected=namespace_uri,
            hint="the server does not run the application the deployment names",
        )
    indices: dict[str, int] = {}
    for index, uri in enumerate(namespaces):
        indices.setdefault(uri, index)
    paths: dict[str, Any] = {}
    foreign: dict[str, str] = {}
    for tag, text in tags.items():
        elements = in_namespace(parse_path(text), namespace_uri)
        unknown = next((str(item.namespace_uri) for item in elements if item.namespace_uri not in indices), None)
        if unknown is None:
            paths[tag] = _browse_path(elements, indices)
        else:
            foreign[tag] = unknown
    node_ids = await _translate(client, tags, paths)
    return NodeTable(await _with_types(client, node_ids), foreign)


async def _translate(client: Any, tags: Mapping[str, str], paths: Mapping[str, Any]) -> dict[str, Any]:
    wanted = list(paths.values())
    results: list[Any] = []
    for start in range(0, len(wanted), NODES_PER_CALL):
        part = wanted[start : start + NODES_PER_CALL]
        results += await client.uaclient.session.translate_browsepaths_to_nodeids(part)
    node_ids: dict[str, Any] = {}
    for tag, result in zip(paths, results, strict=True):
        if not result.StatusCode.is_good():
            if result.StatusCode.value in _ABSENT:
                continue
            raise status_error(int(result.StatusCode.value), doing=f"resolving {tags[tag]}")
        if len(result.Targets) != 1:
            raise OpcUaError("node-ambiguous", found=f"{len(result.Targets)} nodes at {tags[tag]}", expected="one")
        node_ids[tag] = result.Targets[0].TargetId
    return node_ids


def absent_nodes(paths: Mapping[str, str], namespace_uri: str, foreign: Mapping[str, str] | None = None) -> OpcUaError:
    """The error for tags (name → path) that a server does not have: ``namespace-missing`` for those in ``foreign``
    (see ``NodeTable``), ``index-range`` where a path asks for elements of an array, else ``node-missing``. (A server
    may well call a node ``Gap[2]``: such a path resolves, and is no range.)"""
    if foreign:
        return OpcUaError(
            "namespace-missing",
            found="no namespace " + ", ".join(f"{uri} for {tag} ({paths[tag]})" for tag, uri in foreign.items()),
            expected="every namespace that the paths name",
            hint="compare the URI with the server's NamespaceArray; a missing slash at its end is another namespace",
        )
    ranges = {tag: path for tag, path in paths.items() if _INDEX_RANGE.search(path)}
    if ranges:
        return OpcUaError(
            "index-range",
            found=", ".join(f"{tag} ({path})" for tag, path in ranges.items()),
            expected="the path of a variable that is a scalar",
            hint="parts of arrays are not read; let the server offer the element as a variable of its own",
        )
    return OpcUaError(
        "node-missing",
        found="no node for " + ", ".join(f"{tag} ({path})" for tag, path in paths.items()),
        expected=f"the browse path under Objects in {namespace_uri}",
        hint="compare the path with the server's address space",
    )


_INDEX_RANGE = re.compile(r"[^/;]\[[0-9:,]+\]$")

_ABSENT = frozenset({ua.StatusCodes.BadNoMatch, ua.StatusCodes.BadNodeIdUnknown, ua.StatusCodes.BadNodeIdInvalid})


def _browse_path(elements: Sequence[PathElement], indices: Mapping[str, int]) -> Any:
    browse = ua.BrowsePath()
    browse.StartingNode = ua.NodeId(ua.ObjectIds.ObjectsFolder)
    for item in elements:
        element = ua.RelativePathElement()
        element.ReferenceTypeId = ua.NodeId(ua.ObjectIds.HierarchicalReferences)
        element.IncludeSubtypes = True
        element.IsInverse = False
        element.TargetName = ua.QualifiedName(item.name, indices[str(item.namespace_uri)])
        browse.RelativePath.Elements.append(element)
    return browse


async def _with_types(client: Any, node_ids: Mapping[str, Any]) -> dict[str, ResolvedNode]:
    items: list[Any] = []
    for node_id in node_ids.values():
        for attribute in (ua.AttributeIds.DataType, ua.AttributeIds.ValueRank):
            item = ua.ReadValueId()
            item.NodeId = node_id
            item.AttributeId = attribute
            items.append(item)
    values: list[Any] = []
    for start in range(0, len(items), NODES_PER_CALL):
        params = ua.ReadParameters()
        params.NodesToRead = items[start : start + NODES_PER_CALL]
        values += await client.uaclient.session.read(params)
    nodes: dict[str, ResolvedNode] = {}
    for position, (tag, node_id) in enumerate(node_ids.items()):
        data_type, rank = values[2 * position], values[2 * position + 1]
        scalar = rank.Value is not None and rank.Value.Value == ua.ValueRank.Scalar
        kind = variant_type_of(data_type.Value.Value) if scalar and data_type.Value is not None else None
        nodes[tag] = ResolvedNode(node_id, kind)
    return nodes
