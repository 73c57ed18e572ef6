"""The gate's own file: where the PLC is and what the gate allows, whatever a module or a deployment says.

The gate's limits are configured on its side and the module's can only tighten them; see
:func:`tighten`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, model_validator

from sitsedge.config.deployment import PROOF_BACKLOG, PROOF_DEADLINE_MS, ProofBacklog, ProofDeadline
from sitsedge.config.source import VersionOne, load_model
from sitsedge.config.strict import FieldName, Milliseconds, Strict

Finite = Annotated[float, Field(allow_inf_nan=False)]


class OutputLimit(Strict):
    """Physical limits of one output; ``max_rate`` per second between two accepted commands."""

    name: FieldName
    unit: str
    limits: Annotated[list[Finite], Field(min_length=2, max_length=2)]
    max_rate: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    node: Annotated[str, Field(min_length=1, max_length=255)] | None = None
    applied_node: Annotated[str, Field(min_length=1, max_length=255)] | None = None
    supervised: Annotated[list[Finite], Field(min_length=2, max_length=2)] | None = None
    first_step_max: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None

    @model_validator(mode="after")
    def _range(self) -> OutputLimit:
        if self.limits[0] >= self.limits[1]:
            raise ValueError("limits [low, high] with low < high")
        if self.supervised is not None and self.supervised[0] >= self.supervised[1]:
            raise ValueError("supervised [low, high] with low < high")
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


class Plc(Strict):
    """The PLC's OPC UA server and the nodes of its request block, as browse paths below Objects."""

    endpoint: Annotated[str, Field(pattern=r"^opc\.tcp://[^\s/]+(:\d+)?(/\S*)?$")]
    namespace: Annotated[str, Field(min_length=1, max_length=255)]
    sequence_node: str
    heartbeat_node: str
    auto_request_node: str
    auto_active_node: str
    applied_sequence_node: str
    valid_until_node: str | None = None


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

    @model_validator(mode="after")
    def _nodes(self) -> GateFile:
        if self.plc is not None and any(o.node is None or o.applied_node is None for o in self.outputs):
            raise ValueError("'node' and 'applied_node' for every output when 'plc' is given")
        return self


def load_gate_file(path: Path) -> GateFile:
    """Read a gate file; :class:`~sitsedge.config.source.ConfigError` with file, line and column otherwise."""
    return load_model(path, GateFile)
