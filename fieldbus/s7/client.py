"""One connection to an S7 CPU: read and write var in parts that fit its PDU, system state lists, clock.

The negotiated PDU and one job in flight decide what a request holds. Replies must carry the reference of their job.
"""

from __future__ import annotations

import datetime as dt

from fieldbus.link import TcpLink
from fieldbus.s7 import cotp, pdu, szl
from fieldbus.s7.blocks import (
    COUNT_BLOCKS,
    LIST_BLOCKS,
    BlockEntry,
    BlockKind,
    block_counts,
    block_entries,
    list_request,
)
from fieldbus.s7.errors import S7Error
from fieldbus.s7.items import SUCCESS
from fieldbus.s7.limits import ITEMS_MAX, SZL_PARTS_MAX
from fieldbus.s7.model import (
    Ack,
    BlockInfo,
    Body,
    ClockReply,
    ClockRequest,
    DataItem,
    Item,
    ItemType,
    Job,
    NextPart,
    NoData,
    ReadReply,
    ReadRequest,
    Setup,
    SzlPart,
    SzlRequest,
    Telegram,
    Transport,
    UserBody,
    UserData,
    WriteReply,
    WriteRequest,
)
from fieldbus.s7.status import header_error, return_code
from fieldbus.s7.userdata import BLOCKS, CPU, READ_CLOCK, READ_SZL, TIME

PORT = 102
PDU_BYTES_WANTED = 960
_PDU_BYTES_MIN = 112
_HEADER_BYTES = 12  # S7 header with error, of a reply
_READ_HEAD, _READ_ITEM, _DATA_HEAD = 2, 12, 4
_COUNT_MAX = 0xFFFF
_TPDU_1024 = b"\x0a"


def selector(kind: int, rack: int, slot: int) -> bytes:
    """Transport selector of a CPU: kind (1 PG, 2 OP, 3 basic), rack and slot. Raises S7Error ``rack-slot``."""
    if not (kind in (1, 2, 3) and 0 <= rack <= 7 and 0 <= slot <= 31):
        raise S7Error("rack-slot", found=f"kind {kind}, rack {rack}, slot {slot}", expected="1-3, 0-7, 0-31")
    return bytes((kind, rack << 5 | slot))


