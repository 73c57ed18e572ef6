"""From browse paths to NodeIds and data types, asked of the server anew on every connect."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from asyncua import ua

from fieldbus.opcua.errors import OpcUaError
from fieldbus.opcua.failures import status_error
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


async def resolve(client: Any, namespace_uri: str, tags: Mapping[str, str]) -> dict[str, ResolvedNode]:
    """Nodes of those ``tags`` (name → path) that the server has: three service calls for each 250 of them.

    Raises OpcUaError ``namespace-missing``, ``browse-path`` (empty element), ``node-ambiguous``.
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
    index = namespaces.index(namespace_uri)
    if not tags:
        return {}
    paths = [_browse_path(tag, path, index) for tag, path in tags.items()]
    results: list[Any] = []
    for start in range(0, len(paths), NODES_PER_CALL):
        part = paths[start : start + NODES_PER_CALL]
        results += await client.uaclient.session.translate_browsepaths_to_nodeids(part)
    node_ids: dict[str, Any] = {}
    for (tag, path), result in zip(tags.items(), results, strict=True):
        if not result.StatusCode.is_good():
            if result.StatusCode.value in _ABSENT:
                continue
            raise status_error(int(result.StatusCode.value), doing=f"resolving {path}")
        if len(result.Targets) != 1:
            raise OpcUaError("node-ambiguous", found=f"{len(result.Targets)} nodes at {path}", expected="one")
        node_ids[tag] = result.Targets[0].TargetId
    return await _with_types(client, node_ids)


def absent_nodes(paths: Mapping[str, str], namespace_uri: str) -> OpcUaError:
    """The error for tags (name → path) that a server does not have: ``node-missing``, or ``index-range`` where a path
    asks for elements of an array. (A server may well call a node ``Gap[2]``: such a path resolves, and is no range.)"""
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


_INDEX_RANGE = re.compile(r"[^/]\[[0-9:,]+\]$")

_ABSENT = frozenset({ua.StatusCodes.BadNoMatch, ua.StatusCodes.BadNodeIdUnknown, ua.StatusCodes.BadNodeIdInvalid})


def _browse_path(tag: str, path: str, index: int) -> Any:
    names = path.split("/")
    if not all(names):
        raise OpcUaError("browse-path", found=f"{path!r} for {tag}", expected="names joined by '/', such as Mill/Gap")
    browse = ua.BrowsePath()
    browse.StartingNode = ua.NodeId(ua.ObjectIds.ObjectsFolder)
    for name in names:
        element = ua.RelativePathElement()
        element.ReferenceTypeId = ua.NodeId(ua.ObjectIds.HierarchicalReferences)
        element.IncludeSubtypes = True
        element.IsInverse = False
        element.TargetName = ua.QualifiedName(name, index)
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
