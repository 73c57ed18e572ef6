"""One connection to a Logix controller: identity, tags, templates, reads in fragments, writes with read-back.

Messages go unconnected, routed by ``unconnected send`` where the controller sits behind a communication module. A
reply must carry the sender context of its request, which is never used twice on a connection.
"""

from __future__ import annotations

from fieldbus.cip import encapsulation as enip
from fieldbus.cip.errors import CipError
from fieldbus.cip.identity import Identity
from fieldbus.cip.limits import SYMBOLS_MAX, TEMPLATE_BYTES_MAX
from fieldbus.cip.message import Reply, Request
from fieldbus.cip.path import Logical, LogicalKind, Path, Port, logical, to_object, to_scope, to_tag
from fieldbus.cip.replies import (
    Answer,
    Attributes,
    Refused,
    Replies,
    Said,
    StructureData,
    SymbolEntry,
    Symbols,
    TagValues,
    TemplatePart,
    said,
)
from fieldbus.cip.services import (
    CONNECTION_MANAGER,
    GET_ALL,
    GET_LIST,
    IDENTITY_CLASS,
    LIST_INSTANCES,
    MULTIPLE,
    READ_FRAGMENT,
    READ_TAG,
    READ_TEMPLATE,
    ROUTER_CLASS,
    SYMBOL_CLASS,
    TEMPLATE_CLASS,
    UNCONNECTED_SEND,
    WRITE_TAG,
    Send,
    join,
    unconnected_send,
)
from fieldbus.cip.template import TEMPLATE_ATTRIBUTES, Template, decode_attributes, decode_template
from fieldbus.cip.types import BY_NAME, Value, encode_value
from fieldbus.link import TcpLink

PORT = 44_818
_TICK, _TICKS = 10, 5  # 1,024 ms times 5
_SYMBOL_ATTRIBUTES = (1, 2, 8)
_TEMPLATE_READ_BYTES = 400
_CHANGES_CLASS = 0xAC
_CHANGES_ATTRIBUTES = (1, 2, 3, 4, 10)
TAG_BYTES_MAX = 262_144
"""One tag read in fragments: more would take longer than any control period."""


def backplane(slot: int) -> Path:
    """Route from a communication module to the controller in ``slot``."""
    if not 0 <= slot <= 255:
        raise CipError("slot", found=str(slot), expected="0 … 255")
    return (Port(1, bytes((slot,))),)


