"""The server process's own file, written by the supervisor from deployment, module and state folder; no secrets."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from attest.proof.circuit import CurveName
from sitsedge.config.server import DeviceIdentity, HostName, MachineIdentity, PolicyName
from sitsedge.config.strict import Identifier, Strict

Scale = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
SIGNALS_MAX = 1024


class SignalInfo(Strict):
    """One input or output of the module: physical value = counts × ``scale``, inside ``low`` … ``high``."""

    name: Annotated[str, Field(min_length=1, max_length=64)]
    unit: str
    scale: Scale
    low: Finite
    high: Finite


class ServerConfig(Strict):
    """A whole server file, version 1. Paths are absolute or relative to the file.

    ``processes``: those this deployment runs. ``certificates``: name → file, whose end is watched. ``state_file``: what
    the server itself has to remember over a restart (what was acknowledged, how far the ledgers were read).
    """

    version: Literal[1]
    deployment: Identifier
    profile: Literal["development", "production"]
    device_id: Identifier
    gate_id: Identifier
    period_ms: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    has_plc: bool
    curve: CurveName
    endpoint: str
    bind: str
    port: Annotated[int, Field(ge=0, le=65535)]
    hosts: list[HostName]
    policies: list[PolicyName]
    limits: dict[str, float]
    certificate: str
    private_key: str
    trusted: str
    users: str
    device: DeviceIdentity
    machine: MachineIdentity | None = None
    inputs: Annotated[list[SignalInfo], Field(max_length=SIGNALS_MAX)]
    outputs: Annotated[list[SignalInfo], Field(max_length=SIGNALS_MAX)]
    processes: list[Literal["sitsd", "gate", "bridge", "prover"]]
    certificates: dict[str, str]
    gate_ledger: str
    device_ledger: str
    gate_control: str
    state_file: str
    run_dir: str
    log_dir: str | None = None
