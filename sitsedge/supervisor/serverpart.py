"""What the supervisor does for the appliance's own OPC UA server: its files, its configuration, its restarts."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from fieldbus.opcua import TrustList
from sitsedge.config import Deployment, GateFile
from sitsedge.config.sources import Bridged
from sitsedge.config.stations import OpcUaStation
from sitsedge.modules import Bundle
from sitsedge.supervisor.state import StateDir, deferred_lane

APPLIANCE: Final = "appliance"
"""Name of the server's application certificate; ``server`` is that of the plant's server, which the bridge reads."""

SERVER_MODULE: Final = "sitsedge.server.main"


def users_file(deployment: Deployment, config: Path, state: StateDir) -> Path:
    """The book of users: the deployment's own, else the one of the state folder."""
    own = deployment.server.users if deployment.server is not None else None
    return state.users if own is None else config.parent / own


def trusted_folder(deployment: Deployment, config: Path, state: StateDir) -> Path:
    """The folder of applications that may connect."""
    own = deployment.server.trusted if deployment.server is not None else None
    return state.appliance_trusted if own is None else config.parent / own


def check_server_files(deployment: Deployment, config: Path, state: StateDir) -> None:
    """An unusable book of users stops the start: later nobody could tell why nobody gets in. Raises OpcUaError."""
    if deployment.server is None:
        return
    from fieldbus.opcua.server import UserBook  # loads asyncua: only for who runs a server

    users = users_file(deployment, config, state)
    if users.exists():
        UserBook.load(users)


def server_words(deployment: Deployment, config: Path, state: StateDir) -> list[str]:
    """For people: where the server will be, and whom it lets in so far."""
    if deployment.server is None:
        return ["OPC UA server none"]
    from fieldbus.opcua.server import UserBook  # loads asyncua: only for who runs a server

    book, trusted = users_file(deployment, config, state), trusted_folder(deployment, config, state)
    applications = len(TrustList(trusted).files()) if trusted.is_dir() else 0
    names = len(UserBook.load(book).users()) if book.exists() else 0
    words = [f"OPC UA server {deployment.server.endpoint}: trusts {applications} application(s), knows {names} user(s)"]
    if not applications:
        words.append(f"nobody can connect to it: no certificate in {trusted} (sitsctl server trust add)")
    if not names:
        words.append(f"nobody can sign in to it: no user in {book} (sitsctl server users set)")
    return words


def server_config(
    deployment: Deployment, gate: GateFile, bundle: Bundle, config: Path, state: StateDir
) -> dict[str, Any]:
    """The server's own file (:class:`sitsedge.server.config.ServerConfig`)."""
    block = deployment.server
    assert block is not None
    processes = ["sitsd", "gate"]
    names = [APPLIANCE]
    if gate.plc is not None:
        names.append("gate")
    if isinstance(deployment.source, Bridged):
        processes.append("bridge")
        if any(isinstance(station, OpcUaStation) for station in deployment.source.all_stations()):
            names.append("bridge")
    if deferred_lane(deployment, state):
        processes.append("prover")
    limits = {output.name: output.limits for output in gate.outputs}
    return {
        "version": 1,
        "deployment": deployment.name,
        "profile": deployment.profile,
        "device_id": deployment.device_id,
        "gate_id": deployment.gate_id,
        "period_ms": deployment.cycle.period_ms,
        "has_plc": gate.plc is not None,
        "curve": bundle.config.proof.curve,
        "endpoint": block.endpoint,
        "bind": block.address,
        "port": block.port,
        "hosts": list(block.host_names),
        "policies": list(block.policies),
        "limits": dict(block.limits),
        "certificate": str(state.pki / f"{APPLIANCE}.der"),
        "private_key": str(state.pki / f"{APPLIANCE}.key.pem"),
        "trusted": str(trusted_folder(deployment, config, state)),
        "users": str(users_file(deployment, config, state)),
        "device": block.device.model_dump(),
        "machine": None if block.machine is None else block.machine.model_dump(),
        "inputs": [
            {"name": item.name, "unit": item.unit, "scale": item.scale, "low": item.range[0], "high": item.range[1]}
            for item in bundle.config.inputs
        ],
        "outputs": [
            {"name": item.name, "unit": item.unit, "scale": item.scale, "low": low, "high": high}
            for item in bundle.config.outputs
            for low, high in [limits.get(item.name, item.range)]
        ],
        "processes": processes,
        "certificates": {name: str(state.pki / f"{name}.der") for name in names},
        "gate_ledger": str(state.gate_ledger),
        "device_ledger": str(state.device_ledger),
        "gate_control": str(state.gate_control),
        "state_file": str(state.server / "memory.json"),
        "run_dir": str(state.run),
        "log_dir": str(state.logs),
    }