class CipClient:
    """A client for one task at a time. Every method raises CipError or LinkError."""

    def __init__(self, host: str, port: int = PORT, *, route: Path = (), deadline_s: float = 2.0) -> None:
        """``route``: empty for a controller with its own port, else ``backplane(slot)``."""
        self._link = TcpLink(host, port, length_of=enip.telegram_length, deadline_s=deadline_s)
        self._route = route
        self._session = 0
        self._count = 0

    @property
    def connected(self) -> bool:
        return self._link.open

    async def connect(self) -> None:
        """Connect and register a session. Raises ``session-refused``."""
        await self._link.connect()
        self._session = 0
        answer = await self._exchange(enip.Telegram(enip.REGISTER, enip.Register(), 0, 0, self._context()))
        if answer.command != enip.REGISTER or answer.status or not answer.session:
            raise self._broken("session-refused", enip.status_text(answer.status), "a session")
        self._session = answer.session

    async def close(self) -> None:
        """Unregister the session and close."""
        if self._link.open:
            await self._link.send(enip.encode(enip.Telegram(enip.UNREGISTER, None, self._session)))
        await self._link.close()

    async def identity(self) -> Identity:
        """Identity, mode and faults of the controller."""
        found = await self._ask(Request(GET_ALL, to_object(IDENTITY_CLASS, 1)))
        if not isinstance(found, Identity):
            raise self._broken("reply-kind", type(found).__name__, "an identity")
        return found

    async def symbols(self, scope: str = "") -> tuple[SymbolEntry, ...]:
        """Tags of the controller, or of one program (``Program:Main``), with types and dimensions."""
        prefix = to_scope(scope)
        entries: list[SymbolEntry] = []
        start, more = 0, True
        data = _numbers(_SYMBOL_ATTRIBUTES)
        while more:
            path = (*prefix, Logical(LogicalKind.CLASS, SYMBOL_CLASS), logical(LogicalKind.INSTANCE, start))
            found = await self._ask(Request(LIST_INSTANCES, path, data))
            if not isinstance(found, Symbols) or (found.more and not found.entries):
                raise self._broken("reply-kind", type(found).__name__, "symbols")
            if len(entries) + len(found.entries) > SYMBOLS_MAX or (found.entries and found.entries[0].instance < start):
                raise self._broken("symbol-count", f"{len(entries)} and more", f"at most {SYMBOLS_MAX}, ascending")
            entries += found.entries
            more = found.more
            start = entries[-1].instance + 1 if entries else 0
        return tuple(entries)

    async def template(self, instance: int) -> Template:
        """The definition of a structure."""
        path = to_object(TEMPLATE_CLASS, instance)
        found = await self._ask(Request(GET_LIST, path, _numbers(TEMPLATE_ATTRIBUTES)))
        if not isinstance(found, Attributes):
            raise self._broken("reply-kind", type(found).__name__, "attributes of a template")
        attributes = decode_attributes(found.data)
        data = b""
        while len(data) < attributes.definition_bytes:
            size = min(_TEMPLATE_READ_BYTES, attributes.definition_bytes - len(data))
            ask = len(data).to_bytes(4, "little") + size.to_bytes(2, "little")
            part = await self._ask(Request(READ_TEMPLATE, path, ask))
            if not isinstance(part, TemplatePart) or not part.data or len(data) + len(part.data) > TEMPLATE_BYTES_MAX:
                raise self._broken("reply-kind", type(part).__name__, "a part of a template")
            data += part.data
        return decode_template(data, attributes)

    async def read(self, tag: str, elements: int = 1) -> TagValues | StructureData:
        """Elements of a tag, in fragments where one reply does not hold them."""
        path = to_tag(tag)
        found = await self._ask(Request(READ_TAG, path, elements.to_bytes(2, "little")))
        if isinstance(found, TagValues | StructureData):
            return found if not found.more else await self._fragments(path, elements)
        raise self._broken("reply-kind", type(found).__name__, "values of a tag")

    async def _fragments(self, path: Path, elements: int) -> TagValues | StructureData:
        values: list[Value] = []
        raw, kind, handle, offset, more = b"", "", None, 0, True
        while more:
            ask = elements.to_bytes(2, "little") + offset.to_bytes(4, "little")
            found = await self._ask(Request(READ_FRAGMENT, path, ask))
            if isinstance(found, StructureData) and found.data and handle in (None, found.handle) and not values:
                raw, handle, more = raw + found.data, found.handle, found.more
                offset = len(raw)
            elif isinstance(found, TagValues) and found.values and kind in ("", found.type) and not raw:
                values += found.values
                kind, more = found.type, found.more
                offset = len(values) * BY_NAME[kind].size
            else:
                raise self._broken("reply-kind", type(found).__name__, "the next fragment of the same type")
            if offset > TAG_BYTES_MAX:
                raise self._broken("tag-size", f"{offset} bytes", f"at most {TAG_BYTES_MAX}")
        if handle is not None:
            return StructureData(handle, raw)
        if len(values) != elements:
            raise self._broken("elements", str(len(values)), str(elements))
        return TagValues(kind, tuple(values))

    async def read_many(self, tags: tuple[str, ...]) -> tuple[Said, ...]:
        """One element of each tag in one multiple service packet: TagValues, StructureData or Refused each."""
        one = (1).to_bytes(2, "little")
        requests = tuple(Request(READ_TAG, to_tag(tag), one) for tag in tags)
        found = await self._ask(Request(MULTIPLE, to_object(ROUTER_CLASS, 1), join(requests)))
        if not isinstance(found, Replies):
            raise self._broken("reply-kind", type(found).__name__, "one answer for each tag")
        answers: tuple[Answer, ...] = found.items
        return tuple(answer.said for answer in answers)

    async def write(self, tag: str, kind: str, value: Value) -> None:
        """Write one element of an elementary tag and read it back. Raises ``type-unknown``, ``read-back``."""
        known = BY_NAME.get(kind)
        if known is None:
            raise CipError("type-unknown", found=kind, expected="an elementary type")
        data = known.code.to_bytes(2, "little") + (1).to_bytes(2, "little") + encode_value(known, value)
        await self._ask(Request(WRITE_TAG, to_tag(tag), data))
        back = await self.read(tag)
        same = isinstance(back, TagValues) and back.type == kind
        if not same or encode_value(known, back.values[0]) != encode_value(known, value):  # type: ignore[union-attr]
            raise CipError("read-back", found=str(back)[:80], expected=f"{value!r} of {kind}")

    async def put(self, writes: tuple[tuple[str, str, Value], ...]) -> None:
        """Write (tag, type, value) each in one multiple service packet, without reading back: whoever calls it does.

        Services of a packet run one after the other; one that is refused does not hold up the next. Raises
        ``type-unknown`` and those of values before anything is sent, ``status-NN`` for the first that was refused.
        """
        requests = []
        for tag, kind, value in writes:
            known = BY_NAME.get(kind)
            if known is None:
                raise CipError("type-unknown", found=kind, expected="an elementary type")
            data = known.code.to_bytes(2, "little") + (1).to_bytes(2, "little") + encode_value(known, value)
            requests.append(Request(WRITE_TAG, to_tag(tag), data))
        if len(requests) == 1:
            await self._ask(requests[0])
            return
        found = await self._ask(Request(MULTIPLE, to_object(ROUTER_CLASS, 1), join(tuple(requests))))
        if not isinstance(found, Replies):
            raise self._broken("reply-kind", type(found).__name__, "one answer for each tag")
        for (tag, _, _), answer in zip(writes, found.items, strict=True):
            if isinstance(answer.said, Refused):
                raise CipError(
                    f"status-{answer.said.status:02x}", found=f"{answer.said.meaning} ({tag})", expected="success"
                )

    async def changes(self) -> bytes | None:
        """What differs after a download or an online change of tags; None where the controller does not tell."""
        path = to_object(_CHANGES_CLASS, 1)
        try:
            found = await self._ask(Request(GET_LIST, path, _numbers(_CHANGES_ATTRIBUTES)))
        except CipError as error:
            if error.code.startswith("status-"):
                return None
            raise
        return found.data if isinstance(found, Attributes) else None

    async def _ask(self, request: Request) -> Said:
        """What the controller says; raises ``status-NN`` for a refusal."""
        sent = request
        if self._route:
            data = unconnected_send(Send(_TICK, _TICKS, request, self._route))
            sent = Request(UNCONNECTED_SEND, to_object(CONNECTION_MANAGER, 1), data)
        context = self._context()
        telegram = enip.Telegram(enip.SEND_RR_DATA, enip.Unconnected(sent), self._session, 0, context)
        answer = await self._exchange(telegram)
        if answer.context != context or answer.command != enip.SEND_RR_DATA or answer.session != self._session:
            raise self._broken("reply-unmatched", answer.context.hex(), context.hex())
        if answer.status or not isinstance(answer.body, enip.Unconnected):
            raise self._broken("encapsulation", enip.status_text(answer.status), "success")
        message = answer.body.message
        if not isinstance(message, Reply):
            raise self._broken("reply-unmatched", "a request", "a reply")
        try:
            found = said(sent, message)
        except CipError:
            self._link.abort()
            raise
        if isinstance(found, Refused):
            raise CipError(f"status-{found.status:02x}", found=found.meaning, expected="success")
        return found

    def _context(self) -> bytes:
        self._count += 1
        return self._count.to_bytes(8, "little")

    async def _exchange(self, telegram: enip.Telegram) -> enip.Telegram:
        data = await self._link.exchange(enip.encode(telegram))
        try:
            return enip.decode(data)
        except CipError:
            self._link.abort()
            raise

    def _broken(self, code: str, found: str, expected: str) -> CipError:
        """A peer that answers something else is not asked again on this connection."""
        self._link.abort()
        return CipError(code, found=found, expected=expected)


def _numbers(numbers: tuple[int, ...]) -> bytes:
    return len(numbers).to_bytes(2, "little") + b"".join(number.to_bytes(2, "little") for number in numbers)
