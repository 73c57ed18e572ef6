"""One value of one tag as the rest of the appliance takes it, whatever protocol it came by."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

TagValue: TypeAlias = bool | int | float | str | None

GOOD = 0
"""StatusCodes of OPC 10000-4, annex A, so that all sources speak of quality in the same words."""
BAD_NO_COMMUNICATION = 0x80310000
BAD_DEVICE_FAILURE = 0x808B0000
BAD_TYPE_MISMATCH = 0x80740000
BAD_NOT_FOUND = 0x803E0000
BAD_OUT_OF_SERVICE = 0x808D0000
BAD_DECODING = 0x80070000
BAD_OUT_OF_RANGE = 0x803C0000


class TimeSource(StrEnum):
    """Whose clock ``t_source_ns`` is by."""

    PLC = "plc"
    RECEIVED = "received"


@dataclass(frozen=True, slots=True)
class Sample:
    """A value with unit, quality and time.

    ``status``: an OPC UA StatusCode (0 Good); with a bad one ``value`` is None, whatever the device sent along.
    ``t_source_ns``: Unix ns, by the PLC's clock where the telegram has it, else when the reply was received.
    """

    tag: str
    value: TagValue
    unit: str
    status: int
    t_source_ns: int
    time_source: TimeSource = TimeSource.RECEIVED

    @property
    def good(self) -> bool:
        """True where the severity is Good."""
        return self.status >> 30 == 0


def bad(tag: str, unit: str, status: int, t_ns: int) -> Sample:
    """The Sample that says there is no value."""
    assert status >> 30 >= 2
    return Sample(tag, None, unit, status, t_ns)


def good(tag: str, value: TagValue, unit: str, t_ns: int, source: TimeSource = TimeSource.RECEIVED) -> Sample:
    """A Sample of a value that was read; NaN and the infinities are no measurement (Bad_OutOfRange)."""
    if isinstance(value, float) and not math.isfinite(value):
        return Sample(tag, None, unit, BAD_OUT_OF_RANGE, t_ns, source)
    return Sample(tag, value, unit, GOOD, t_ns, source)
