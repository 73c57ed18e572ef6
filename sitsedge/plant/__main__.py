"""``python -m sitsedge.plant --config FILE``: the simulated mill and its PLC in a process of their own.

Exit codes: 0 stopped as asked, 1 failed while running, 2 the configuration cannot be used.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
from pathlib import Path

from fieldbus.errors import FieldbusError
from sitsedge.config import ConfigError
from sitsedge.errors import SitsError
from sitsedge.plant.app import PlantApp
from sitsedge.plant.config import PlantConfig, load_plant_config
from sitsedge.telemetry import prepare_process


def main(argv: list[str] | None = None) -> int:
    """Run the plant; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m sitsedge.plant", description="simulated rolling mill and PLC")
    parser.add_argument("--config", type=Path, required=True, help="YAML or JSON file (sitsedge/plant/config.py)")
    arguments = parser.parse_args(argv)
    path: Path = arguments.config
    try:
        config = load_plant_config(path)
    except ConfigError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    log_dir = None if config.log_dir is None else path.parent / config.log_dir
    prepare_process("plant", log_dir, fifo_priority=config.fifo_priority)
    try:
        asyncio.run(_run(config, path.parent))
    except (SitsError, FieldbusError) as error:
        logging.getLogger(__name__).error("%s", error)
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


async def _run(config: PlantConfig, base: Path) -> None:
    # Built inside the event loop, because its events belong to that loop.
    await PlantApp(config, base).run()


if __name__ == "__main__":
    sys.exit(main())
