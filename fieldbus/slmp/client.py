"""One connection to a MELSEC CPU over SLMP: batch and random reads, writes with read-back, model and state."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from enum import StrEnum

from fieldbus.link import TcpLink
from fieldbus.slmp import commands, frame
from fieldbus.slmp.devices import Device, Series
from fieldbus.slmp.endcodes import end_code_text
from fieldbus.slmp.errors import SlmpError
from fieldbus.slmp.model import (
    Bits,
    CpuModel,
    RandomWords,
    ReadBatch,
    ReadModel,
    ReadRandom,
    Reply,
    ReplyBody,
    Request,
    RequestBody,
    Route,
    Words,
    WriteBits,
    WriteWords,
)
from fieldbus.slmp.wire import DataCode

_SERIAL_MAX = 0xFFFF
_TIMER_STEP_S = 0.25


class CpuMode(StrEnum):
    """Low four bits of SD203."""

    RUN = "run"
    STOP = "stop"
    PAUSE = "pause"
    UNKNOWN = "unknown"


_MODES = {0: CpuMode.RUN, 2: CpuMode.STOP, 3: CpuMode.PAUSE}
_CAUSES = {0: "switch", 1: "remote contact", 2: "remote operation", 3: "program", 4: "error"}


@dataclass(frozen=True, slots=True)
class CpuState:
    """``mode`` and why (SD203), ``error`` latest self-diagnosis error (SD0), ``fault``: SM0."""

    mode: CpuMode
    cause: str
    error: int
    fault: bool


class SlmpClient:
    """A client for one task at a time. Every method raises SlmpError or LinkError."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        series: Series,
        data_code: DataCode = DataCode.BINARY,
        with_serial: bool = True,
        route: Route = Route(),  # noqa: B008 - frozen
        deadline_s: float = 2.0,
    ) -> None:
        """``with_serial``: 4E frames, whose replies name their request; 3E without."""
        self._link = TcpLink(host, port, length_of=frame.telegram_length, deadline_s=deadline_s)
        self.series = series
        self._code, self._route = data_code, route
        self._serial: int | None = 0 if with_serial else None
        self._timer = max(1, int(deadline_s / _TIMER_STEP_S))
        self._long = series is Series.IQ_R

    @property
    def connected(self) -> bool:
        return self._link.open

    async def connect(self) -> None:
        await self._link.connect()

    async def close(self) -> None:
        await self._link.close()

    async def words(self, device: Device, count: int) -> tuple[int, ...]:
        """``count`` words from ``device`` on, without sign."""
        body = await self._ask(ReadBatch(device, count, False, self._long))
        assert isinstance(body, Words)
        return body.values

    async def bits(self, device: Device, count: int) -> tuple[bool, ...]:
        """``count`` bits from ``device`` on."""
        body = await self._ask(ReadBatch(device, count, True, self._long))
        assert isinstance(body, Bits)
        return body.values

    async def random(self, words: tuple[Device, ...], double_words: tuple[Device, ...] = ()) -> RandomWords:
        """Words and double words that are not in a row, read in one go.

        Raises ``word-order`` for double words in ASCII: peers differ in which word comes first there.
        """
        if double_words and self._code is DataCode.ASCII:
            raise SlmpError("word-order", found="double words in ASCII", expected="two words each, or binary data code")
        body = await self._ask(ReadRandom(words, double_words, self._long))
        assert isinstance(body, RandomWords)
        return body

    async def write_words(self, device: Device, values: tuple[int, ...]) -> None:
        """Write words and read them back. Raises ``read-back``."""
        await self._ask(WriteWords(device, values, self._long))
        back = await self.words(device, len(values))
        if back != values:
            raise SlmpError("read-back", found=str(back[:8]), expected=str(values[:8]))

    async def put_words(self, device: Device, values: tuple[int, ...]) -> None:
        """Write words without reading them back: whoever calls it does."""
        await self._ask(WriteWords(device, values, self._long))

    async def write_bits(self, device: Device, values: tuple[bool, ...]) -> None:
        """Write bits and read them back. Raises ``read-back``."""
        await self._ask(WriteBits(device, values, self._long))
        back = await self.bits(device, len(values))
        if back != values:
            raise SlmpError("read-back", found=str(back[:8]), expected=str(values[:8]))

    async def model(self) -> CpuModel:
        """Name and code of the CPU."""
        body = await self._ask(ReadModel())
        assert isinstance(body, CpuModel)
        return body

    async def state(self) -> CpuState:
        """What the CPU does, by SD203, SD0 and SM0."""
        operation = (await self.words(Device("SD", 203), 1))[0]
        error = (await self.words(Device("SD", 0), 1))[0]
        fault = (await self.bits(Device("SM", 0), 1))[0]
        mode = _MODES.get(operation & 15, CpuMode.UNKNOWN)
        return CpuState(mode, _CAUSES.get(operation >> 4 & 15, ""), error, fault)

    async def mode(self) -> CpuMode:
        """What the CPU does, by SD203 alone: one request."""
        return _MODES.get((await self.words(Device("SD", 203), 1))[0] & 15, CpuMode.UNKNOWN)

    async def clock_ns(self, zone: dt.tzinfo) -> int:
        """Unix ns of the CPU's clock (SD210 on), which runs in ``zone``. Raises ``clock-value``."""
        return clock_ns(await self.words(Device("SD", 210), 7), self.series, zone)

    async def _ask(self, body: RequestBody) -> ReplyBody:
        if self._serial is not None:
            self._serial = self._serial % _SERIAL_MAX + 1
        request = Request(body, self._serial, self._route, self._timer, self._code)
        data = await self._link.exchange(frame.encode(request, self.series))
        try:
            reply = frame.decode(data, self.series)
            if not isinstance(reply, Reply) or reply.serial != self._serial or reply.route != self._route:
                raise SlmpError("reply-unmatched", found=str(reply)[:80], expected=f"the reply to {self._serial}")
            if reply.end_code == 0:
                return commands.read_reply(body, reply)
        except SlmpError:
            self._link.abort()
            raise
        raise SlmpError(f"end-code-{reply.end_code:04x}", found=end_code_text(reply.end_code), expected="success")


def clock_ns(words: tuple[int, ...], series: Series, zone: dt.tzinfo) -> int:
    """Unix ns of SD210 to SD216: BCD pairs on Q and L (year and month, day and hour, minute and second, century and
    weekday), one number a word on iQ-R and iQ-F. Raises SlmpError ``clock-value``."""
    try:
        if series in (Series.Q, Series.L):
            pairs = [_bcd(byte) for word in words[:4] for byte in (word >> 8, word & 0xFF)]
            year, month, day, hour, minute, second, century = pairs[:7]
            wall = dt.datetime(century * 100 + year, month, day, hour, minute, second, tzinfo=zone)
        else:
            year, month, day, hour, minute, second = words[:6]
            wall = dt.datetime(year, month, day, hour, minute, second, tzinfo=zone)
    except (ValueError, OverflowError) as error:
        raise SlmpError("clock-value", found=str(error), expected="a date and a time in SD210 to SD216") from None
    return int(wall.timestamp()) * 1_000_000_000


def _bcd(byte: int) -> int:
    if byte >> 4 > 9 or byte & 15 > 9:
        raise ValueError(f"{byte:#04x} is not BCD")
    return (byte >> 4) * 10 + (byte & 15)
