"""Message router requests and replies (CIP Networks Library, volume 1, 2-4)."""

from __future__ import annotations

from dataclasses import dataclass

from fieldbus.cip.errors import CipError
from fieldbus.cip.path import Path, decode_path, encode_path
from fieldbus.cursor import Cursor

REPLY = 0x80


@dataclass(frozen=True, slots=True)
class Request:
    """A service for the object or tag of ``path``."""

    service: int
    path: Path
    data: bytes = b""


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to ``service``: general status (0 success, 6 partial transfer), extended status words, data."""

    service: int
    status: int = 0
    extended: tuple[int, ...] = ()
    data: bytes = b""


def decode_message(data: bytes) -> Request | Reply:
    """The message in ``data``; bit 7 of its first byte tells a reply. Raises CipError."""
    cursor = Cursor(data, CipError, "little")
    service = cursor.u8("service")
    if service & REPLY:
        cursor.expect(0, 1, "reserved", "reserved byte of a reply")
        status, words = cursor.u8("general status"), cursor.u8("size of extended status")
        extended = cursor.raw(2 * words, "extended status")
        values = (int.from_bytes(extended[at : at + 2], "little") for at in range(0, len(extended), 2))
        return Reply(service & ~REPLY, status, tuple(values), cursor.rest())
    path = decode_path(cursor.raw(2 * cursor.u8("size of path"), "path"))
    return Request(service, path, cursor.rest())


def encode_message(message: Request | Reply) -> bytes:
    """Bytes of a message. Raises CipError ``value-range`` and those of paths."""
    if not 0 <= message.service < REPLY:
        raise CipError("value-range", found=f"service {message.service}", expected="0 … 127")
    if isinstance(message, Request):
        path = encode_path(message.path)
        return bytes((message.service, len(path) // 2)) + path + message.data
    if len(message.extended) > 255 or not 0 <= message.status <= 255:
        raise CipError("value-range", found=f"status {message.status}", expected="one byte and at most 255 words")
    if not all(0 <= word <= 0xFFFF for word in message.extended):
        raise CipError("value-range", found="an extended status", expected="words of 16 bits")
    head = bytes((message.service | REPLY, 0, message.status, len(message.extended)))
    return head + b"".join(word.to_bytes(2, "little") for word in message.extended) + message.data
