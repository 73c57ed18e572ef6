"""The gate's own file: where the PLC is and what the gate allows, whatever a module or a deployment says.

The gate's limits are configured on its side and the module's can only tighten them; see
:func:`tighten`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from fieldbus.opcua.paths import PATH_CHARACTERS_MAX
from sitsedge.config.browsepath import browse_path
from sitsedge.config.deployment import PROOF_BACKLOG, PROOF_DEADLINE_MS, ProofBacklog, ProofDeadline
from sitsedge.config.plc import INTEGER_BITS, Plc, PlcType, with_protocol
from sitsedge.config.plc_places import shared_places
from sitsedge.config.source import ConfigError, ConfigFault, Path_, VersionOne, dotted, load_model, positions_of
from sitsedge.config.strict import FieldName, Milliseconds, Strict

Finite = Annotated[float, Field(allow_inf_nan=False)]
Place = Annotated[str, Field(min_length=1, max_length=PATH_CHARACTERS_MAX)]


class OutputLimit(Strict):
    """Physical limits of one output; ``max_rate`` per second between two accepted commands.

    ``node`` and ``applied_node``: browse paths at an OPC UA server (see ``BrowsePath``), or members of the request
    block's structures (none with SLMP, whose block has a fixed order). ``plc_type``, ``plc_scale``: what a vendor's
    block holds; physical value = count × scale for the integer types.
    """

    name: FieldName
    unit: str
    limits: Annotated[list[Finite], Field(min_length=2, max_length=2)]
    max_rate: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    node: Place | None = None
    applied_node: Place | None = None
    supervised: Annotated[list[Finite], Field(min_length=2, max_length=2)] | None = None
    first_step_max: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    plc_type: PlcType | None = None
    plc_scale: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None

    @model_validator(mode="after")
    def _range(self) -> OutputLimit:
        if self.limits[0] >= self.limits[1]:
            raise ValueError("limits [low, high] with low < high")
        if self.supervised is not None and self.supervised[0] >= self.supervised[1]:
            raise ValueError("supervised [low, high] with low < high")
        return self

    @model_validator(mode="after")
    def _plc_value(self) -> OutputLimit:
        bits = INTEGER_BITS.get(self.plc_type or "")
        if (bits is None) is not (self.plc_scale is None):
            raise ValueError("'plc_scale' (physical per count) where 'plc_type' is INT or DINT, and only there")
        if bits is not None and self.plc_scale is not None:
            high = (1 << bits - 1) - 1
            if any(not -high - 1 <= limit / self.plc_scale <= high for limit in self.limits):
                raise ValueError(f"limits that {self.plc_type} holds at {self.plc_scale:g} a count")
        return self


class InputLimit(Strict):
    """Physical limits of one input that the gate itself demands."""

    name: FieldName
    range: Annotated[list[Finite], Field(min_length=2, max_length=2)]
    max_rate: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None

    @model_validator(mode="after")
    def _range(self) -> InputLimit:
        if self.range[0] >= self.range[1]:
            raise ValueError("range [low, high] with low < high")
        return self


class Relation(Strict):
    """``sum(coefficient * output) <= bound`` over physical output values."""

    terms: Annotated[dict[FieldName, Finite], Field(min_length=1, max_length=16)]
    bound: Finite


class GateFile(Strict):
    """A whole gate file, version 1. Without ``plc`` the gate can only run in SHADOW.

    ``proof`` is what the gate demands: ``inline`` refuses commitments, ``deferred`` takes them (and inline proofs) and
    withdraws "verified" when a proof is ``proof_deadline_ms`` old or more than ``proof_backlog_max`` are owed.
    """

    version: VersionOne
    outputs: Annotated[list[OutputLimit], Field(min_length=1, max_length=64)]
    inputs: list[InputLimit] = Field(default_factory=list)
    relations: list[Relation] = Field(default_factory=list)
    plc: Plc | None = None
    source_age_ms_max: Milliseconds
    decision_age_ms_max: Milliseconds
    future_ms_max: Milliseconds
    time_quality_min: Literal["free", "ntp", "ptp-sw", "ptp-hw"] = "free"
    proof: Literal["inline", "deferred", "off"] = "inline"
    proof_deadline_ms: ProofDeadline = PROOF_DEADLINE_MS
    proof_backlog_max: ProofBacklog = PROOF_BACKLOG
    readback_ms_max: Milliseconds = 200.0
    silence_ms_max: Milliseconds = 500.0

    @model_validator(mode="before")
    @classmethod
    def _older(cls, data: Any) -> Any:
        return with_protocol(data)


def load_gate_file(path: Path) -> GateFile:
    """Read a gate file; :class:`~sitsedge.config.source.ConfigError` with file, line and column otherwise."""
    gate = load_model(path, GateFile)
    if gate.plc is not None:
        faults = [_fault(path, ("outputs", index), text) for index, text in _places(gate.outputs, gate.plc.protocol)]
        if gate.plc.protocol == "opcua":
            faults += [_fault(path, place, text) for place, text in _wrong_paths(gate.outputs)]
        faults += [_fault(path, place, text) for place, text in shared_places(gate.plc, gate.outputs)]
        if faults:
            raise ConfigError(faults)
    return gate


def _places(outputs: list[OutputLimit], protocol: str) -> Iterator[tuple[int, str]]:
    """Outputs that the protocol of ``plc`` cannot place, and what they lack."""
    named, typed = protocol != "slmp", protocol != "opcua"
    for index, output in enumerate(outputs):
        nodes = (output.node, output.applied_node)
        if named and None in nodes:
            yield index, f"'node' and 'applied_node' for every output with {protocol!r}"
        if not named and nodes != (None, None):
            yield index, "no 'node' or 'applied_node': a block of devices has a fixed order"
        if typed is not (output.plc_type is not None):
            yield index, f"'plc_type' for every output with {protocol!r}" if typed else "no 'plc_type' with 'opcua'"


def _wrong_paths(outputs: list[OutputLimit]) -> Iterator[tuple[Path_, str]]:
    """Places that are no browse paths."""
    for index, output in enumerate(outputs):
        for key, text in (("node", output.node), ("applied_node", output.applied_node)):
            try:
                browse_path(text or "-")
            except ValueError as error:
                yield ("outputs", index, key), str(error)


def _fault(path: Path, place: Path_, expected: str) -> ConfigFault:
    line, column = positions_of(path).get(place, (1, 1))
    return ConfigFault(str(path), line, column, dotted(place), "another place for its value", expected)
