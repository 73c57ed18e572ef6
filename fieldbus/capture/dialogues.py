"""What telegrams mean in their connection: replies are read against the requests that were seen before them.

Memory is bounded: a connection keeps at most ``PENDING_MAX`` requests without a reply, the oldest is forgotten.
"""

from __future__ import annotations

import datetime as dt
from collections import OrderedDict
from dataclasses import dataclass
from typing import Generic, TypeVar
from typing import Protocol as Interface

from fieldbus import uadp
from fieldbus.cip import encapsulation as enip
from fieldbus.cip import replies, services
from fieldbus.cip.message import Request as CipRequest
from fieldbus.s7 import model as s7
from fieldbus.s7 import pdu, szl
from fieldbus.s7.errors import S7Error
from fieldbus.s7.limits import SZL_PARTS_MAX
from fieldbus.s7.status import header_error, return_code
from fieldbus.slmp import commands, endcodes
from fieldbus.slmp import frame as slmp_frame
from fieldbus.slmp.devices import Series
from fieldbus.slmp.model import Request as SlmpRequest
from fieldbus.slmp.model import RequestBody

PENDING_MAX = 64


@dataclass(frozen=True, slots=True)
class Decoded:
    """A telegram and what it means: None where the telegram says all, or what it answers was not seen."""

    telegram: object
    meaning: object = None


class Dialogue(Interface):
    """The telegrams of one connection, in order."""

    def read(self, data: bytes, t_ns: int | None = None) -> Decoded:
        """One whole telegram, captured at ``t_ns``. Raises the protocol's FieldbusError."""


Key = TypeVar("Key")
Value = TypeVar("Value")


class _Pending(Generic[Key, Value]):
    """Requests without a reply yet, the oldest first."""

    def __init__(self) -> None:
        self._requests: OrderedDict[Key, list[Value]] = OrderedDict()
        self._count = 0

    def add(self, key: Key, request: Value) -> None:
        self._requests.setdefault(key, []).append(request)
        self._requests.move_to_end(key)
        self._count += 1
        while self._count > PENDING_MAX:
            self.take(next(iter(self._requests)))

    def take(self, key: Key) -> Value | None:
        """The oldest request with ``key``, which is answered now."""
        waiting = self._requests.get(key)
        if waiting is None:
            return None
        request = waiting.pop(0)
        self._count -= 1
        if not waiting:
            del self._requests[key]
        return request


@dataclass(frozen=True, slots=True)
class ItemResult:
    """What became of one item: its pointer and its return code in words."""

    item: s7.Item | None
    result: str


@dataclass(frozen=True, slots=True)
class JobResult:
    """Error of the whole job in words, and of every item."""

    error: str
    items: tuple[ItemResult, ...]


class S7Dialogue:
    """S7: answers by PDU reference, parts of a system state list by sequence number."""

    def __init__(self, clock: dt.tzinfo = dt.UTC) -> None:
        self._clock = clock
        self._jobs: _Pending[int, s7.Body] = _Pending()
        self._parts: OrderedDict[int, list[bytes]] = OrderedDict()

    def read(self, data: bytes, t_ns: int | None = None) -> Decoded:
        telegram = pdu.decode(data)
        if isinstance(telegram, s7.Job):
            self._jobs.add(telegram.reference, telegram.body)
            return Decoded(telegram)
        if isinstance(telegram, s7.Ack):
            return Decoded(telegram, self._result(telegram))
        if isinstance(telegram, s7.UserData):
            return Decoded(telegram, self._service(telegram))
        return Decoded(telegram)

    def _result(self, telegram: s7.Ack) -> JobResult:
        job, body = self._jobs.take(telegram.reference), telegram.body
        codes: tuple[int, ...] = ()
        if isinstance(body, s7.ReadReply):
            codes = tuple(item.code for item in body.items)
        elif isinstance(body, s7.WriteReply):
            codes = body.codes
        items = job.items if isinstance(job, s7.ReadRequest | s7.WriteRequest) else None
        if items and not telegram.error:
            wanted = s7.ReadReply if isinstance(job, s7.ReadRequest) else s7.WriteReply
            if not isinstance(body, wanted) or len(codes) != len(items):
                found = f"{len(codes)} results of {type(body).__name__}"
                raise S7Error("reply-items", found=found, expected=f"{len(items)} of {wanted.__name__}")
        pointers = items if items is not None and len(items) == len(codes) else (None,) * len(codes)
        results = (ItemResult(item, return_code(code)) for item, code in zip(pointers, codes, strict=True))
        return JobResult(header_error(telegram.error), tuple(results))

    def _service(self, telegram: s7.UserData) -> object:
        body = telegram.body
        if isinstance(body, s7.NoData):
            return header_error(telegram.error) if telegram.error else return_code(body.code)
        if isinstance(body, s7.ClockReply):
            return szl.clock_ns(body.data, self._clock)
        if not isinstance(body, s7.SzlPart):
            return None
        parts = self._parts.pop(telegram.sequence, [])
        parts.append(body.data)
        if telegram.more:
            if len(parts) <= SZL_PARTS_MAX:
                self._parts[telegram.sequence] = parts
            while len(self._parts) > PENDING_MAX:
                self._parts.popitem(last=False)
            return None
        return szl.interpret(tuple(parts), self._clock)


