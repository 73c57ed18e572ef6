"""State of a Logix controller as samples: tags discovered with their types, discovered again after a download."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from fieldbus.cip.client import CipClient
from fieldbus.cip.errors import CipError
from fieldbus.cip.identity import Identity, Mode
from fieldbus.cip.replies import Refused, Said, StructureData, TagValues
from fieldbus.cip.template import Structured, Template, read_structure
from fieldbus.sample import (
    BAD_DECODING,
    BAD_DEVICE_FAILURE,
    BAD_NOT_FOUND,
    BAD_OUT_OF_SERVICE,
    BAD_TYPE_MISMATCH,
    Sample,
    TagValue,
    bad,
    good,
)

_NO_TAG = (0x04, 0x05)
PACKET_TAGS_MAX = 12
"""Tags of one multiple service packet: with names of 40 characters they fit the 504 bytes of unconnected messages."""


@dataclass(frozen=True, slots=True)
class CipTag:
    """A tag or member of elementary type (``Pump.Speed``), or a STRING. ``type``: what it must be (``REAL``, ``DINT``,
    ``STRING`` …); another one in the controller is a bad value, never a conversion."""

    name: str
    path: str
    type: str
    unit: str = ""


class CipConnector:
    """Polls tags in multiple service packets. A controller in program mode or faulted gives bad values unless
    ``run_only`` is False. Samples carry the time of their reception: tags have none."""

    def __init__(
        self,
        client: CipClient,
        tags: tuple[CipTag, ...],
        *,
        run_only: bool = True,
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._client, self._tags, self._run_only, self._now_ns = client, tags, run_only, now_ns
        self._strings: dict[int, tuple[int, Template]] = {}
        self._changes: bytes | None = None
        self.identity: Identity | None = None
        """The controller as it was last asked."""
        self.rediscovered_total = 0

    @property
    def tags(self) -> tuple[tuple[str, str], ...]:
        return tuple((tag.name, tag.unit) for tag in self._tags)

    @property
    def connected(self) -> bool:
        return self._client.connected

    async def connect(self) -> None:
        """Connect and discover: identity, and the templates of string types if a tag is one."""
        await self._client.connect()
        self.identity = await self._client.identity()
        self._changes = await self._client.changes()
        await self._discover()

    async def _discover(self) -> None:
        self._strings.clear()
        if not any(tag.type == "STRING" for tag in self._tags):
            return
        from_symbols = await self._client.symbols()
        for number in sorted({entry.type & 0x0FFF for entry in from_symbols if entry.type and entry.type & 0x8000}):
            template = await self._client.template(number)
            if template.is_string:
                self._strings[template.handle] = (number, template)

    async def close(self) -> None:
        await self._client.close()

    async def read(self) -> tuple[Sample, ...]:
        """One sample per tag; a tag that is not there or of another type is bad, the others are not."""
        self.identity = await self._client.identity()
        changes = await self._client.changes() if self._changes is not None else None
        if changes != self._changes:
            self._changes = changes
            self.rediscovered_total += 1
            await self._discover()
        running = not self._run_only or self.identity.mode is Mode.RUN
        samples: list[Sample] = []
        for start in range(0, len(self._tags), PACKET_TAGS_MAX):
            part = self._tags[start : start + PACKET_TAGS_MAX]
            found = await self._client.read_many(tuple(tag.path for tag in part))
            samples += [self._sample(tag, item, running) for tag, item in zip(part, found, strict=True)]
        return tuple(samples)

    def _sample(self, tag: CipTag, item: Said, running: bool) -> Sample:
        now_ns = self._now_ns()
        if isinstance(item, Refused):
            status = BAD_NOT_FOUND if item.status in _NO_TAG else BAD_DEVICE_FAILURE
            return bad(tag.name, tag.unit, status, now_ns)
        if not running:
            return bad(tag.name, tag.unit, BAD_OUT_OF_SERVICE, now_ns)
        if isinstance(item, TagValues) and item.type == tag.type:
            return good(tag.name, item.values[0], tag.unit, now_ns)
        if isinstance(item, StructureData) and tag.type == "STRING":
            text = self._text(item)
            return (
                bad(tag.name, tag.unit, BAD_DECODING, now_ns)
                if text is None
                else good(tag.name, text, tag.unit, now_ns)
            )
        return bad(tag.name, tag.unit, BAD_TYPE_MISMATCH, now_ns)

    def _text(self, item: StructureData) -> TagValue:
        known = self._strings.get(item.handle)
        if known is None:
            return None
        try:
            value: Structured = read_structure(known[1], {}, item.handle, item.data)
        except CipError:
            return None
        return value if isinstance(value, str) else None
