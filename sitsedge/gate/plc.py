"""The PLC's request block over OPC UA: one Write service call per command, read-back, AUTO request.

The PLC owns its outputs: this module only writes request nodes and reads what the PLC says it applied.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fieldbus.opcua import Identity, OpcUaError, ReconnectPolicy, SecureClient
from sitsedge.config import GateFile
from sitsedge.errors import SitsError

log = logging.getLogger(__name__)

DEADLINE_S = 1.0
HEARTBEAT_MODULUS = 1 << 32  # the request block's heartbeat is a UInt32
RECONNECT = ReconnectPolicy(first_s=0.1, max_s=2.0, health_s=1.0)


class PlcError(SitsError):
    """The PLC did not take a value; codes ``plc-write``, ``plc-read``."""


@dataclass(frozen=True, slots=True)
class Applied:
    """What the PLC says it applies: physical values in output order, the sequence they came with, AUTO or not."""

    sequence: int
    values: tuple[float, ...]
    auto_active: bool


class PlcPort:
    """One PLC. Names of tags are the module's output names; paths come from the gate file."""

    def __init__(self, gate: GateFile, *, identity: Identity, server_certificate: Path, names: Sequence[str]) -> None:
        plc = gate.plc
        assert plc is not None
        by_name = {item.name: item for item in gate.outputs}
        tags = {f"request.{name}": str(by_name[name].node) for name in names}
        tags |= {f"applied.{name}": str(by_name[name].applied_node) for name in names}
        tags |= {
            "sequence": plc.sequence_node,
            "heartbeat": plc.heartbeat_node,
            "auto_request": plc.auto_request_node,
            "auto_active": plc.auto_active_node,
            "applied_sequence": plc.applied_sequence_node,
        }
        self._valid_until = plc.valid_until_node is not None
        if plc.valid_until_node is not None:
            tags["valid_until"] = plc.valid_until_node
        self._names = tuple(names)
        self._read_tags = ("applied_sequence", "auto_active", *(f"applied.{name}" for name in names))
        self._heartbeat = 0
        self.client = SecureClient(
            plc.endpoint,
            identity=identity,
            server_certificate=server_certificate,
            namespace_uri=plc.namespace,
            tags=tags,
            deadline_s=DEADLINE_S,
            reconnect=RECONNECT,
        )

    async def write(self, *, sequence: int, values: Sequence[float], valid_until_ns: int) -> None:
        """Write one command's values (physical units), sequence and heartbeat in one Write service call.

        Raises :class:`PlcError` ``plc-write``.
        """
        self._heartbeat = (self._heartbeat + 1) % HEARTBEAT_MODULUS
        request: dict[str, bool | int | float] = {
            f"request.{name}": value for name, value in zip(self._names, values, strict=True)
        }
        request["heartbeat"] = self._heartbeat
        if self._valid_until:
            request["valid_until"] = valid_until_ns
        request["sequence"] = sequence  # last, so that a PLC that looks between two of them sees the old number
        try:
            results = await self.client.write_many(request)
        except OpcUaError as error:
            raise PlcError("plc-write", found=f"{error.code}: {error.found}", expected="a written request") from error
        bad = [result for result in results if not result.good]
        if bad:
            found = ", ".join(f"{result.tag} 0x{result.status:08x}" for result in bad)
            raise PlcError("plc-write", found=found, expected="every node written")

    async def read_back(self) -> Applied:
        """What the PLC applies now. Raises :class:`PlcError` ``plc-read``."""
        try:
            results = await self.client.read_many(self._read_tags)
        except OpcUaError as error:
            raise PlcError("plc-read", found=f"{error.code}: {error.found}", expected="a read value") from error
        bad = [result for result in results if not result.good]
        if bad:
            found = ", ".join(f"{result.tag} 0x{result.status:08x}" for result in bad)
            raise PlcError("plc-read", found=found, expected="good quality")
        sequence, active, *values = (result.value for result in results)
        assert isinstance(sequence, int)
        return Applied(sequence, tuple(float(v) for v in values if isinstance(v, int | float)), bool(active))

    async def request_auto(self, wanted: bool) -> None:
        """Ask the PLC for AUTO, or give it back: the PLC then holds the last applied value in MAN."""
        try:
            results = await self.client.write_many({"auto_request": wanted})
        except OpcUaError as error:
            raise PlcError("plc-write", found=f"{error.code}: {error.found}", expected="AUTO requested") from error
        if not results[0].good:
            raise PlcError("plc-write", found=f"auto_request 0x{results[0].status:08x}", expected="a written node")
