"""What a server says of itself and of its variables: for the person who commissions a line, not for control."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from asyncua import ua

from fieldbus.opcua.nodes import ResolvedNode


@dataclass(frozen=True, slots=True)
class VariableFacts:
    """``type``: data type of a scalar by its OPC UA name, empty for anything else. ``unit``: display name of the
    EngineeringUnits property (OPC 10000-8, 5.3.2), empty without one."""

    type: str
    unit: str


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """BuildInfo and state of the server (OPC 10000-5, 12.10), and its variables by tag."""

    product: str
    manufacturer: str
    version: str
    state: str
    variables: Mapping[str, VariableFacts]


async def describe(session: Any, nodes: Mapping[str, ResolvedNode]) -> ServerFacts:
    """Ask for all of it; raises as the session does."""
    [status] = await _read(session, [ua.NodeId(ua.ObjectIds.Server_ServerStatus)])
    build = getattr(status, "BuildInfo", None)
    units = await _units(session, {tag: node.node_id for tag, node in nodes.items()})
    types = {tag: "" if node.variant_type is None else str(node.variant_type.name) for tag, node in nodes.items()}
    state = getattr(status, "State", None)
    return ServerFacts(
        product=str(getattr(build, "ProductName", "") or ""),
        manufacturer=str(getattr(build, "ManufacturerName", "") or ""),
        version=str(getattr(build, "SoftwareVersion", "") or ""),
        state=str(getattr(state, "name", "") or ""),
        variables={tag: VariableFacts(types[tag], units.get(tag, "")) for tag in nodes},
    )


async def _read(session: Any, node_ids: list[Any]) -> list[Any]:
    params = ua.ReadParameters()
    for node_id in node_ids:
        item = ua.ReadValueId()
        item.NodeId, item.AttributeId = node_id, ua.AttributeIds.Value
        params.NodesToRead.append(item)
    values = await session.read(params)
    return [None if value.Value is None else value.Value.Value for value in values]


async def _units(session: Any, node_ids: Mapping[str, Any]) -> dict[str, str]:
    paths = []
    for node_id in node_ids.values():
        element = ua.RelativePathElement()
        element.ReferenceTypeId = ua.NodeId(ua.ObjectIds.HasProperty)
        element.IncludeSubtypes, element.IsInverse = True, False
        element.TargetName = ua.QualifiedName("EngineeringUnits", 0)
        path = ua.BrowsePath()
        path.StartingNode = node_id
        path.RelativePath.Elements.append(element)
        paths.append(path)
    results = await session.translate_browsepaths_to_nodeids(paths) if paths else []
    found = {
        tag: result.Targets[0].TargetId
        for tag, result in zip(node_ids, results, strict=True)
        if result.StatusCode.is_good() and result.Targets
    }
    values = await _read(session, list(found.values())) if found else []
    return {
        tag: str(value.DisplayName.Text or "")
        for tag, value in zip(found, values, strict=True)
        if isinstance(value, ua.EUInformation)
    }
