"""``sits-bridge --config FILE``: entry point of the bridge process.

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
from sitsedge.config import ConfigError, load_model
from sitsedge.errors import SitsError
from sitsedge.telemetry import prepare_process


def main(argv: list[str] | None = None) -> int:
    """Run the bridge; returns the exit code."""
    parser = argparse.ArgumentParser(prog="sits-bridge", description="Stations of the plant to UADP on loopback")
    parser.add_argument("--config", type=Path, required=True, help="JSON or YAML file (sitsedge/bridge/config.py)")
    path: Path = parser.parse_args(argv).config
    try:
        config = load_model(path, BridgeConfig)
    except ConfigError as error:
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


async def _run(config: BridgeConfig, base: Path) -> None:
    # Built inside the event loop, because its events belong to that loop.
    await BridgeApp(config, base).run()


if __name__ == "__main__":
    sys.exit(main())
