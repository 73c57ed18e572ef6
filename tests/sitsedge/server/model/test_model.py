"""The model on a real asyncua server: every node is where it belongs, and every value says what it is worth."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
import pytest_asyncio
from asyncua import Server, ua

from sitsedge.config.units import UNITS
from sitsedge.errors import SitsError
from sitsedge.server.model import (
    ConditionConfig,
    DeviceIdentity,
    GateView,
    Health,
    HealthView,
    LoopView,
    MachineIdentity,
    ModelConfig,
    Nodes,
    Output,
    ProcessView,
    Reach,
    View,
    Word,
    build,
)
from sitsedge.server.model.names import DI, MACHINERY, SITS
from sitsedge.server.model.readings import readings
from sitsedge.server.model.units import CODES

T = 1_796_004_284_806_440_615
CONFIG = ModelConfig(
    name="mill-edge-01",
    device=DeviceIdentity(manufacturer="SITS Edge", model="Edge", serial_number="17", product_instance_uri="urn:x:17"),
    profile="development",
    curve="bn254",
    outputs=(Output("gap_correction", "mm", -0.5, 0.5), Output("speed_trim", "%", -2.0, 2.0)),
    processes=("sitsd", "gate", "bridge"),
    machine=MachineIdentity("mill", "Mills Inc.", "4711", "urn:mills:4711", year_of_construction=1998),
    conditions=(ConditionConfig("AttestationFailed", Health.FAILURE, "The machine is not attested."),),
)
GATE = GateView(Word(T), mode="AUTO", ceiling="AUTO", verified=True, refused={"replay": 2, "mode": 1}, expires_ns=T)

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
    paths = [
        r.path
        for r in readings(View(T), outputs=("gap_correction", "speed_trim"), processes=CONFIG.processes, bridge=True)
    ]
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
    gone = value(server, nodes, "Verified")
    assert gone.StatusCode.value == ua.StatusCodes.BadNoCommunication
    assert gone.Value.Value is None


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


async def test_every_node_is_described(server: Any, nodes: Nodes) -> None:
    for node_id, data in server.iserver.aspace._nodes.items():
        if node_id.NamespaceIndex == 0 or node_id == server.nodes_of_model.device:
            continue
        described = data.attributes.get(ua.AttributeIds.Description)
        assert described is not None, node_id
        assert described.value.Value.Value.Text, node_id


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
        {"conditions": (ConditionConfig("Well", Health.NORMAL, ""),)},
    ],
)
async def test_model_config(change: dict[str, Any]) -> None:
    with pytest.raises(SitsError, match="model-config"):
        replace(CONFIG, **change).check()
