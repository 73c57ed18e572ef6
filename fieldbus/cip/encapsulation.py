"""EtherNet/IP encapsulation and common packet format (CIP Networks Library, volume 2, chapter 2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from fieldbus.cip.errors import CipError
from fieldbus.cip.identity import ListedIdentity, decode_listed, encode_listed
from fieldbus.cip.limits import CPF_ITEMS_MAX, IDENTITIES_MAX
from fieldbus.cip.message import Reply, Request, decode_message, encode_message
from fieldbus.cursor import Cursor

HEADER_BYTES = 24
NOP, LIST_SERVICES, LIST_IDENTITY, LIST_INTERFACES = 0x00, 0x04, 0x63, 0x64
REGISTER, UNREGISTER, SEND_RR_DATA, SEND_UNIT_DATA = 0x65, 0x66, 0x6F, 0x70
_COMMANDS = (NOP, LIST_SERVICES, LIST_IDENTITY, LIST_INTERFACES, REGISTER, UNREGISTER, SEND_RR_DATA, SEND_UNIT_DATA)
_NULL, _IDENTITY, _CONNECTED_ADDRESS, _CONNECTED, _UNCONNECTED = 0x0000, 0x000C, 0x00A1, 0x00B1, 0x00B2
_SERVICES, _SOCKET_TO, _SOCKET_FROM = 0x0100, 0x8000, 0x8001
_PROTOCOL_VERSION = 1
_SOCKET_BYTES = 16


@dataclass(frozen=True, slots=True)
class Register:
    """Register session: protocol version 1, no options."""

    version: int = _PROTOCOL_VERSION


@dataclass(frozen=True, slots=True)
class Identities:
    """Answer to list identity."""

    items: tuple[ListedIdentity, ...]


@dataclass(frozen=True, slots=True)
class Service:
    """One answer to list services: version, capability flags (bit 5 TCP, bit 8 class 0/1 UDP), name."""

    version: int
    flags: int
    name: str


@dataclass(frozen=True, slots=True)
class Services:
    """Answer to list services."""

    items: tuple[Service, ...]


@dataclass(frozen=True, slots=True)
class Socket:
    """A socket address item (``to`` the target, else to the originator) as sent."""

    to: bool
    data: bytes


@dataclass(frozen=True, slots=True)
class Unconnected:
    """SendRRData: a message without connection. ``timeout_s`` is the target's, 0 for its default."""

    message: Request | Reply
    timeout_s: int = 0
    sockets: tuple[Socket, ...] = ()


@dataclass(frozen=True, slots=True)
class Connected:
    """SendUnitData: a message over the connection with this identifier."""

    connection: int
    sequence: int
    message: Request | Reply
    timeout_s: int = 0


Body: TypeAlias = Register | Identities | Services | Unconnected | Connected | None


@dataclass(frozen=True, slots=True)
class Telegram:
    """One encapsulated telegram. ``status`` is the encapsulation's own; with another than 0 there is no body."""

    command: int
    body: Body = None
    session: int = 0
    status: int = 0
    context: bytes = bytes(8)
    options: int = 0


_STATUS = {
    0x0001: "command not supported",
    0x0002: "out of memory",
    0x0003: "data wrong",
    0x0064: "session not known",
    0x0065: "length wrong",
    0x0069: "protocol version not supported",
}


def status_text(status: int) -> str:
    """Status of the encapsulation in words."""
    return _STATUS.get(status, f"encapsulation status {status:#x}")


def telegram_length(buffer: bytes) -> int | None:
    """Whole length of the telegram that ``buffer`` begins with, None if that needs more bytes.

    Raises CipError ``command`` for one that is not known: a stream out of step must not be read on.
    """
    if len(buffer) < 4:
        return None
    if (command := int.from_bytes(buffer[:2], "little")) not in _COMMANDS:
        raise CipError("command", found=f"{command:#06x}", expected="an encapsulation command", offset=0)
    return HEADER_BYTES + int.from_bytes(buffer[2:4], "little")


def decode(data: bytes) -> Telegram:
    """The telegram in ``data``. Raises CipError; its ``code`` names the rule."""
    length = telegram_length(data)
    if length != len(data):
        raise CipError("telegram-length", found=f"{len(data)} bytes", expected=str(length or HEADER_BYTES))
    cursor = Cursor(data, CipError, "little")
    command = cursor.u16("command")
    cursor.u16("length")
    session, status = cursor.u32("session"), cursor.u32("status")
    context, options = cursor.raw(8, "sender context"), cursor.u32("options")
    if options:
        raise CipError("options", found=f"{options:#x}", expected="0", offset=20)
    body = _body(command, cursor)
    cursor.done("telegram")
    return Telegram(command, body, session, status, context, options)