class S7Client:
    """A client for one task at a time. Every method raises S7Error or LinkError."""

    def __init__(
        self,
        host: str,
        port: int = PORT,
        *,
        called: bytes = b"\x03\x01",
        calling: bytes = b"\x01\x00",
        deadline_s: float = 2.0,
    ) -> None:
        """``called``: transport selector of the CPU (``selector``); the default is rack 0, slot 1."""
        self._link = TcpLink(host, port, length_of=cotp.telegram_length, deadline_s=deadline_s)
        self._called, self._calling = called, calling
        self._reference = 0
        self.pdu_bytes = 0
        """What the CPU agreed to."""

    @property
    def connected(self) -> bool:
        return self._link.open

    async def connect(self) -> None:
        """Connect, and negotiate the PDU. Raises ``connect-refused``, ``pdu-size`` too."""
        await self._link.connect()
        parameters = ((0xC0, _TPDU_1024), (0xC1, self._calling), (0xC2, self._called))
        answer = await self._exchange(cotp.Connect(False, 0, 1, parameters))
        if not isinstance(answer, cotp.Connect) or not answer.confirm:
            self._link.abort()
            raise S7Error("connect-refused", found=type(answer).__name__, expected="a connection confirmation")
        setup = await self._job(Setup(1, 1, PDU_BYTES_WANTED))
        if not isinstance(setup, Setup) or not _PDU_BYTES_MIN <= setup.pdu_bytes <= PDU_BYTES_WANTED:
            self._link.abort()
            raise S7Error("pdu-size", found=str(setup), expected=f"{_PDU_BYTES_MIN} … {PDU_BYTES_WANTED}")
        self.pdu_bytes = setup.pdu_bytes

    @property
    def item_bytes_max(self) -> int:
        """Bytes of one item that a read of the negotiated PDU has room for."""
        return self.pdu_bytes - _HEADER_BYTES - _READ_HEAD - _DATA_HEAD

    async def close(self) -> None:
        await self._link.close()

    async def read(self, items: tuple[Item, ...]) -> tuple[DataItem, ...]:
        """Data or return code of every item, in as many requests as needed.

        An item that does not fit the PDU alone is refused (``item-size``), it is never read in halves that may not
        belong together.
        """
        found: list[DataItem] = []
        for part in self._parts(items):
            reply = await self._job(ReadRequest(part))
            if not isinstance(reply, ReadReply) or len(reply.items) != len(part):
                raise self._broken("reply-items", str(reply), f"{len(part)} items")
            for item, data in zip(part, reply.items, strict=True):
                if data.code == SUCCESS and len(data.data) != _size(item):
                    raise self._broken("reply-length", f"{len(data.data)} bytes", str(_size(item)))
            found += reply.items
        return tuple(found)

    def _parts(self, items: tuple[Item, ...]) -> list[tuple[Item, ...]]:
        parts: list[list[Item]] = []
        asked = told = self.pdu_bytes
        for item in items:
            size = _DATA_HEAD + _size(item) + _size(item) % 2
            if _HEADER_BYTES + _READ_HEAD + size > self.pdu_bytes:
                raise S7Error("item-size", found=f"{_size(item)} bytes", expected=f"a PDU of {self.pdu_bytes}")
            if asked + _READ_ITEM > self.pdu_bytes or told + size > self.pdu_bytes or len(parts[-1]) >= ITEMS_MAX:
                parts.append([])
                asked = told = _HEADER_BYTES + _READ_HEAD
            parts[-1].append(item)
            asked, told = asked + _READ_ITEM, told + size
        return [tuple(part) for part in parts]

    async def write(self, item: Item, data: bytes) -> None:
        """Write one item and read it back. Raises ``write-refused``, ``read-back``, ``item-size``."""
        if (
            len(data) != _size(item)
            or _HEADER_BYTES + _READ_HEAD + _READ_ITEM + _DATA_HEAD + len(data) > self.pdu_bytes
        ):
            raise S7Error("item-size", found=f"{len(data)} bytes", expected=f"{_size(item)} that fit the PDU")
        bit = item.type is ItemType.BIT
        payload = DataItem(0, Transport.BIT if bit else Transport.BYTE, data, 1 if bit else None)
        reply = await self._job(WriteRequest((item,), (payload,)))
        if not isinstance(reply, WriteReply) or len(reply.codes) != 1:
            raise self._broken("reply-items", str(reply), "1 return code")
        if reply.codes[0] != SUCCESS:
            raise S7Error("write-refused", found=return_code(reply.codes[0]), expected="success")
        back = (await self.read((item,)))[0]
        if back.code != SUCCESS or (back.data[0] & 1 != data[0] & 1 if bit else back.data != data):
            raise S7Error("read-back", found=back.data.hex() or return_code(back.code), expected=data.hex())

    async def put(self, parts: tuple[tuple[Item, bytes], ...]) -> None:
        """Write items in one job, without reading them back: whoever calls it does.

        Raises ``item-size`` before anything is sent, ``write-refused`` with the first return code after.
        """
        size = _HEADER_BYTES + _READ_HEAD
        for item, data in parts:
            size += _READ_ITEM + _DATA_HEAD + len(data) + len(data) % 2
            if len(data) != _size(item):
                raise S7Error("item-size", found=f"{len(data)} bytes", expected=str(_size(item)))
        if not 1 <= len(parts) <= ITEMS_MAX or size > self.pdu_bytes:
            raise S7Error("item-size", found=f"{len(parts)} items, {size} bytes", expected=f"{self.pdu_bytes} bytes")
        bits = [item.type is ItemType.BIT for item, _ in parts]
        payloads = [
            DataItem(0, Transport.BIT if bit else Transport.BYTE, data, 1 if bit else None)
            for bit, (_, data) in zip(bits, parts, strict=True)
        ]
        reply = await self._job(WriteRequest(tuple(item for item, _ in parts), tuple(payloads)))
        if not isinstance(reply, WriteReply) or len(reply.codes) != len(parts):
            raise self._broken("reply-items", str(reply), f"{len(parts)} return codes")
        bad = [code for code in reply.codes if code != SUCCESS]
        if bad:
            raise S7Error("write-refused", found=return_code(bad[0]), expected="success")

    async def read_szl(self, szl_id: int, index: int = 0) -> szl.Szl:
        """A whole system state list. Raises ``szl-refused`` where the CPU has none."""
        parts: list[bytes] = []
        sequence = 0
        body: UserBody = SzlRequest(szl_id, index)
        while len(parts) < SZL_PARTS_MAX:
            reply = await self._service(CPU, READ_SZL, sequence, body)
            if isinstance(reply.body, NoData):
                found = header_error(reply.error) if reply.error else return_code(reply.body.code)
                raise S7Error("szl-refused", found=found, expected=f"list {szl_id:#06x}")
            if not isinstance(reply.body, SzlPart):
                raise self._broken("reply-items", str(reply.body), "a system state list")
            parts.append(reply.body.data)
            if not reply.more:
                return szl.assemble(tuple(parts))
            sequence, body = reply.sequence, NextPart()
        raise self._broken("szl-size", f"{len(parts)} parts", f"at most {SZL_PARTS_MAX}")

    async def cpu_state(self, clock: dt.tzinfo = dt.UTC) -> szl.CpuState:
        """Mode of the CPU, and when it last changed."""
        return szl.cpu_state(await self.read_szl(szl.CPU_STATE), clock)

    async def diagnostic_buffer(self, clock: dt.tzinfo = dt.UTC) -> tuple[szl.DiagnosticEntry, ...]:
        """The diagnostic buffer, newest entry first."""
        return szl.diagnostic_buffer(await self.read_szl(szl.DIAGNOSTIC_BUFFER), clock)

    async def block_counts(self) -> dict[BlockKind, int]:
        """How many blocks of each kind the CPU has. Raises ``blocks-refused``, ``block-list``."""
        return block_counts(await self._blocks(COUNT_BLOCKS, b""))

    async def blocks(self, kind: BlockKind) -> tuple[BlockEntry, ...]:
        """The blocks of one kind. Raises ``blocks-refused`` (also where there are none), ``block-list``."""
        return block_entries(await self._blocks(LIST_BLOCKS, list_request(kind)))

    async def _blocks(self, function: int, data: bytes) -> bytes:
        parts: list[bytes] = []
        sequence = 0
        body: UserBody = BlockInfo(data)
        while len(parts) < SZL_PARTS_MAX:
            reply = await self._service(BLOCKS, function, sequence, body)
            if isinstance(reply.body, NoData):
                found = header_error(reply.error) if reply.error else return_code(reply.body.code)
                raise S7Error("blocks-refused", found=found, expected="a list of blocks")
            if not isinstance(reply.body, BlockInfo):
                raise self._broken("reply-items", str(reply.body)[:80], "a list of blocks")
            parts.append(reply.body.data)
            if not reply.more:
                return b"".join(parts)
            sequence, body = reply.sequence, NextPart()
        raise self._broken("block-list", f"{len(parts)} parts", f"at most {SZL_PARTS_MAX}")

    async def clock_ns(self, clock: dt.tzinfo = dt.UTC) -> int:
        """Unix ns of the CPU's clock, which runs in the zone ``clock``."""
        reply = await self._service(TIME, READ_CLOCK, 0, ClockRequest())
        if not isinstance(reply.body, ClockReply):
            raise S7Error("clock-refused", found=str(reply.body), expected="the CPU's time")
        return szl.clock_ns(reply.body.data, clock)

    async def _job(self, body: Body) -> Body:
        reference = self._next()
        answer = await self._exchange(Job(reference, body))
        if not isinstance(answer, Ack) or answer.reference != reference:
            raise self._broken("reply-reference", str(answer)[:80], f"the answer to job {reference}")
        if answer.error:
            raise S7Error("job-refused", found=header_error(answer.error), expected="no error")
        return answer.body

    async def _service(self, group: int, function: int, sequence: int, body: UserBody) -> UserData:
        reference = self._next()
        answer = await self._exchange(UserData(reference, False, group, function, sequence, body))
        if not isinstance(answer, UserData) or not answer.reply or answer.reference != reference:
            raise self._broken("reply-reference", str(answer)[:80], f"the answer to service {reference}")
        if (answer.group, answer.function) != (group, function):
            raise self._broken("reply-reference", f"{answer.group}/{answer.function}", f"{group}/{function}")
        return answer

    def _next(self) -> int:
        self._reference = self._reference % _COUNT_MAX + 1
        return self._reference

    async def _exchange(self, telegram: Telegram) -> Telegram:
        try:
            return pdu.decode(await self._link.exchange(pdu.encode(telegram)))
        except S7Error:
            self._link.abort()
            raise

    def _broken(self, code: str, found: str, expected: str) -> S7Error:
        """A peer that answers something else is not asked again on this connection."""
        self._link.abort()
        return S7Error(code, found=found, expected=expected)


_TYPE_BYTES = {
    ItemType.WORD: 2,
    ItemType.INT: 2,
    ItemType.DWORD: 4,
    ItemType.DINT: 4,
    ItemType.REAL: 4,
    ItemType.DATE: 2,
    ItemType.TIME_OF_DAY: 4,
    ItemType.TIME: 4,
    ItemType.S5TIME: 2,
    ItemType.DATE_AND_TIME: 8,
    ItemType.COUNTER: 2,
    ItemType.TIMER: 2,
}


def _size(item: Item) -> int:
    return item.count * _TYPE_BYTES.get(item.type, 1)
