"""``sits-server --config FILE``: entry point of the server process.

Exit codes: 0 stopped as asked, 1 failed while running, 2 wrong configuration or unusable files.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
from pathlib import Path

from attest.errors import AttestError
from fieldbus.errors import FieldbusError
from fieldbus.opcua import quiet_asyncua
from sitsedge.config import ConfigError, load_model
from sitsedge.errors import SitsError
from sitsedge.server.app import SNAPSHOT_NAME, ServerApp, step_aside
from sitsedge.server.config import ServerConfig
from sitsedge.telemetry import prepare_process


def main(argv: list[str] | None = None) -> int:
    """Run the server; returns the exit code."""
    parser = argparse.ArgumentParser(prog="sits-server", description="the appliance's own OPC UA server")
    parser.add_argument("--config", type=Path, required=True, help="JSON or YAML file (sitsedge/server/config.py)")
    path: Path = parser.parse_args(argv).config
    try:
        config = load_model(path, ServerConfig)
    except ConfigError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    prepare_process(SNAPSHOT_NAME, None if config.log_dir is None else path.parent / config.log_dir)
    quiet_asyncua()
    step_aside()
    try:
        asyncio.run(_run(config, path.parent))
    except (SitsError, FieldbusError, AttestError) as error:
        logging.getLogger(__name__).error("%s", error)
        sys.stderr.write(f"{error}\n")
        return 2 if isinstance(error, FieldbusError) else 1
    except OSError as error:
        logging.getLogger(__name__).error("%s", error)
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


async def _run(config: ServerConfig, base: Path) -> None:
    # Built inside the event loop, because its events belong to that loop.
    await ServerApp(config, base).run()


if __name__ == "__main__":
    sys.exit(main())