def _body(command: int, cursor: Cursor) -> Body:
    if command == REGISTER:
        if not cursor.left:
            return None
        version = cursor.u16("protocol version")
        cursor.expect(0, 2, "options", "session options")
        return Register(version)
    if command in (SEND_RR_DATA, SEND_UNIT_DATA) and cursor.left:
        cursor.expect(0, 4, "interface", "interface handle of CIP")
        timeout_s = cursor.u16("timeout")
        items = _items(cursor)
        return _connected(items, timeout_s) if command == SEND_UNIT_DATA else _unconnected(items, timeout_s)
    if command == LIST_IDENTITY and cursor.left:
        return Identities(tuple(decode_listed(data) for data in _all_of(_items(cursor), _IDENTITY)))
    if command == LIST_SERVICES and cursor.left:
        return Services(tuple(map(_service, _all_of(_items(cursor), _SERVICES))))
    if cursor.left:
        raise CipError("telegram-data", found=f"{cursor.left} bytes", expected=f"none with command {command:#04x}")
    return None


def _items(cursor: Cursor) -> list[tuple[int, bytes]]:
    count = cursor.u16("item count")
    if count > max(CPF_ITEMS_MAX, IDENTITIES_MAX):
        raise CipError("item-count", found=str(count), expected=f"at most {IDENTITIES_MAX}")
    return [(cursor.u16("item type"), cursor.raw(cursor.u16("item length"), "item")) for _ in range(count)]


def _all_of(items: list[tuple[int, bytes]], kind: int) -> list[bytes]:
    if any(found != kind for found, _ in items):
        raise CipError("item-type", found="another item", expected=f"items of type {kind:#06x}")
    return [data for _, data in items]


def _unconnected(items: list[tuple[int, bytes]], timeout_s: int) -> Unconnected:
    if [kind for kind, _ in items[:2]] != [_NULL, _UNCONNECTED] or items[0][1]:
        raise CipError("item-type", found=_types(items), expected="null address and unconnected data")
    sockets: list[Socket] = []
    for kind, data in items[2:]:
        if kind not in (_SOCKET_TO, _SOCKET_FROM) or len(data) != _SOCKET_BYTES or len(sockets) >= 2:
            raise CipError("item-type", found=_types(items), expected="at most two socket addresses more")
        sockets.append(Socket(kind == _SOCKET_TO, data))
    return Unconnected(decode_message(items[1][1]), timeout_s, tuple(sockets))


def _connected(items: list[tuple[int, bytes]], timeout_s: int) -> Connected:
    if [kind for kind, _ in items] != [_CONNECTED_ADDRESS, _CONNECTED] or len(items[0][1]) != 4:
        raise CipError("item-type", found=_types(items), expected="connected address and connected data")
    data = Cursor(items[1][1], CipError, "little")
    sequence = data.u16("sequence count")
    return Connected(int.from_bytes(items[0][1], "little"), sequence, decode_message(data.rest()), timeout_s)


def _types(items: list[tuple[int, bytes]]) -> str:
    return ", ".join(f"{kind:#06x}" for kind, _ in items[:4]) or "no items"


def _service(data: bytes) -> Service:
    cursor = Cursor(data, CipError, "little")
    version, flags = cursor.u16("version"), cursor.u16("capability flags")
    name = cursor.raw(16, "service name").rstrip(b"\0")
    cursor.done("service")
    if not name.isascii() or not name.decode("ascii").isprintable():
        raise CipError("service-name", found=name.hex(), expected="printable ASCII")
    return Service(version, flags, name.decode("ascii"))


def encode(telegram: Telegram) -> bytes:
    """Bytes of a telegram. Raises CipError ``value-range``, ``telegram-length`` and those of messages."""
    try:
        body = _encode_body(telegram.body)
        if len(body) > 0xFFFF or len(telegram.context) != 8:
            raise CipError("telegram-length", found=f"{len(body)} bytes", expected="at most 65535")
        head = b"".join(number.to_bytes(2, "little") for number in (telegram.command, len(body)))
        head += b"".join(number.to_bytes(4, "little") for number in (telegram.session, telegram.status))
        return head + telegram.context + telegram.options.to_bytes(4, "little") + body
    except OverflowError:
        raise CipError("value-range", found="a number", expected="one that fits its field") from None


def _encode_body(body: Body) -> bytes:
    match body:
        case None:
            return b""
        case Register():
            return body.version.to_bytes(2, "little") + bytes(2)
        case Identities():
            return _encode_items([(_IDENTITY, encode_listed(item)) for item in body.items])
        case Services():
            return _encode_items([(_SERVICES, _encode_service(item)) for item in body.items])
        case Unconnected():
            sockets = [(_SOCKET_TO if item.to else _SOCKET_FROM, item.data) for item in body.sockets]
            items = [(_NULL, b""), (_UNCONNECTED, encode_message(body.message)), *sockets]
        case Connected():
            data = body.sequence.to_bytes(2, "little") + encode_message(body.message)
            items = [(_CONNECTED_ADDRESS, body.connection.to_bytes(4, "little")), (_CONNECTED, data)]
    return bytes(4) + body.timeout_s.to_bytes(2, "little") + _encode_items(items)


def _encode_items(items: list[tuple[int, bytes]]) -> bytes:
    out = len(items).to_bytes(2, "little")
    for kind, data in items:
        out += kind.to_bytes(2, "little") + len(data).to_bytes(2, "little") + data
    return out


def _encode_service(item: Service) -> bytes:
    head = item.version.to_bytes(2, "little") + item.flags.to_bytes(2, "little")
    return head + item.name.encode("ascii", "replace")[:16].ljust(16, b"\0")
