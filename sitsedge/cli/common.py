"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sitsedge.config import load_deployment
from sitsedge.errors import SitsError
from sitsedge.supervisor.state import StateDir, state_dir_of

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
