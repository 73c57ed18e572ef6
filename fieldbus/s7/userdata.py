"""User data telegrams (ROSCTR 7): system state lists and the CPU's clock."""

from __future__ import annotations

from fieldbus.cursor import Cursor
from fieldbus.s7.errors import S7Error
from fieldbus.s7.model import (
    BlockInfo,
    ClockReply,
    ClockRequest,
    NextPart,
    NoData,
    SzlPart,
    SzlRequest,
    Transport,
    UserBody,
    UserData,
)

BLOCKS, CPU, TIME = 3, 4, 7
READ_SZL, READ_CLOCK = 1, 1
_BLOCK_FUNCTIONS = (1, 2, 3)  # list all, list of a type, describe one
_HEAD = 0x000112
_REQUEST, _REPLY = 0x11, 0x12
_REQUEST_TYPE, _REPLY_TYPE = 4, 8
_OK = 0xFF
_CLOCK_BYTES = 10
_EMPTY = 0x0A  # return code of a request without data


def decode(reference: int, parameter: Cursor, payload: Cursor) -> UserData:
    """The telegram of both blocks. Raises S7Error ``userdata-…``, ``function``, ``transport-size``."""
    parameter.expect(_HEAD, 3, "userdata-head", "user data head")
    size = parameter.u8("length")
    method, groups = parameter.u8("method"), parameter.u8("type and group")
    function, sequence = parameter.u8("function"), parameter.u8("sequence")
    kind, group = groups >> 4, groups & 15
    if (size, kind) not in ((4, _REQUEST_TYPE), (8, _REQUEST_TYPE), (8, _REPLY_TYPE)):
        raise S7Error("userdata-type", found=f"type {kind}, length {size}", expected="a request or an answer")
    if method != (_REQUEST if size == 4 else _REPLY):
        raise S7Error("userdata-method", found=f"{method:#04x}", expected="0x11 with 4 bytes, 0x12 with 8")
    unit = more = error = 0
    if size == 8:
        unit, more = parameter.u8("data unit"), parameter.u8("last data unit")
        error = parameter.u16("error")
    parameter.done("user data parameters")
    if more > 1:
        raise S7Error("userdata-more", found=str(more), expected="0 or 1")
    body = _body(payload, reply=kind == _REPLY_TYPE, follow=size == 8, key=(group, function))
    payload.done("user data")
    return UserData(reference, kind == _REPLY_TYPE, group, function, sequence, body, unit, bool(more), error)


def _body(payload: Cursor, *, reply: bool, follow: bool, key: tuple[int, int]) -> UserBody:
    blocks = key[0] == BLOCKS and key[1] in _BLOCK_FUNCTIONS
    if not blocks and key not in ((CPU, READ_SZL), (TIME, READ_CLOCK)):
        raise S7Error("function", found=f"user data {key[0]}/{key[1]}", expected="read SZL or read clock")
    code, kind, size = payload.u8("return code"), payload.u8("transport size"), payload.u16("data length")
    if kind not in (Transport.NULL, Transport.OCTETS):
        raise S7Error("transport-size", found=f"{kind:#04x}", expected="0 or 9 in user data")
    data = payload.raw(size, "user data")
    if code != _OK or (reply and not data):
        if data:
            raise S7Error("userdata-code", found=f"{code:#04x} with data", expected="0xff before data")
        if reply or kind:
            return NoData(code, Transport(kind))
        if code != _EMPTY:
            raise S7Error("userdata-code", found=f"{code:#04x}", expected="0x0a in a request without data")
        return NextPart() if follow else _without_data(key)
    if blocks:
        return BlockInfo(data)
    if key == (TIME, READ_CLOCK):
        if not reply or len(data) != _CLOCK_BYTES:
            raise S7Error("clock-length", found=f"{len(data)} bytes", expected=f"{_CLOCK_BYTES} in an answer")
        return ClockReply(data)
    if reply:
        return SzlPart(data)
    if len(data) != 4:
        raise S7Error("szl-request", found=f"{len(data)} bytes", expected="4: id and index")
    return SzlRequest(int.from_bytes(data[:2], "big"), int.from_bytes(data[2:], "big"))


def _without_data(key: tuple[int, int]) -> UserBody:
    if key == (CPU, READ_SZL):
        raise S7Error("szl-request", found="no data", expected="id and index")
    return ClockRequest() if key == (TIME, READ_CLOCK) else BlockInfo(b"")


def encode(telegram: UserData) -> tuple[bytes, bytes]:
    """Parameter and data block."""
    follow = telegram.reply or isinstance(telegram.body, NextPart)
    kind = _REPLY_TYPE if telegram.reply else _REQUEST_TYPE
    parameter = _HEAD.to_bytes(3, "big") + bytes((8 if follow else 4, _REPLY if follow else _REQUEST))
    parameter += bytes((kind << 4 | telegram.group, telegram.function, telegram.sequence))
    if follow:
        parameter += bytes((telegram.unit, telegram.more)) + telegram.error.to_bytes(2, "big")
    return parameter, _encode_body(telegram.body)


def _encode_body(body: UserBody) -> bytes:
    match body:
        case SzlRequest():
            data = body.szl_id.to_bytes(2, "big") + body.index.to_bytes(2, "big")
        case SzlPart() | ClockReply() | BlockInfo() if body.data:
            data = body.data
        case NoData():
            return bytes((body.code, body.transport, 0, 0))
        case _:
            return bytes((_EMPTY, Transport.NULL, 0, 0))
    return bytes((_OK, Transport.OCTETS)) + len(data).to_bytes(2, "big") + data
