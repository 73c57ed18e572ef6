"""The PLC's request block over OPC UA: one Write service call per command, read-back, AUTO request.

The sequence is the last node of the call, but OPC UA does not promise that a server takes the nodes in order, or
together. A server that takes a call over as a whole, as the simulated PLC does, never shows its program a mixture; for
others the program has to copy the values only when the sequence has stood still for a scan.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fieldbus.opcua import Identity, OpcUaError, ReconnectPolicy, SecureClient
from sitsedge.config import GateFile
from sitsedge.config.plc import OpcUaPlc
from sitsedge.gate.plc.port import Applied, OutcomeUnknown, PlcError

HEARTBEAT_MODULUS = 1 << 32  # the request block's heartbeat is a UInt32
OUTCOME_UNKNOWN = frozenset({"deadline", "connection-lost"})
"""Codes of the client that leave open whether the server has taken a write."""
RECONNECT = ReconnectPolicy(first_s=0.1, max_s=2.0, health_s=1.0)


class OpcUaPort:
    """One PLC. Names of tags are the module's output names; paths come from the gate file."""

    def __init__(self, gate: GateFile, *, identity: Identity, server_certificate: Path, names: Sequence[str]) -> None:
        plc = gate.plc
        assert isinstance(plc, OpcUaPlc)
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
        self._faults: Counter[str] = Counter()
        self.client = SecureClient(
            plc.endpoint,
            identity=identity,
            server_certificate=server_certificate,
            namespace_uri=plc.namespace,
            tags=tags,
            deadline_s=plc.deadline_ms / 1000,
            reconnect=RECONNECT,
        )

    @property
    def connected(self) -> bool:
        return self.client.connected

    async def connect(self) -> None:
        await self.client.connect()

    async def close(self) -> None:
        await self.client.close()

    def health(self) -> dict[str, Any]:
        return {"protocol": "opcua", "faults": dict(self._faults)}

    async def write(self, *, sequence: int, values: Sequence[float], valid_until_ns: int) -> None:
        """Write values, sequence and heartbeat in one Write service call."""
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
            found = f"{error.code}: {error.found}"
            if error.code in OUTCOME_UNKNOWN:
                raise self._fault(
                    OutcomeUnknown("plc-unknown", found=found, expected="an answer to the write")
                ) from error
            code = "plc-not-connected" if error.code == "not-connected" else "plc-write"
            raise self._fault(PlcError(code, found=found, expected="a written request")) from error
        bad = [result for result in results if not result.good]
        if bad:
            found = ", ".join(f"{result.tag} 0x{result.status:08x}" for result in bad)
            raise self._fault(PlcError("plc-write", found=found, expected="every node written"))

    async def read_back(self) -> Applied:
        try:
            results = await self.client.read_many(self._read_tags)
        except OpcUaError as error:
            found = f"{error.code}: {error.found}"
            raise self._fault(PlcError("plc-read", found=found, expected="a read value")) from error
        bad = [result for result in results if not result.good]
        if bad:
            found = ", ".join(f"{result.tag} 0x{result.status:08x}" for result in bad)
            raise self._fault(PlcError("plc-read", found=found, expected="good quality"))
        sequence, active, *values = (result.value for result in results)
        numbers = tuple(float(v) for v in values if isinstance(v, int | float))
        if not isinstance(sequence, int) or len(numbers) != len(self._names) or not all(map(math.isfinite, numbers)):
            raise self._fault(PlcError("plc-read", found=f"{sequence!r}, {values}"[:80], expected="finite numbers"))
        return Applied(sequence, numbers, bool(active))

    async def request_auto(self, wanted: bool) -> None:
        try:
            results = await self.client.write_many({"auto_request": wanted})
        except OpcUaError as error:
            found = f"{error.code}: {error.found}"
            raise self._fault(PlcError("plc-write", found=found, expected="AUTO requested")) from error
        if not results[0].good:
            found = f"auto_request 0x{results[0].status:08x}"
            raise self._fault(PlcError("plc-write", found=found, expected="a written node"))

    def _fault(self, error: PlcError) -> PlcError:
        self._faults[error.code] += 1
        return error
