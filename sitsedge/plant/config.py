"""The plant's configuration file: everything the process needs, and no secrets (keys are named by path)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field, field_validator

from sitsedge.config import load_model
from sitsedge.config.source import VersionOne
from sitsedge.config.strict import Port, Strict
from sitsedge.config.uadp import UadpSecurity
from sitsedge.plant.plc import PlcSecurity
from sitsedge.plant.signals import DATA_SET_WRITER_ID, PUBLISHER_ID, WRITER_GROUP_ID

UInt16 = Annotated[int, Field(ge=0, le=65535)]


class Publish(Strict):
    """Where and how often the PLC publishes its DataSet."""

    address: str
    port: Port
    interface: str | None = None
    hz: Annotated[int, Field(ge=10, le=1000)] = 100
    publisher_id: UInt16 = PUBLISHER_ID
    writer_group_id: UInt16 = WRITER_GROUP_ID
    data_set_writer_id: Annotated[int, Field(ge=1, le=65535)] = DATA_SET_WRITER_ID
    security: UadpSecurity | None = None  # its key file is relative to the configuration file

    @field_validator("hz")
    @classmethod
    def _whole_steps(cls, hz: int) -> int:
        if 1000 % hz:
            raise ValueError("a rate whose period is a whole number of milliseconds")
        return hz


class OpcUa(Strict):
    """The PLC's server. Paths are relative to the configuration file unless absolute."""

    endpoint: Annotated[str, Field(pattern=r"^opc\.tcp://[^\s/]+:\d+(/\S*)?$")]
    certificate: str
    private_key: str
    trusted: str  # folder: who may connect and read
    gate: str | None = None  # folder: who of them may write the request block; all of them without it
    operator: str | None = None  # folder: who of them may write operator nodes


class PlantConfig(Strict):
    """A whole plant file, version 1."""

    version: VersionOne
    seed: Annotated[int, Field(ge=0, le=2**32 - 1)]
    publish: Publish
    opcua: OpcUa
    run_dir: str
    log_dir: str | None = None
    record: str | None = None
    fifo_priority: Annotated[int, Field(ge=1, le=80)] | None = None  # a PLC is a real-time machine; so is this one
    duration_s: Annotated[float, Field(gt=0, le=86_400)] | None = None

    def security(self, base: Path) -> PlcSecurity:
        """Paths of the server's key and trusted certificates, resolved against ``base``."""
        o = self.opcua
        return PlcSecurity(
            certificate=base / o.certificate,
            private_key=base / o.private_key,
            trusted=base / o.trusted,
            gate=None if o.gate is None else base / o.gate,
            operator=None if o.operator is None else base / o.operator,
        )


def load_plant_config(path: Path) -> PlantConfig:
    """Read a YAML or JSON file; ConfigError with line and column otherwise."""
    return load_model(path, PlantConfig)
