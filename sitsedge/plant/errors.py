"""Errors of the simulated plant."""

from __future__ import annotations

from sitsedge.errors import SitsError


class PlantError(SitsError):
    """The simulated plant cannot start or was asked for something it cannot do."""
