"""``python -m sitsedge.replay --config FILE``: recorded files on a real OPC UA server, in a process of its own.

Exit codes: 0 stopped as asked, 1 failed while running, 2 the configuration or a recording cannot be used.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
from pathlib import Path

from fieldbus.errors import FieldbusError
from fieldbus.opcua import CertificateError, quiet_asyncua
from sitsedge.config import ConfigError, load_model
from sitsedge.errors import SitsError
from sitsedge.replay.app import ReplayApp
from sitsedge.replay.config import ReplayConfig
from sitsedge.replay.errors import RecordingError
from sitsedge.telemetry import prepare_process


def main(argv: list[str] | None = None) -> int:
    """Run the replay; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m sitsedge.replay", description="play recordings over OPC UA")
    parser.add_argument("--config", type=Path, required=True, help="YAML or JSON file (sitsedge/replay/config.py)")
    path: Path = parser.parse_args(argv).config
    try:
        config = load_model(path, ReplayConfig)
    except ConfigError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    prepare_process("plant", None if config.log_dir is None else path.parent / config.log_dir)
    quiet_asyncua()
    try:
        asyncio.run(_run(config, path.parent))
    except (SitsError, FieldbusError) as error:
        logging.getLogger(__name__).error("%s", error)
        sys.stderr.write(f"{error}\n")
        return 2 if isinstance(error, RecordingError | CertificateError) else 1
    return 0


async def _run(config: ReplayConfig, base: Path) -> None:
    # Built inside the event loop, because its events belong to that loop.
    await ReplayApp(config, base).run()


if __name__ == "__main__":
    sys.exit(main())