class CipDialogue:
    """CIP: unconnected answers by sender context, connected ones by sequence count."""

    def __init__(self) -> None:
        self._requests: _Pending[tuple[int, bytes], CipRequest] = _Pending()

    def read(self, data: bytes, t_ns: int | None = None) -> Decoded:
        telegram = enip.decode(data)
        body = telegram.body
        if isinstance(body, enip.Unconnected):
            key = (telegram.command, telegram.context)
        elif isinstance(body, enip.Connected):
            key = (telegram.command, body.sequence.to_bytes(2, "little"))
        else:
            return Decoded(telegram, enip.status_text(telegram.status) if telegram.status else None)
        if isinstance(body.message, CipRequest):
            meaning = services.asked(body.message)
            self._requests.add(key, body.message)
            return Decoded(telegram, meaning)
        request = self._requests.take(key)
        return Decoded(telegram, None if request is None else replies.said(request, body.message))


@dataclass(frozen=True, slots=True)
class EndCode:
    """A refusal in words."""

    text: str


class SlmpDialogue:
    """SLMP: 4E answers by serial number; 3E answers come in the order of their requests."""

    def __init__(self, series: Series = Series.Q) -> None:
        self._series = series
        self._requests: _Pending[int | None, RequestBody] = _Pending()

    def read(self, data: bytes, t_ns: int | None = None) -> Decoded:
        frame = slmp_frame.decode(data, self._series)
        if isinstance(frame, SlmpRequest):
            self._requests.add(frame.serial, frame.body)
            return Decoded(frame)
        request = self._requests.take(frame.serial)
        if frame.end_code:
            return Decoded(frame, EndCode(endcodes.end_code_text(frame.end_code)))
        return Decoded(frame, None if request is None else commands.read_reply(request, frame))


@dataclass(frozen=True, slots=True)
class Whole:
    """The message that a chunk completed, and the header of its protection if it had any."""

    message: uadp.NetworkMessage
    security: uadp.SecurityHeader | None = None


class UadpDialogue:
    """UADP: every NetworkMessage says all by itself, but chunks, whose last one means the whole message.

    Protected messages are opened with the first key that fits and gives a message; without keys they stay closed.
    """

    def __init__(self, rings: tuple[uadp.KeyRing, ...] = ()) -> None:
        self._readers = [uadp.SecureReader(ring, mode, counted_nonces=False) for ring in rings for mode in _MODES]
        self._chunks = uadp.Reassembler()
        self._newest_ns = 0  # captures from several interfaces may go back in time

    def read(self, data: bytes, t_ns: int | None = None) -> Decoded:
        self._newest_ns = max(self._newest_ns, t_ns or 0)
        try:
            return self._decoded(uadp.decode(data), None)
        except uadp.UadpError as error:
            if error.code != "secured" or not self._readers:
                raise
        return self._open(data)

    def _open(self, data: bytes) -> Decoded:
        refusal: uadp.UadpError | None = None
        for reader in self._readers:
            try:
                opened = reader.open(data)
                message = uadp.decode(opened.data)
            except uadp.UadpError as error:
                if refusal is None or refusal.code in _OTHERS_KEY:
                    refusal = error
            else:
                return self._decoded(message, opened.security)
        assert refusal is not None
        raise refusal

    def _decoded(self, message: uadp.NetworkMessage, security: uadp.SecurityHeader | None) -> Decoded:
        if message.chunk is None:
            return Decoded(message, security)
        whole = self._chunks.add(message, self._newest_ns)
        return Decoded(message, security if whole is None else Whole(whole, security))


_OTHERS_KEY = ("security-mode", "token-unknown")
_MODES = (uadp.SecurityMode.SIGN_AND_ENCRYPT, uadp.SecurityMode.SIGN)
