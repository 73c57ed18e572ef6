"""The model on a real asyncua server: every node is where it belongs, and every value says what it is worth."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from asyncua import Server, ua
from asyncua.common.utils import Buffer
from asyncua.ua import ua_binary

import sitsedge.server
from sitsedge.config.units import UNITS
from sitsedge.errors import SitsError
from sitsedge.server.model import (
    BridgeView,
    CommandView,
    ConditionConfig,
    DeviceIdentity,
    EpochView,
    GateView,
    Health,
    HealthView,
    LoopView,
    MachineIdentity,
    ModelConfig,
    Nodes,
    Output,
    Percentiles,
    ProcessView,
    ProverView,
    Reach,
    RefusalView,
    View,
    Word,
    build,
)
from sitsedge.server.model.appliance import appliance_types
from sitsedge.server.model.device_integration import device_integration
from sitsedge.server.model.machines import machines
from sitsedge.server.model.names import DI, MACHINERY, SITS
from sitsedge.server.model.nodeset import FILE_NAME, nodeset_xml
from sitsedge.server.model.readings import readings
from sitsedge.server.model.space import Space
from sitsedge.server.model.units import CODES

NODESET = Path(sitsedge.server.__file__).parent / "nodeset" / FILE_NAME
T = 1_796_004_284_806_440_615
CONFIG = ModelConfig(
    name="mill-edge-01",
    device=DeviceIdentity(manufacturer="SITS Edge", model="Edge", serial_number="17", product_instance_uri="urn:x:17"),
    profile="development",
    curve="bn254",
    outputs=(Output("gap_correction", "mm", -0.5, 0.5), Output("speed_trim", "%", -2.0, 2.0)),
    processes=("sitsd", "gate", "bridge", "prover"),
    machine=MachineIdentity("mill", "Mills Inc.", "4711", "urn:mills:4711", year_of_construction=1998),
    conditions=(ConditionConfig("AttestationFailed", Health.FAILURE, "The machine is not attested."),),
)
GATE = GateView(Word(T), mode="AUTO", ceiling="AUTO", verified=True, refused={"replay": 2, "mode": 1}, expires_ns=T)
QUICK = Percentiles(1.0, 2.0, 3.0, 4.0)
FULL = View(
    T,
    gate=GateView(
        Word(T), "AUTO", "SUPERVISED", "a reason", False, "another", 7, "tpm2", "attested", "", "swtpm", T + 9, 5,
        {"replay": 2}, {"not-applied": 1}, QUICK, QUICK, True, True, 99, "deferred", 3, 2, 1, 12.5, False,
    ),
    loop=LoopView(
        Word(T), "ab" * 32, True, 9, {"stale": 1}, 1, 2, 3, 4, 5, QUICK, QUICK, QUICK, QUICK, "ptp-sw", "locked", 900,
        "", 1000, 88, 0, "", None, True,
    ),
    bridge=BridgeView(Word(T), True, 5, 1, {"overflow": 1}),
    prover=ProverView(Word(T), 5, 0, 1, True),
    epoch=EpochView(T, 7, T, "cd" * 32, "ab" * 32, "boot v1", "000b"),
    command=CommandView(
        T, b"command", 7, 12, T - 5, T, "AUTO", "ptp-sw", 1, b"proof", (0.1, 0.2), b"receipt", (0.1, 0.2), (0.1, 0.2),
        "ok", True, T + 1, T + 2, T + 3,
    ),
    refusal=RefusalView(T, "gate", "replay", "5", "above 5", 7, 5, 1, b"refusal"),
    health=HealthView(T, Health.OFF_SPEC, ("clock: free",)),
    processes={name: ProcessView("running", True, T, 4711) for name in CONFIG.processes},
)  # fmt: skip

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server() -> AsyncIterator[Any]:
    made = Server()
    await made.init()
    made.nodes_of_model = await build(made, CONFIG)
    yield made


@pytest.fixture
def nodes(server: Any) -> Nodes:
    return server.nodes_of_model


def value(server: Any, nodes: Nodes, path: str) -> ua.DataValue:
    return server.read_attribute_value(nodes.variables[path])


async def test_every_variable_has_a_reading_and_every_reading_a_variable(nodes: Nodes) -> None:
    paths = [r.path for r in readings(View(T), outputs=("gap_correction", "speed_trim"), processes=CONFIG.processes)]
    assert sorted(paths) == sorted(nodes.variables)


async def test_a_value_never_heard_of_is_bad_and_has_none(server: Any, nodes: Nodes) -> None:
    await nodes.update(View(T))
    for path in nodes.variables:
        found = value(server, nodes, path)
        assert found.StatusCode.value == ua.StatusCodes.BadWaitingForInitialData, path
        assert found.Value.Value is None, path


async def test_values_are_typed_and_carry_their_sources_time(server: Any, nodes: Nodes) -> None:
    await nodes.update(View(T, gate=GATE))
    mode = value(server, nodes, "Mode")
    assert (mode.Value.Value, mode.Value.VariantType, mode.StatusCode.value) == (4, ua.VariantType.Int32, 0)
    assert round(mode.SourceTimestamp.timestamp() * 1e6) == T // 1000
    table = value(server, nodes, "Counters.RefusedByCode").Value.Value
    assert [(row.Key.Name, row.Value.Value) for row in table] == [("mode", 1), ("replay", 2)]
    assert value(server, nodes, "Counters.Refused").Value.Value == 3
    assert value(server, nodes, "VerifiedReason").Value.Value == ""
    assert value(server, nodes, "Counters.Accepted").StatusCode.value == ua.StatusCodes.BadNoData


async def test_a_silent_process_makes_its_values_uncertain_and_a_dead_one_bad(server: Any, nodes: Nodes) -> None:
    await nodes.update(View(T, gate=GATE))
    await nodes.update(View(T + 9, gate=replace(GATE, word=Word(T + 5, Reach.SILENT))))
    silent = value(server, nodes, "Mode")
    assert silent.StatusCode.value == ua.StatusCodes.UncertainNoCommunicationLastUsableValue
    assert silent.Value.Value == 4
    await nodes.update(View(T + 9, gate=replace(GATE, word=Word(T + 5, Reach.GONE))))
    gone = value(server, nodes, "Mode")
    assert gone.StatusCode.value == ua.StatusCodes.BadNoCommunication
    assert gone.Value.Value is None


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"word": Word(T, Reach.SILENT)}, "no running gate"),
        ({"word": Word(T, Reach.GONE)}, "no running gate"),
        ({"attestation_phase": "ended"}, "the machine is not attested now: ended"),
        ({"attestation_phase": "failed"}, "the machine is not attested now: failed"),
        ({"verified": False, "verified_reason": "proof-deadline"}, "proof-deadline"),
    ],
)
async def test_nothing_is_verified_without_a_gate_that_speaks_and_an_attested_machine(
    server: Any, nodes: Nodes, change: dict[str, Any], reason: str
) -> None:
    await nodes.update(View(T, gate=GATE))
    assert value(server, nodes, "Verified").Value.Value is True
    await nodes.update(View(T, gate=replace(GATE, **change)))
    found = value(server, nodes, "Verified")
    assert (found.Value.Value, found.StatusCode.value) == (False, 0)
    assert value(server, nodes, "VerifiedReason").Value.Value == reason


async def test_the_record_of_another_epoch_says_nothing_of_the_open_one(server: Any, nodes: Nodes) -> None:
    await nodes.update(View(T, gate=replace(GATE, epoch=8), epoch=FULL.epoch))
    assert value(server, nodes, "Epoch.Opened").StatusCode.value == ua.StatusCodes.BadNoData
    assert value(server, nodes, "Epoch.Number").Value.Value == 8


async def test_update_writes_only_what_changed(nodes: Nodes) -> None:
    view = View(T, gate=GATE, loop=LoopView(Word(T), cycles=5))
    await nodes.update(view)
    assert await nodes.update(view) == 0
    assert await nodes.update(replace(view, loop=LoopView(Word(T + 1), cycles=6))) == 1


async def test_what_cannot_be_so_is_out_of_range(server: Any, nodes: Nodes) -> None:
    odd = replace(GATE, mode="FULL", accepted=-1, refused={"replay": 2**70})
    await nodes.update(View(T, gate=odd))
    for path in ("Mode", "Counters.Accepted", "Counters.RefusedByCode", "Counters.Refused"):
        assert value(server, nodes, path).StatusCode.value == ua.StatusCodes.BadOutOfRange, path


async def test_browse_paths_lead_from_objects_to_every_part(server: Any, nodes: Nodes) -> None:
    index = {uri: await server.get_namespace_index(uri) for uri in (DI, MACHINERY, SITS)}
    d, m, s = index[DI], index[MACHINERY], index[SITS]
    for path in (
        [f"{d}:DeviceSet", "1:mill-edge-01", f"{s}:Epoch", f"{s}:TpmSimulated"],
        [f"{d}:DeviceSet", "1:mill-edge-01", f"{s}:LastCommand", f"{s}:Outputs", f"{s}:speed_trim", "0:EURange"],
        [
            f"{d}:DeviceSet",
            "1:mill-edge-01",
            f"{d}:DeviceHealthAlarms",
            f"{s}:AttestationFailed",
            "0:ActiveState",
            "0:Id",
        ],
        [f"{m}:Machines", "1:mill", f"{d}:Identification", f"{m}:YearOfConstruction"],
        [f"{m}:Machines", "1:mill", f"{m}:Components", "1:mill-edge-01", f"{d}:Identification", f"{d}:SerialNumber"],
    ):
        await server.nodes.objects.get_child(path)


async def test_whatever_has_a_type_has_what_the_type_makes_mandatory(server: Any) -> None:
    space = server.iserver.aspace
    typed = 0
    for node_id in [node_id for node_id in space._nodes if node_id.NamespaceIndex]:
        for type_id in targets(space, node_id, ua.ObjectIds.HasTypeDefinition):
            missing = mandatory(space, type_id) - set(children(space, node_id))
            assert not missing, (node_id, missing)
            typed += 1
    assert typed > 400


def targets(space: Any, node_id: Any, reference: int, *, forward: bool = True) -> list[Any]:
    kind = ua.NodeId(reference)
    return [r.NodeId for r in space[node_id].references if r.IsForward == forward and r.ReferenceTypeId == kind]


def children(space: Any, node_id: Any) -> dict[Any, Any]:
    kinds = [ua.NodeId(n) for n in (ua.ObjectIds.HasComponent, ua.ObjectIds.HasProperty, ua.ObjectIds.HasAddIn)]
    found = [r for r in space[node_id].references if r.IsForward and r.ReferenceTypeId in kinds]
    return {(r.BrowseName.NamespaceIndex, r.BrowseName.Name): r.NodeId for r in found}


def mandatory(space: Any, type_id: Any) -> set[Any]:
    """Names that a type and its supertypes demand; what a subtype declares again is the subtype's word."""
    rule, found = ua.NodeId(ua.ObjectIds.ModellingRule_Mandatory), {}
    above = [type_id]
    while above:
        for name, child in children(space, above[0]).items():
            found.setdefault(name, rule in targets(space, child, ua.ObjectIds.HasModellingRule))
        above = targets(space, above[0], ua.ObjectIds.HasSubtype, forward=False)
    return {name for name, demanded in found.items() if demanded}


