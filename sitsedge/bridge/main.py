"""``sits-bridge --config FILE [--state-dir STATE]``: entry point of the bridge process.

With ``--state-dir`` the file is a deployment file, as for the other processes; without, a bridge's own.

Exit codes: 0 stopped as asked, 1 failed while running, 2 the configuration contradicts this machine or a station.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
from pathlib import Path

from fieldbus.errors import FieldbusError
from fieldbus.net import NetError
from fieldbus.opcua import quiet_asyncua
from sitsedge.bridge.app import SNAPSHOT_NAME, BridgeApp
from sitsedge.bridge.config import BridgeConfig
from sitsedge.config import ConfigError, load_deployment, load_model
from sitsedge.errors import SitsError
from sitsedge.supervisor.bridging import bridge_config
from sitsedge.supervisor.state import StateDir
from sitsedge.telemetry import prepare_process


def main(argv: list[str] | None = None) -> int:
    """Run the bridge; returns the exit code."""
    parser = argparse.ArgumentParser(prog="sits-bridge", description="Stations of the plant to UADP on loopback")
    parser.add_argument("--config", type=Path, required=True, help="deployment file, or the bridge's own (JSON, YAML)")
    parser.add_argument("--state-dir", type=Path, help="state folder; the file is then a deployment file")
    arguments = parser.parse_args(argv)
    path: Path = arguments.config
    try:
        config = load_model(path, BridgeConfig) if arguments.state_dir is None else deployed(path, arguments.state_dir)
    except (ConfigError, SitsError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    prepare_process(SNAPSHOT_NAME, None if config.log_dir is None else path.parent / config.log_dir)
    quiet_asyncua()
    try:
        asyncio.run(_run(config, path.parent))
    except (SitsError, FieldbusError) as error:
        logging.getLogger(__name__).error("%s", error)
        sys.stderr.write(f"{error}\n")
        return 1 if isinstance(error, NetError) else 2
    return 0


def deployed(path: Path, state_dir: Path) -> BridgeConfig:
    """The configuration that the deployment file at ``path`` makes. Raises ConfigError, or :class:`SitsError`
    ``source-unbridged`` for a deployment that hears a publisher."""
    state = StateDir(state_dir.absolute())
    config = bridge_config(load_deployment(path), path.absolute().parent, state)
    state.create()
    return config


async def _run(config: BridgeConfig, base: Path) -> None:
    # Built inside the event loop, because its events belong to that loop.
    await BridgeApp(config, base).run()


if __name__ == "__main__":
    sys.exit(main())
