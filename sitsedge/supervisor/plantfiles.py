"""What a simulated plant is told: the deployment's own addresses, in files of its own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sitsedge.config.deployment import ReplayPlant, RollingMillPlant
from sitsedge.config.sources import OpcUaSource, UadpSource
from sitsedge.supervisor.groupkeys import key_path
from sitsedge.supervisor.prepare import Prepared


def mill_config(prepared: Prepared, plant: RollingMillPlant, *, publish_port: int | None) -> dict[str, Any]:
    """The simulated mill's own file; ``publish_port`` in place of the deployment's (an attacker sits in between)."""
    source = prepared.deployment.source
    assert isinstance(source, UadpSource)
    assert prepared.gate.plc is not None
    pki = prepared.state.pki
    config: dict[str, Any] = {
        "version": 1,
        "seed": plant.seed,
        "publish": {
            "address": source.address,
            "port": publish_port or source.port,
            "hz": plant.publish_hz,
            "publisher_id": source.publisher_id,
            "writer_group_id": source.writer_group_id,
            "data_set_writer_id": source.data_set_writer_id,
        },
        "opcua": {
            "endpoint": prepared.gate.plc.endpoint,
            "certificate": str(pki / "plc.der"),
            "private_key": str(pki / "plc.key.pem"),
            "trusted": str(pki / "plc-trusted"),
            "gate": str(pki / "plc-gate"),
            "operator": str(pki / "plc-operator"),
        },
        "run_dir": str(prepared.state.run),
        "log_dir": str(prepared.state.logs),
        "record": str(prepared.state.run / "plant-record.npz"),
    }
    if source.security is not None:
        keys = str(key_path(source.security, prepared.state).absolute())
        config["publish"]["security"] = {**source.security.model_dump(exclude={"credential"}), "keys": keys}
    if prepared.deployment.cycle.fifo_priority is not None:
        config["fifo_priority"] = max(1, prepared.deployment.cycle.fifo_priority - 2)
    return config


def replay_config(
    prepared: Prepared, plant: ReplayPlant, *, recordings: Sequence[Path], speed: float | None
) -> dict[str, Any]:
    """The replayer's own file."""
    source = prepared.deployment.source
    assert isinstance(source, OpcUaSource)
    pki = prepared.state.pki
    config: dict[str, Any] = {
        "version": 1,
        "recordings": [str(path.absolute()) for path in recordings],
        "columns": [column.model_dump() for column in plant.columns],
        "time_column": plant.time_column,
        "delimiter": plant.delimiter,
        "endpoint": source.endpoint,
        "namespace": source.namespace,
        "certificate": str(pki / "server.der"),
        "private_key": str(pki / "server.key.pem"),
        "trusted": str(pki / "server-trusted"),
        "speed": plant.speed if speed is None else speed,
        "gap_s_max": plant.gap_s_max,
        "journal": str(prepared.state.run / "replay-journal.csv"),
        "run_dir": str(prepared.state.run),
        "log_dir": str(prepared.state.logs),
    }
    return config
