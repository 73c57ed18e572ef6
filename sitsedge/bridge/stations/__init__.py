"""What the bridge reads from: one task, one connection and one account of its health per station."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from sitsedge.bridge.combine import StationSample

Deliver = Callable[[StationSample], None]
"""Takes a sample at once and never waits, so a station cannot be held up by what becomes of its values."""


class RunningStation(Protocol):
    """A station as the bridge runs it."""

    @property
    def name(self) -> str:
        """As the deployment calls it."""

    @property
    def state(self) -> str:
        """``connecting``, ``running``, or ``degraded``: connected, but not as the deployment claims."""

    async def run(self) -> None:
        """Until cancelled. Raises FieldbusError for a station that contradicts the configuration at first contact."""

    def look(self, now_ns: int) -> None:
        """Called once a second: a station that has no values says so again."""

    def status(self) -> dict[str, Any]:
        """What the snapshot says of it."""

    def end(self) -> None:
        """No more samples: ``run`` is about to be cancelled, and a library may swallow that."""

    async def close(self) -> None:
        """End the connection."""
