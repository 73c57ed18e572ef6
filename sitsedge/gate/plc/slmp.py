"""The request block in words of a MELSEC CPU: one batch write for a slot, another for ``Sequence``.

From ``request_device`` on: ``Sequence`` (2 words), ``AutoRequest`` (1, zero or one), 1 unused, then both slots with
``Number``, ``Check``, ``ValidMs`` (2 words each) and the values, INT with an unused word behind it, so that every value
begins at an even distance. From ``applied_device`` on: ``Sequence`` (2), ``AutoActive`` (1), 1 unused, the values in
the same way. Longer numbers have their low word first, as the CPU's own instructions have it.

A CPU serves SLMP in its END processing, a request of up to 960 words at a time as a rule, but with settings that allow
service during the scan it does not wait: the block does not depend on it (:mod:`sitsedge.gate.plc.block`).
"""

from __future__ import annotations

from fieldbus.errors import FieldbusError
from fieldbus.slmp.client import CpuMode, SlmpClient
from fieldbus.slmp.devices import Device, Series
from fieldbus.slmp.limits import WORDS_MAX
from fieldbus.slmp.values import WordType, decode_words, encode_words, words_of
from fieldbus.slmp.wire import DataCode
from sitsedge.config.plc import SlmpPlc
from sitsedge.gate.plc.block import Raw, Seen, Slot, Value
from sitsedge.gate.plc.port import PlcError

HEAD_WORDS = 4
"""``Sequence``, ``AutoRequest`` or ``AutoActive``, unused."""
SLOT_HEAD_WORDS = 6
_TYPES = {"REAL": WordType.REAL, "LREAL": WordType.LREAL, "INT": WordType.INT, "DINT": WordType.DINT}
_PROTECTED = ("end-code-c200", "end-code-c201", "end-code-c204")
_NO_DEVICE = ("end-code-4030", "end-code-4031", "end-code-c056", "end-code-c05b", "end-code-c05c")


class SlmpWire:
    """One CPU; see :class:`~sitsedge.gate.plc.vendor.Wire`."""

    def __init__(self, plc: SlmpPlc, values: tuple[Value, ...]) -> None:
        series = Series(plc.series)
        self._client = SlmpClient(
            plc.address,
            plc.port,
            series=series,
            data_code=DataCode(plc.data_code),
            with_serial=plc.frame == "4E",
            deadline_s=plc.deadline_ms / 1000,
        )
        self._request = Device.named(plc.request_device, series)
        self._applied = Device.named(plc.applied_device, series)
        self._types = tuple(_TYPES[value.type] for value in values)
        self._value_words = sum(map(_room, self._types))
        self._slot_words = SLOT_HEAD_WORDS + self._value_words

    @property
    def connected(self) -> bool:
        return self._client.connected

    async def open(self) -> None:
        """Asks for the model: a peer that is no CPU shows here; and reads the whole block. Raises ``plc-block``."""
        await self._client.connect()
        await self._client.model()
        await self.look(0)
        word = (await self._client.words(_at(self._request, 2), 1))[0]
        if word > 1:
            raise PlcError("plc-block", found=f"{word} in AutoRequest", expected="0 or 1: the devices of the block")

    async def close(self) -> None:
        await self._client.close()

    async def standstill(self) -> str:
        mode = await self._client.mode()
        return "" if mode is CpuMode.RUN else f"CPU in {mode}"

    async def put_slot(self, slot: Slot) -> None:
        words: list[tuple[int, ...]] = [_double(number) for number in (slot.number, slot.check, slot.valid_ms)]
        for kind, value in zip(self._types, slot.values, strict=True):
            words.append((*encode_words(kind, value), *(0,) * (_room(kind) - words_of(kind))))
        await self._put(self._slot(slot.index), tuple(word for part in words for word in part))

    async def put_sequence(self, number: int) -> None:
        await self._client.put_words(self._request, _double(number))

    async def put_auto(self, wanted: bool) -> None:
        await self._client.put_words(_at(self._request, 2), (int(wanted),))

    async def published(self) -> int:
        return _from_double(await self._client.words(self._request, 2))

    async def look(self, slot: int | None) -> Seen:
        request = None
        if slot is not None:
            words = await self._words(self._request, HEAD_WORDS + 2 * self._slot_words)
            at = HEAD_WORDS + slot * self._slot_words
            head = tuple(_from_double(words[place : place + 2]) for place in (at, at + 2, at + 4))
            raws = self._values(words[at + SLOT_HEAD_WORDS : at + self._slot_words])
            request = _from_double(words[:2]), Slot.found(head, raws)
        words = await self._words(self._applied, HEAD_WORDS + self._value_words)
        return Seen(request, _from_double(words[:2]), words[2] == 1, self._values(words[HEAD_WORDS:]))

    def refusal(self, error: FieldbusError) -> str:
        if error.code in _PROTECTED:
            return "plc-protected"
        return "plc-block" if error.code in _NO_DEVICE else ""

    def _slot(self, index: int) -> Device:
        return _at(self._request, HEAD_WORDS + index * self._slot_words)

    async def _words(self, device: Device, count: int) -> tuple[int, ...]:
        words: tuple[int, ...] = ()
        for at in range(0, count, WORDS_MAX):
            words += await self._client.words(_at(device, at), min(WORDS_MAX, count - at))
        return words

    async def _put(self, device: Device, words: tuple[int, ...]) -> None:
        for at in range(0, len(words), WORDS_MAX):
            await self._client.put_words(_at(device, at), words[at : at + WORDS_MAX])

    def _values(self, words: tuple[int, ...]) -> tuple[Raw, ...]:
        values: list[Raw] = []
        at = 0
        for kind in self._types:
            value = decode_words(kind, words[at : at + words_of(kind)])
            assert isinstance(value, int | float)
            values.append(value)
            at += _room(kind)
        return tuple(values)


def _room(kind: WordType) -> int:
    return words_of(kind) + words_of(kind) % 2


def _at(device: Device, words: int) -> Device:
    return Device(device.kind, device.number + words)


def _double(number: int) -> tuple[int, int]:
    return number & 0xFFFF, number >> 16


def _from_double(words: tuple[int, ...]) -> int:
    return words[0] | words[1] << 16
