"""The model on one server: built once, then updated with what a view says, writing only what is different."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from types import MappingProxyType
from typing import Any, Final

from asyncua import ua

from sitsedge.server.model.appliance import appliance_types
from sitsedge.server.model.checks import TIME_NS_MAX
from sitsedge.server.model.conditions import PATHS, condition_id
from sitsedge.server.model.config import ModelConfig
from sitsedge.server.model.device_integration import HEALTH_ALARMS, device_integration
from sitsedge.server.model.instances import APPLIANCE, DEVICE, appliance_nodes
from sitsedge.server.model.machines import machines
from sitsedge.server.model.names import DI, MACHINERY, SITS
from sitsedge.server.model.parts import COMMAND_REFUSED
from sitsedge.server.model.readings import Reading, readings
from sitsedge.server.model.space import ModelError, Space
from sitsedge.server.model.spec import ARRAY, DATE_TIME, KEY_VALUE_PAIR, LOCAL, UTC_TIME, Id, Node, Types
from sitsedge.server.model.view import View

METHODS: Final = ("FetchRecord", "FetchProof", "StepDown")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class ConditionNodes:
    """One condition: its own NodeId, its type's, and its variables' by path (``ActiveState.Id``)."""

    node_id: Any
    type_id: Any
    variables: Mapping[str, Any]


@dataclass(slots=True)
class _Variable:
    """A variable that changes: how it is encoded, and what was written last."""

    node_id: Any
    data_type: Id
    array: bool
    value: Any = None
    status: int = -1


@cache
def type_nodes() -> tuple[Node, ...]:
    """All nodes of DI, Machinery and ours that are types, parents before children."""
    return (*device_integration(), *machines(), *appliance_types())


@cache
def types() -> Types:
    """The same, to make instances from."""
    return Types(type_nodes())


class Nodes:
    """The appliance in a server's address space.

    ``device``: NodeId of the appliance. ``methods``: NodeIds of FetchRecord, FetchProof and StepDown. ``conditions``:
    by name. ``variables``: NodeIds of all that changes, by path below the appliance. ``command_refused``: the type of
    the event for a refusal, whose own fields are Code, Found, Expected, Epoch, Sequence, LedgerIndex.
    """

    def __init__(self, server: Any, space: Space, config: ModelConfig, nodes: tuple[Node, ...]) -> None:
        self._server = server
        self._space = space
        self._config = config
        prefix = f"{APPLIANCE}."
        self._variables = {
            str(node.id.identifier).removeprefix(prefix): _Variable(
                space.node_id(node.id), node.data_type, node.rank == ARRAY
            )
            for node in nodes
            if node.kind is ua.NodeClass.Variable
            and node.data_type is not None
            and node.value is None
            and str(node.id.identifier).startswith(prefix)
            and not node.arguments
        }
        self.device = space.node_id(DEVICE)
        self.command_refused = space.node_id(COMMAND_REFUSED)
        self.methods = MappingProxyType({name: space.node_id(Id(LOCAL, f"{prefix}{name}")) for name in METHODS})
        kinds = {condition.name: HEALTH_ALARMS[condition.health] for condition in config.conditions}
        self.conditions = MappingProxyType(
            {
                name: ConditionNodes(
                    space.node_id(condition_id(name)),
                    space.node_id(kind),
                    MappingProxyType({path: space.node_id(condition_id(name, path)) for path in PATHS}),
                )
                for name, kind in kinds.items()
            }
        )

    @property
    def variables(self) -> Mapping[str, Any]:
        """NodeIds of the variables that change, by path below the appliance."""
        return {path: variable.node_id for path, variable in self._variables.items()}

    async def update(self, view: View) -> int:
        """Write what is different from the last update; how many that were.

        A value that did not change keeps the time it was first seen with; what is fresh is said by the StatusCode and
        by ``Processes/*/LastSeen``. Raises :class:`ModelError` for a server that does not take a value.
        """
        written = 0
        config = self._config
        names = tuple(output.name for output in config.outputs)
        for reading in readings(view, outputs=names, processes=config.processes):
            variable = self._variables[reading.path]
            if reading.status == variable.status and reading.value == variable.value:
                continue
            await self._write(variable, reading)
            written += 1
        return written

    async def _write(self, variable: _Variable, reading: Reading) -> None:
        variant = ua.Variant(None, ua.VariantType.Null) if reading.value is None else self._variant(variable, reading)
        value = ua.DataValue(
            Value=variant,
            StatusCode=ua.StatusCode(ua.UInt32(reading.status)),
            SourceTimestamp=date_time(reading.t_ns),
            ServerTimestamp=datetime.now(UTC),
        )
        status = await self._server.write_attribute_value(variable.node_id, value)
        if status is not None and not status.is_good():
            raise ModelError("model-node", found=f"{reading.path}: {status.name}", expected="Good")
        variable.value, variable.status = reading.value, reading.status

    def _variant(self, variable: _Variable, reading: Reading) -> ua.Variant:
        value = reading.value
        if variable.data_type in (UTC_TIME, DATE_TIME):
            value = date_time(value)
        elif variable.data_type == KEY_VALUE_PAIR:
            value = [
                ua.KeyValuePair(Key=self._space.name(name), Value=ua.Variant(count, ua.VariantType.UInt64))
                for name, count in value
            ]
        return self._space.variant(variable.data_type, value, array=variable.array)


def date_time(t_ns: int) -> datetime:
    """Nanoseconds since the Unix epoch as a DateTime, to the microsecond; signed records have the rest.

    A time that no DateTime can show is the nearest one that can.
    """
    return _EPOCH + timedelta(microseconds=min(max(t_ns, 0), TIME_NS_MAX) // 1000)


async def build(server: Any, config: ModelConfig) -> Nodes:
    """Add types and the appliance to an initialised asyncua server; everything that changes is Bad until ``update``.

    Raises :class:`SitsError` ``model-config``, :class:`ModelError`.
    """
    config.check()
    space = await Space.of(server, (DI, MACHINERY, SITS))
    instances = tuple(appliance_nodes(config, types()))
    await space.add((*type_nodes(), *instances))
    nodes = Nodes(server, space, config, instances)
    await nodes.update(View(t_ns=time.time_ns()))
    return nodes
