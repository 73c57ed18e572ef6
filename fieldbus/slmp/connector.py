"""State of a MELSEC CPU as samples."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from fieldbus.sample import BAD_DECODING, BAD_OUT_OF_SERVICE, Sample, bad, good
from fieldbus.slmp.batches import Batch, Wanted, batches
from fieldbus.slmp.client import CpuMode, SlmpClient
from fieldbus.slmp.devices import Device
from fieldbus.slmp.endcodes import quality
from fieldbus.slmp.errors import SlmpError
from fieldbus.slmp.values import WordOrder, WordType, decode_words, words_of

_END_CODE = "end-code-"
_WORD_BITS = 16
_KEPT_BY_CPU = ("SM", "SD")


@dataclass(frozen=True, slots=True)
class SlmpTag:
    """A device as a tag. ``type`` None: a bit. ``words`` only for text. A number with a bit device (``X0``, ``M16``) is
    made of as many bits from there on, the first one the lowest."""

    name: str
    device: str
    type: WordType | None = None
    unit: str = ""
    order: WordOrder = WordOrder.LOW_FIRST
    words: int = 0


class SlmpConnector:
    """Polls tags, neighbours in one request. A CPU that is not in RUN gives bad values (Bad_OutOfService) unless
    ``run_only`` is False; special relays and registers (SM, SD), which the CPU itself keeps, stay good. Samples carry
    the time of their reception: devices have none."""

    def __init__(
        self,
        client: SlmpClient,
        tags: tuple[SlmpTag, ...],
        *,
        run_only: bool = True,
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        """Raises SlmpError ``device-name``, ``device-unknown``, ``device-radix``, ``bit-device``, ``text-length``."""
        self._client, self._tags, self._run_only, self._now_ns = client, tags, run_only, now_ns
        self._devices = [Device.named(tag.device, client.series) for tag in tags]
        wanted: list[Wanted] = []
        for place, (tag, device) in enumerate(zip(tags, self._devices, strict=True)):
            if tag.type is None and not device.bit:
                raise SlmpError("bit-device", found=tag.device, expected="a type for a word device")
            if tag.type is WordType.TEXT and device.bit:
                raise SlmpError("bit-device", found=f"text in {tag.device}", expected="a word device for text")
            count = 1 if tag.type is None else words_of(tag.type, tag.words)
            wanted.append(Wanted(place, device, count * _WORD_BITS if tag.type is not None and device.bit else count))
        self._batches = batches(wanted)
        self.model = ""
        """The CPU's model, once connected."""

    @property
    def tags(self) -> tuple[tuple[str, str], ...]:
        return tuple((tag.name, tag.unit) for tag in self._tags)

    @property
    def connected(self) -> bool:
        return self._client.connected

    async def connect(self) -> None:
        """Connect, and ask for the model: a peer that is no CPU shows here."""
        await self._client.connect()
        self.model = (await self._client.model()).name

    async def close(self) -> None:
        await self._client.close()

    async def read(self) -> tuple[Sample, ...]:
        """One sample per tag; a tag that the CPU refuses is bad, the others are not."""
        running = not self._run_only or (await self._client.state()).mode is CpuMode.RUN
        found: dict[int, Sample] = {}
        for batch in self._batches:
            found |= await self._read(batch, running)
        return tuple(found[place] for place in range(len(self._tags)))

    async def _read(self, batch: Batch, running: bool) -> dict[int, Sample]:
        """The samples of a batch by place; if the CPU refuses it, those of its tags one by one."""
        try:
            points = await self._points(batch)
        except SlmpError as error:
            if not self._client.connected:
                raise
            if len(batch.parts) == 1:
                return {batch.parts[0].place: self._refused(self._tags[batch.parts[0].place], error)}
            found: dict[int, Sample] = {}
            for part in batch.parts:
                found |= await self._read(Batch(part.device, part.count, (part,)), running)
            return found
        return {part.place: self._sample(part, points[batch.of(part)], running) for part in batch.parts}

    async def _points(self, batch: Batch) -> tuple[int, ...] | tuple[bool, ...]:
        if batch.first.bit:
            return await self._client.bits(batch.first, batch.count)
        return await self._client.words(batch.first, batch.count)

    def _sample(self, part: Wanted, points: tuple[int, ...] | tuple[bool, ...], running: bool) -> Sample:
        tag = self._tags[part.place]
        try:
            value = points[0] if tag.type is None else decode_words(tag.type, _words(part, points), tag.order)
        except SlmpError as error:
            return self._refused(tag, error)
        if not running and part.device.kind not in _KEPT_BY_CPU:
            return bad(tag.name, tag.unit, BAD_OUT_OF_SERVICE, self._now_ns())
        return good(tag.name, value, tag.unit, self._now_ns())

    def _refused(self, tag: SlmpTag, error: SlmpError) -> Sample:
        refused = error.code.startswith(_END_CODE)
        status = quality(int(error.code.removeprefix(_END_CODE), 16)) if refused else BAD_DECODING
        return bad(tag.name, tag.unit, status, self._now_ns())


def _words(part: Wanted, points: tuple[int, ...] | tuple[bool, ...]) -> tuple[int, ...]:
    """The words, put together of their bits where the device has bits."""
    if not part.device.bit:
        return points
    starts = range(0, len(points), _WORD_BITS)
    return tuple(sum(points[start + bit] << bit for bit in range(_WORD_BITS)) for start in starts)