async def test_every_node_is_described(server: Any, nodes: Nodes) -> None:
    for node_id, data in server.iserver.aspace._nodes.items():
        if node_id.NamespaceIndex == 0 or node_id == server.nodes_of_model.device:
            continue
        described = data.attributes.get(ua.AttributeIds.Description)
        assert described is not None, node_id
        assert described.value.Value.Value.Text, node_id


async def test_every_attribute_goes_over_the_wire_and_back(server: Any, nodes: Nodes) -> None:
    await nodes.update(FULL)
    for node_id, data in server.iserver.aspace._nodes.items():
        for attribute, found in data.attributes.items() if node_id.NamespaceIndex else ():
            there = ua_binary.struct_to_binary(found.value)
            back = ua_binary.struct_from_binary(ua.DataValue, Buffer(there))
            assert ua_binary.struct_to_binary(back) == there, (node_id, attribute)


async def test_everything_a_view_can_hold_is_good(server: Any, nodes: Nodes) -> None:
    await nodes.update(FULL)
    for path in nodes.variables:
        found = value(server, nodes, path)
        assert found.StatusCode.value == 0, path
        assert found.Value.Value is not None, path


async def test_every_unit_of_a_deployment_has_a_unece_code() -> None:
    assert set(CODES) == UNITS
    assert len({code for code, _ in CODES.values()}) == len(CODES)


