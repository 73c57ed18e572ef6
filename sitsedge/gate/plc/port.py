"""What the gate asks of a PLC, whatever protocol it speaks.

The PLC owns its outputs: a port only writes the request block and reads what the PLC says it applied.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from sitsedge.errors import SitsError


class PlcError(SitsError):
    """The PLC did not take a value, and does not act on it.

    Codes: ``plc-range`` (the block's type does not hold the value), ``plc-not-connected``, ``plc-stopped`` (nothing was
    written); ``plc-write`` (refused, or lost before it counted), ``plc-protected``, ``plc-block`` (the block is not the
    one in the gate's files), ``plc-read``.
    """


class OutcomeUnknown(PlcError):
    """``plc-unknown``: no answer to the request that makes the values count. It may act on them, or not: read back."""


class ReadBackMismatch(PlcError):
    """``plc-read-back``: the request block holds something else than was written."""


@dataclass(frozen=True, slots=True)
class Applied:
    """What the PLC says it applies: physical values in output order, the command they came with, AUTO or not.

    ``sequence`` 0: values of no command that this port has written.
    """

    sequence: int
    values: tuple[float, ...]
    auto_active: bool


class PlcPort(Protocol):
    """One PLC's request block. Raises nothing but :class:`PlcError`, and FieldbusError where it first connects."""

    @property
    def connected(self) -> bool:
        """True while a connection is up as far as is known."""

    async def connect(self) -> None:
        """Connect and compare the block with the gate's files; from then on the connection comes back by itself."""

    async def write(self, *, sequence: int, values: Sequence[float], valid_until_ns: int) -> None:
        """One command's values (physical units). Returns once the PLC may act on them.

        ``OutcomeUnknown`` where nobody can tell; any other error means that it does not.
        """

    async def read_back(self) -> Applied:
        """What the PLC applies now. Raises ``ReadBackMismatch`` where the last write is not what the block holds."""

    async def request_auto(self, wanted: bool) -> None:
        """Ask the PLC for AUTO, or give it back: the PLC then holds the last applied value in MAN."""

    def health(self) -> dict[str, Any]:
        """For the gate's snapshot: protocol, reconnects, faults by code, why the controller stands still."""

    async def close(self) -> None:
        """End the connection; nothing is written."""
