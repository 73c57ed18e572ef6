"""What ``sits-bridge`` is told: the deployment's stations with the paths of this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sitsedge.bridge.config import BridgeConfig
from sitsedge.config import Deployment
from sitsedge.config.sources import Bridged
from sitsedge.config.stations import OpcUaStation, S7Station, Station
from sitsedge.errors import SitsError
from sitsedge.supervisor.state import StateDir


def pinned_certificate(station: OpcUaStation, base: Path, pki: Path) -> Path:
    """Where the certificate is that this server must have; ``base`` is the deployment file's folder."""
    given = station.server_certificate
    return pki / f"{station.name}.der" if given is None else base / given


def bridge_config(deployment: Deployment, base: Path, state: StateDir) -> BridgeConfig:
    """The bridge's configuration; ``base`` is the deployment file's folder.

    Raises :class:`SitsError` ``source-unbridged`` for a deployment that hears a publisher.
    """
    source = deployment.source
    if not isinstance(source, Bridged):
        raise SitsError(
            "source-unbridged",
            found=f"a source of protocol {source.protocol}",
            expected="stations that are asked",
            hint="a publisher is heard, not asked: sitsctl fieldbus record shows what it sends",
        )
    stations = source.all_stations()
    config: dict[str, Any] = {
        "version": 2,
        "stations": [_station(station, base, state.pki) for station in stations],
        "trigger": source.trigger_station,
        "order": [place.name for place in source.dataset()],
        "source_age_ms_max": deployment.timing.source_age_ms_max,
        "future_ms_max": deployment.timing.future_ms_max,
        "poll_ms": deployment.cycle.period_ms,
        "send_to": {"port": source.bridge_port},
        "run_dir": str(state.run),
        "log_dir": str(state.logs),
    }
    if any(isinstance(station, OpcUaStation) for station in stations):
        config |= {"certificate": str(state.pki / "bridge.der"), "private_key": str(state.pki / "bridge.key.pem")}
    skew_ms_max = getattr(source, "skew_ms_max", None)
    return BridgeConfig.model_validate(config if skew_ms_max is None else config | {"skew_ms_max": skew_ms_max})


def _station(station: Station, base: Path, pki: Path) -> dict[str, Any]:
    data = station.model_dump(exclude_none=True)
    if isinstance(station, OpcUaStation):
        data["server_certificate"] = str(pinned_certificate(station, base, pki))
        if station.next_server_certificate is not None:
            data["next_server_certificate"] = str(base / station.next_server_certificate)
        if station.user is not None and not station.user.password_file.startswith("credential:"):
            data["user"]["password_file"] = str(base / station.user.password_file)
    if isinstance(station, S7Station):
        for layout in data["layouts"]:
            layout["file"] = str(base / layout["file"])
    return data
