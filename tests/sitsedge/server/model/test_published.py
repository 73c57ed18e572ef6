"""What we show of DI and Machinery is what was published: identifiers, names, types, rules, references."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from asyncua import ua

import sitsedge.server
from attest.command import Mode
from sitsedge.server.model.appliance import appliance_types
from sitsedge.server.model.device_integration import device_integration
from sitsedge.server.model.machines import machines
from sitsedge.server.model.names import SITS
from sitsedge.server.model.nodeset import FILE_NAME
from sitsedge.server.model.spec import HAS_MODELLING_RULE, HAS_TYPE_DEFINITION, UA, Id, Node
from tests.support.nodesets import Published, node_opcua_loads, published_nodeset

NODESET = Path(sitsedge.server.__file__).parent / "nodeset" / FILE_NAME
CASES = {
    "di": (device_integration, "Opc.Ua.Di.NodeSet2.xml"),
    "machinery": (machines, "Opc.Ua.Machinery.NodeSet2.xml"),
}


def text(node: Id) -> str:
    kind = "i" if isinstance(node.identifier, int) else "s"
    return f"{node.namespace};{kind}={node.identifier}"


def linked(nodes: dict[str, Published], source: str, reference: str, target: str) -> bool:
    """Whether the reference is there, written at either end; ends in other files count as their own word."""
    at_source, at_target = nodes.get(source), nodes.get(target)
    if at_source is not None and (reference, target) in at_source.forward:
        return True
    return at_target is not None and (reference, source) in at_target.inverse


@pytest.mark.parametrize("which", CASES)
def test_nodes_are_those_of_the_published_file(which: str) -> None:
    make, file = CASES[which]
    nodes = published_nodeset(file)
    ours = make()
    assert len(ours) > 40
    for node in ours:
        hold(node, nodes)


def hold(node: Node, nodes: dict[str, Published]) -> None:
    key = text(node.id)
    found = nodes[key]
    assert found.kind == node.kind.name, key
    assert found.name == (node.name.namespace, node.name.text), key
    assert found.abstract == node.abstract, key
    assert linked(nodes, text(node.parent), text(node.reference), key), f"{key} below {node.parent}"
    if node.type is not None:
        assert (text(HAS_TYPE_DEFINITION), text(node.type)) in found.forward, key
    rules = {target for kind, target in found.forward if kind == text(HAS_MODELLING_RULE)}
    assert rules == (set() if node.rule is None else {text(node.rule)}), key
    if node.data_type is not None:
        assert found.data_type == text(node.data_type), key
        assert found.rank == node.rank, key
    assert found.fields == tuple((value.name, value.value) for value in node.values), key
    for link in node.links:
        assert linked(nodes, key, text(link.reference), text(link.target)), f"{key} to {link.target}"


def test_the_comparison_notices_another_name_and_another_rule() -> None:
    nodes = published_nodeset("Opc.Ua.Di.NodeSet2.xml")
    serial = next(node for node in device_integration() if node.id.identifier == 6001)
    hold(serial, nodes)
    for wrong in (
        replace(serial, id=Id(serial.id.namespace, 6002)),
        replace(serial, rule=None),
        replace(serial, data_type=Id(UA, ua.ObjectIds.Int32)),
    ):
        with pytest.raises(AssertionError):
            hold(wrong, nodes)


@pytest.mark.slow
def test_node_opcua_takes_our_nodeset_after_the_published_ones() -> None:
    answer = node_opcua_loads(NODESET, SITS)
    types = {str(node.id.identifier): [node.kind.name, node.name.text] for node in appliance_types()}
    assert answer["nodes"].items() >= types.items()
    assert answer["supertype"] == "DeviceType"
    assert {"Mode", "Verified", "Epoch", "LastCommand", "FetchRecord"} <= set(answer["components"])
    assert answer["arguments"] == ["Record", "TreeSize", "InclusionProof", "Checkpoint"]
    assert answer["modes"] == [mode.name for mode in Mode]