async def test_health_and_processes(server: Any, nodes: Nodes) -> None:
    gone = ProcessView("dead", alive=False, t_ns=T, pid=12)
    await nodes.update(View(T, health=HealthView(T, Health.OFF_SPEC, ("clock: free",)), processes={"gate": gone}))
    assert value(server, nodes, "DeviceHealth").Value.Value == 3
    assert value(server, nodes, "DeviceHealthDiagnostics").Value.Value == ["clock: free"]
    assert value(server, nodes, "Processes.gate.Alive").Value.Value is False


@pytest.mark.parametrize(
    "change",
    [
        {"name": "a/b"},
        {"outputs": (Output("gap", "furlong", 0.0, 1.0),)},
        {"outputs": (Output("gap", "mm", 1.0, 1.0),)},
        {"outputs": (Output("gap", "mm", 0.0, 1.0),) * 2},
        {"processes": ("a.b",)},
        {"machine": MachineIdentity("", "Mills Inc.", "4711", "urn:mills:4711")},
        {"conditions": (ConditionConfig("Well", Health.NORMAL, ""),)},
    ],
)
async def test_model_config(change: dict[str, Any]) -> None:
    with pytest.raises(SitsError, match="model-config"):
        replace(CONFIG, **change).check()


async def test_the_nodeset_in_the_repository_is_the_codes() -> None:
    assert NODESET.read_bytes() == nodeset_xml(), "write it again: sitsctl server nodeset --out FILE"


