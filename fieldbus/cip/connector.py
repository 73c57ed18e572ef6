"""State of a Logix controller as samples: tags discovered with their types, discovered again after a download."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from fieldbus.cip.client import CipClient
from fieldbus.cip.errors import CipError
from fieldbus.cip.identity import Identity, Mode
from fieldbus.cip.replies import Refused, Said, StructureData, TagValues
from fieldbus.cip.tags import Known, Place, discover, needs_template, place_of, split_path, value_at
from fieldbus.sample import (
    BAD_DECODING,
    BAD_DEVICE_FAILURE,
    BAD_NOT_FOUND,
    BAD_OUT_OF_SERVICE,
    BAD_TYPE_MISMATCH,
    Sample,
    bad,
    good,
)

_STATUS = "status-"
_NO_TAG = (0x04, 0x05)
_NOT_THERE = ("tag-unknown", "member-unknown", "tag-index")
PACKET_TAGS_MAX = 12
"""Tags of one multiple service packet: with names of 40 characters they fit the 504 bytes of unconnected messages."""

PACKET_BYTES_MAX = 400
"""Bytes of values in one answer, for the same reason; a larger structure is read alone, in fragments."""


@dataclass(frozen=True, slots=True)
class CipTag:
    """A value by path: a tag (``Speed``, ``Program:Main.Speed``), an element (``Grid[1,2]``), a member of a structure
    at any depth (``Pump[3].Motor.Ready``), a bit of an integer (``Word.5``), or a string. ``type``: what it must be
    (``REAL``, ``DINT``, ``BOOL``, ``STRING`` …); another one in the controller is a bad value, never a conversion."""

    name: str
    path: str
    type: str
    unit: str = ""


class CipConnector:
    """Polls tags in multiple service packets; members of one structure come from one read of it. A controller in
    program mode or faulted gives bad values unless ``run_only`` is False. Samples carry the time of their reception:
    tags have none."""

    def __init__(
        self,
        client: CipClient,
        tags: tuple[CipTag, ...],
        *,
        run_only: bool = True,
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        """Raises CipError ``tag-name``."""
        for tag in tags:
            split_path(tag.path)
        self._client, self._tags, self._run_only, self._now_ns = client, tags, run_only, now_ns
        self._known = Known({})
        self._places: list[Place | CipError] = []
        self._sizes: dict[str, int] = {}
        self._packets: list[tuple[str, ...]] = []
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
        """Connect and discover: identity, and the types of tags that are more than plain elementary ones."""
        await self._client.connect()
        self.identity = await self._client.identity()
        self._changes = await self._client.changes()
        await self._discover()

    async def _discover(self) -> None:
        paths = tuple(tag.path for tag in self._tags if needs_template(tag.path, tag.type))
        known: Known | None = Known({})
        try:
            known = await discover(self._client, paths) if paths else known
        except CipError as error:
            if not error.code.startswith(_STATUS):
                raise
            known = None  # a device that lists no symbols may still answer for a member by its name
        self._known = known or Known({})
        self._places = [self._place(tag, known) for tag in self._tags]
        self._sizes = {place.path: place.size for place in self._places if isinstance(place, Place)}
        self._packets = _packets(self._sizes)

    def _place(self, tag: CipTag, known: Known | None) -> Place | CipError:
        if known is None or not needs_template(tag.path, tag.type):
            return Place(tag.path)
        try:
            return place_of(tag.path, known)
        except CipError as error:
            return error

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
        found: dict[str, Said] = {}
        for packet in self._packets:
            found |= await self._read(packet)
        return tuple(
            [self._sample(tag, place, found, running) for tag, place in zip(self._tags, self._places, strict=True)]
        )

    async def _read(self, paths: tuple[str, ...]) -> dict[str, Said]:
        if len(paths) == 1 and self._sizes[paths[0]] > PACKET_BYTES_MAX:
            return {paths[0]: await self._alone(paths[0])}
        said = dict(zip(paths, await self._client.read_many(paths), strict=True))
        for path, answer in said.items():
            if isinstance(answer, TagValues | StructureData) and answer.more:
                said[path] = await self._alone(path)
        return said

    async def _alone(self, path: str) -> Said:
        """One tag, in fragments."""
        try:
            return await self._client.read(path)
        except CipError as error:
            if not error.code.startswith(_STATUS):
                raise
            return Refused(int(error.code.removeprefix(_STATUS), 16), (), error.found)

    def _sample(self, tag: CipTag, place: Place | CipError, found: dict[str, Said], running: bool) -> Sample:
        now_ns = self._now_ns()
        if isinstance(place, CipError):
            status = BAD_NOT_FOUND if place.code in _NOT_THERE else BAD_DECODING
            return bad(tag.name, tag.unit, status, now_ns)
        answer = found[place.path]
        if isinstance(answer, Refused):
            status = BAD_NOT_FOUND if answer.status in _NO_TAG else BAD_DEVICE_FAILURE
            return bad(tag.name, tag.unit, status, now_ns)
        if not running:
            return bad(tag.name, tag.unit, BAD_OUT_OF_SERVICE, now_ns)
        if not isinstance(answer, TagValues | StructureData) or not _fits(tag, place, answer):
            return bad(tag.name, tag.unit, BAD_TYPE_MISMATCH, now_ns)
        try:
            return good(tag.name, value_at(place, self._known, answer), tag.unit, now_ns)
        except CipError:
            return bad(tag.name, tag.unit, BAD_DECODING, now_ns)


def _packets(sizes: dict[str, int]) -> list[tuple[str, ...]]:
    """Paths in packets whose answers fit; one that fits none is alone in its own."""
    packets: list[list[str]] = []
    room = 0
    for path, size in sizes.items():
        if not packets or size > room or len(packets[-1]) >= PACKET_TAGS_MAX:
            packets.append([])
            room = PACKET_BYTES_MAX
        packets[-1].append(path)
        room -= size
    return [tuple(packet) for packet in packets]


def _fits(tag: CipTag, place: Place, answer: TagValues | StructureData) -> bool:
    """Whether the answer is of the declared type: the one that was discovered, else that of the answer itself."""
    if place.type is None:
        return isinstance(answer, TagValues) and answer.type == tag.type
    return place.type == tag.type
