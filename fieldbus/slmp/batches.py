"""Which devices are read together: neighbours in one request, for short polls and values that belong together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fieldbus.slmp.devices import Device

GAP_MAX = 32
"""Points nobody asked for that are read along rather than ask twice: 64 bytes, or as many bits."""

POINTS_MAX = 480
"""Points of one batch: half of what a batch read may ask for, so that its reply fits one segment."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """``count`` points (words, or bits) from ``device`` on, for the tag at ``place``."""

    place: int
    device: Device
    count: int


@dataclass(frozen=True, slots=True)
class Batch:
    """One request: ``count`` points from ``first`` on hold all of ``parts``."""

    first: Device
    count: int
    parts: tuple[Wanted, ...]

    def of(self, part: Wanted) -> slice:
        """Where the points of ``part`` are in the reply."""
        start = part.device.number - self.first.number
        return slice(start, start + part.count)


def batches(wanted: Sequence[Wanted]) -> tuple[Batch, ...]:
    """Requests that together hold everything ``wanted``, neighbours in one."""
    found: list[Batch] = []
    for part in sorted(wanted, key=lambda part: (part.device.kind, part.device.number)):
        last = found[-1] if found else None
        if last is not None and last.first.kind == part.device.kind:
            end = max(last.first.number + last.count, part.device.number + part.count)
            near = part.device.number - (last.first.number + last.count) <= GAP_MAX
            if near and end - last.first.number <= POINTS_MAX:
                found[-1] = Batch(last.first, end - last.first.number, (*last.parts, part))
                continue
        found.append(Batch(part.device, part.count, (part,)))
    return tuple(found)
