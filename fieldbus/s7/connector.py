"""State of an S7 CPU as samples: members of one data block by its layout, with the block's own time if it has one."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from fieldbus.s7.client import S7Client
from fieldbus.s7.errors import S7Error
from fieldbus.s7.items import SUCCESS
from fieldbus.s7.layout import BlockLayout, Member, find_member
from fieldbus.s7.model import DataItem, ItemType
from fieldbus.s7.status import quality
from fieldbus.s7.szl import CpuMode
from fieldbus.s7.times import zone as time_zone
from fieldbus.s7.values import DataType, decode_text_start, decode_value
from fieldbus.sample import BAD_DECODING, BAD_OUT_OF_SERVICE, Sample, TimeSource, bad, good

TIME_TYPES = (DataType.DTL, DataType.DATE_AND_TIME, DataType.LDT)
"""Types of a member that can be the time of the others."""


@dataclass(frozen=True, slots=True)
class S7Tag:
    """A member by path (``Pump.Speed``, or ``"Block".Pump.Speed``), its name for the appliance and its unit."""

    name: str
    path: str
    unit: str = ""


class S7Connector:
    """Reads the tags of one block or several. ``time_member`` is the path of a DTL, DATE_AND_TIME or LDT that the
    program sets with the values, in ``zone``; without it samples carry the time of their reception.

    With ``run_only`` values of a CPU that is not in RUN are bad (Bad_OutOfService): the program that keeps them
    stands still. A CPU that does not tell its mode (1200/1500 over PUT/GET) needs ``run_only`` False.
    """

    def __init__(
        self,
        client: S7Client,
        layout: BlockLayout | Sequence[BlockLayout],
        tags: tuple[S7Tag, ...],
        *,
        time_member: str | None = None,
        zone: str = "UTC",
        run_only: bool = True,
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        """Raises S7Error ``member-unknown``, ``member-block``, ``time-member``, ``time-zone``."""
        layouts = (layout,) if isinstance(layout, BlockLayout) else tuple(layout)
        self._client, self._tags = client, tags
        self._clock: dt.tzinfo = time_zone(zone)
        self._run_only, self._now_ns = run_only, now_ns
        found = [find_member(layouts, tag.path) for tag in tags]
        self._members = [member for _, member in found]
        self._time = None
        if time_member is not None:
            found.append(find_member(layouts, time_member))
            self._time = found[-1][1]
        self._items = self._asked = tuple(block.item(member) for block, member in found)
        if self._time is not None and self._time.spec.type not in TIME_TYPES:
            raise S7Error("time-member", found=str(self._time.spec.type), expected="DTL, Date_And_Time or LDT")

    @property
    def tags(self) -> tuple[tuple[str, str], ...]:
        return tuple((tag.name, tag.unit) for tag in self._tags)

    @property
    def connected(self) -> bool:
        return self._client.connected

    async def connect(self) -> None:
        """Connect. Of text that is longer than the PDU the first bytes are read: they mostly hold all of it, and where
        they do not the value is bad."""
        await self._client.connect()
        room = self._client.item_bytes_max // 2 * 2
        self._asked = tuple(
            [
                replace(item, count=room) if item.type is ItemType.BYTE and item.count > room else item
                for item in self._items
            ]
        )

    async def close(self) -> None:
        await self._client.close()

    async def read(self) -> tuple[Sample, ...]:
        """One sample per tag. Values and their time are read in one job if they fit the PDU."""
        running = not self._run_only or (await self._client.cpu_state(self._clock)).mode is CpuMode.RUN
        found = await self._client.read(self._asked)
        t_ns, source = self._now_ns(), TimeSource.RECEIVED
        if self._time is not None:
            stamp = self._value(self._time, found[-1])
            if not isinstance(stamp, int):
                return tuple(bad(tag.name, tag.unit, BAD_DECODING, t_ns) for tag in self._tags)
            t_ns, source = stamp, TimeSource.PLC
        samples: list[Sample] = []
        for tag, member, data in zip(self._tags, self._members, found, strict=False):
            status = quality(data.code) if running or data.code != SUCCESS else BAD_OUT_OF_SERVICE
            value = self._value(member, data) if status >> 30 == 0 else None
            if value is None and status >> 30 == 0:
                status = BAD_DECODING
            if value is None:
                samples.append(Sample(tag.name, None, tag.unit, status, t_ns, source))
            else:
                samples.append(good(tag.name, value, tag.unit, t_ns, source))
        return tuple(samples)

    def _value(self, member: Member, data: DataItem) -> bool | int | float | str | None:
        """The value, or None where there is none or it breaks a rule of its type."""
        if data.code != SUCCESS:
            return None
        try:
            if len(data.data) < member.spec.size and member.spec.type in (DataType.STRING, DataType.WSTRING):
                return decode_text_start(member.spec, data.data)
            return decode_value(member.spec, data.data, clock=self._clock)
        except S7Error:
            return None
