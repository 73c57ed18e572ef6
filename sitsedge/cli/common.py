"""Options that several commands share."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from sitsedge.cli.output import Exit, complain
from sitsedge.config import load_deployment
from sitsedge.errors import SitsError
from sitsedge.supervisor.state import StateDir, state_dir_of

DURATION = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)(s|m|min|h)?")
UNIT_S = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, None: 1.0}
DURATION_S_MAX = 366 * 86_400.0

ConfigOption = Annotated[Path | None, typer.Option("--config", help="deployment file")]
StateOption = Annotated[Path | None, typer.Option("--state-dir", help="state folder (default: by deployment)")]


def find_state(config: Path | None, state_dir: Path | None) -> StateDir:
    """The state folder meant: ``--state-dir``, or the one the deployment file leads to.

    Raises :class:`SitsError` ``no-deployment`` when neither says.
    """
    if state_dir is not None:
        return StateDir(state_dir.absolute())
    if config is not None:
        return state_dir_of(load_deployment(config), None)
    raise SitsError(
        "no-deployment",
        found="neither --config nor --state-dir",
        expected="one of them",
        hint="for the demo: --config examples/rolling-mill/deployment.yaml",
    )


def existing_state(config: Path | None, state_dir: Path | None) -> StateDir:
    """The same, but it must be there: looking at a deployment never makes one."""
    state = find_state(config, state_dir)
    if not state.run.is_dir():
        raise SitsError(
            "no-deployment",
            found=f"no {state.root}",
            expected="the state folder of a deployment",
            hint="'sitsctl deploy' makes it, with the module, at its first start; or name another with --state-dir",
        )
    return state


def parse_duration(text: str, option: str = "--for") -> float:
    """``30``, ``30s``, ``2m``, ``1h`` in seconds; a usage error that names the option otherwise."""
    match = DURATION.fullmatch(text)
    if match is None or not 0 < float(match[1]) * UNIT_S[match[2]] <= DURATION_S_MAX:
        complain(f"{option} {text}", "a duration such as 30s or 2m")
        raise typer.Exit(Exit.USAGE)
    return float(match[1]) * UNIT_S[match[2]]