async def test_a_fresh_server_that_loads_the_nodeset_has_what_the_code_builds(server: Any) -> None:
    loaded = Server()
    await loaded.init()
    await (await Space.of(loaded, (DI, MACHINERY, SITS))).add((*device_integration(), *machines()))
    await loaded.import_xml(str(NODESET))
    space = await Space.of(server, (DI, MACHINERY, SITS))
    for node in appliance_types():
        node_id = space.node_id(node.id)
        one, other = server.iserver.aspace[node_id], loaded.iserver.aspace[node_id]
        for attribute in COMPARED:
            assert plain(one, attribute) == plain(other, attribute), (node.id, attribute)
        assert references(one) == references(other), node.id


COMPARED = (
    ua.AttributeIds.NodeClass,
    ua.AttributeIds.BrowseName,
    ua.AttributeIds.DisplayName,
    ua.AttributeIds.Description,
    ua.AttributeIds.DataType,
    ua.AttributeIds.ValueRank,
    ua.AttributeIds.IsAbstract,
    ua.AttributeIds.Value,
    ua.AttributeIds.DataTypeDefinition,
)


def plain(data: Any, attribute: ua.AttributeIds) -> Any:
    """Null, an empty text and an empty list are the same to the importer."""
    found = data.attributes.get(attribute)
    value = None if found is None else found.value.Value.Value
    if isinstance(value, ua.EnumDefinition):
        return [(field.Name, field.Value) for field in value.Fields]
    return value or None


def references(data: Any) -> set[tuple[str, str, bool]]:
    """Without those from types and modelling rules back to whoever uses them, which the importer adds."""
    return {
        (r.ReferenceTypeId.to_string(), r.NodeId.to_string(), r.IsForward)
        for r in data.references
        if r.IsForward or r.ReferenceTypeId.Identifier not in (40, 37)
    }
