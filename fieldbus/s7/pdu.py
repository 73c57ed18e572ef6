"""Decoder and encoder of S7 telegrams: COTP connection, read and write var, setup, PLC stop and control.

The protocol has no public standard; block layouts are as its telegrams show and as every free implementation
reads them. Strict and total: any bytes give a Telegram or one S7Error, and a function that is not known here is
refused (``function``), never skipped.
"""

from __future__ import annotations

from fieldbus.cursor import Cursor
from fieldbus.s7 import userdata
from fieldbus.s7.cotp import Connect, Data, Disconnect, decode_tpdu, encode_tpdu
from fieldbus.s7.errors import S7Error
from fieldbus.s7.items import decode_data, decode_item, encode_data, encode_item
from fieldbus.s7.limits import ITEMS_MAX
from fieldbus.s7.model import (
    Ack,
    Body,
    DataItem,
    Item,
    Job,
    PlcControl,
    PlcStop,
    ReadReply,
    ReadRequest,
    Setup,
    Telegram,
    Transfer,
    UserData,
    WriteReply,
    WriteRequest,
)

PROTOCOL_ID = 0x32
JOB, ACK, ACK_DATA, USER_DATA = 1, 2, 3, 7
READ, WRITE, CONTROL, STOP, SETUP = 0x04, 0x05, 0x28, 0x29, 0xF0
TRANSFERS = range(0x1A, 0x20)
_STOP_FILL = bytes(5)
_CONTROL_FILL = bytes((0, 0, 0, 0, 0, 0, 0xFD))


def decode(data: bytes) -> Telegram:
    """The telegram in ``data`` (TPKT header included). Raises S7Error; its ``code`` names the rule."""
    tpdu = decode_tpdu(data)
    if not isinstance(tpdu, Data):
        return tpdu
    if not tpdu.last or tpdu.number:
        raise S7Error("cotp-fragment", found="a part of a message", expected="whole messages", offset=6)
    cursor = Cursor(tpdu.payload, S7Error, "big")
    cursor.expect(PROTOCOL_ID, 1, "protocol", "S7 protocol id")
    kind = cursor.u8("ROSCTR")
    cursor.expect(0, 2, "reserved", "redundancy identification")
    reference = cursor.u16("PDU reference")
    sizes = cursor.u16("parameter length"), cursor.u16("data length")
    if kind not in (JOB, ACK, ACK_DATA, USER_DATA):
        raise S7Error("rosctr", found=str(kind), expected="1, 2, 3 or 7", offset=8)
    error = cursor.u16("error class and code") if kind in (ACK, ACK_DATA) else 0
    parameter, payload = (Cursor(cursor.raw(size, "block"), S7Error, "big") for size in sizes)
    cursor.done("PDU")
    telegram: Telegram
    if kind == USER_DATA:
        return userdata.decode(reference, parameter, payload)
    if kind == JOB:
        telegram = Job(reference, _job(parameter, payload))
    else:
        telegram = Ack(reference, error, _ack(parameter, payload, error), kind == ACK)
    parameter.done("parameter block")
    payload.done("data block")
    return telegram


def _job(parameter: Cursor, payload: Cursor) -> Body:
    function = parameter.u8("function")
    if function == SETUP:
        return _setup(parameter)
    if function == READ:
        return ReadRequest(_items(parameter) if parameter.left else ())
    if function == WRITE:
        items = _items(parameter)
        data = _data_items(payload, len(items))
        for item in data:
            if item.code:
                raise S7Error("write-code", found=f"{item.code:#04x}", expected="0 before data that are written")
        return WriteRequest(items, data)
    if function == STOP:
        if parameter.raw(len(_STOP_FILL), "reserved bytes") != _STOP_FILL:
            raise S7Error("reserved", found="non-zero bytes", expected="zero bytes of PLC stop")
        return PlcStop(_service(parameter))
    if function == CONTROL:
        if parameter.raw(len(_CONTROL_FILL), "reserved bytes") != _CONTROL_FILL:
            raise S7Error("reserved", found="other bytes", expected="00000000 000000fd of PLC control")
        argument = parameter.raw(parameter.u16("argument length"), "argument")
        return PlcControl(argument, _service(parameter))
    if function in TRANSFERS:
        return Transfer(function, parameter.rest(), payload.rest())
    raise S7Error("function", found=f"{function:#04x}", expected="a function that is known here")


def _ack(parameter: Cursor, payload: Cursor, error: int) -> Body:
    if not parameter.left:
        return None
    function = parameter.u8("function")
    if function == SETUP:
        return _setup(parameter)
    if function == STOP:
        return PlcStop("")
    if function == CONTROL:
        return PlcControl(b"", "")
    if function in TRANSFERS:
        return Transfer(function, parameter.rest(), payload.rest())
    if function not in (READ, WRITE):
        raise S7Error("function", found=f"{function:#04x}", expected="a function that is known here")
    count = parameter.u8("item count")
    if error and not payload.left:
        count = 0
    if function == WRITE:
        return WriteReply(tuple(payload.u8("return code") for _ in range(_counted(count))))
    return ReadReply(_data_items(payload, count))


def _setup(parameter: Cursor) -> Setup:
    parameter.expect(0, 1, "reserved", "reserved byte of setup")
    return Setup(parameter.u16("jobs calling"), parameter.u16("jobs called"), parameter.u16("PDU length"))


def _service(parameter: Cursor) -> str:
    name = parameter.raw(parameter.u8("length of service"), "service")
    if not name.isascii() or not name.decode("ascii").isprintable():
        raise S7Error("service-name", found=name.hex(), expected="printable ASCII")
    return name.decode("ascii")


def _counted(count: int) -> int:
    if count > ITEMS_MAX:
        raise S7Error("item-count", found=str(count), expected=f"at most {ITEMS_MAX}")
    return count


def _items(parameter: Cursor) -> tuple[Item, ...]:
    count = parameter.u8("item count")
    if not count:
        raise S7Error("item-count", found="0", expected="at least 1")
    return tuple(decode_item(parameter) for _ in range(_counted(count)))


def _data_items(payload: Cursor, count: int) -> tuple[DataItem, ...]:
    return tuple(decode_data(payload, last=index == count - 1) for index in range(_counted(count)))


def encode(telegram: Telegram) -> bytes:
    """The bytes of ``telegram``. Raises S7Error for values that no telegram can carry (``value-range``)."""
    if isinstance(telegram, Connect | Disconnect):
        return encode_tpdu(telegram)
    try:
        return encode_tpdu(Data(_pdu(telegram)))
    except OverflowError:
        raise S7Error("value-range", found=f"a number in {type(telegram).__name__}", expected="one that fits") from None


def _pdu(telegram: Job | Ack | UserData) -> bytes:
    error = b""
    if isinstance(telegram, UserData):
        kind, (parameter, payload) = USER_DATA, userdata.encode(telegram)
    elif isinstance(telegram, Job):
        kind, (parameter, payload) = JOB, _encode_body(telegram.body, ack=False)
    else:
        kind, (parameter, payload) = ACK if telegram.short else ACK_DATA, _encode_body(telegram.body, ack=True)
        error = telegram.error.to_bytes(2, "big")
    head = bytes((PROTOCOL_ID, kind, 0, 0)) + telegram.reference.to_bytes(2, "big")
    return head + len(parameter).to_bytes(2, "big") + len(payload).to_bytes(2, "big") + error + parameter + payload


def _encode_body(body: Body, *, ack: bool) -> tuple[bytes, bytes]:
    match body:
        case None:
            return b"", b""
        case Setup():
            numbers = (body.jobs_calling, body.jobs_called, body.pdu_bytes)
            return bytes((SETUP, 0)) + b"".join(number.to_bytes(2, "big") for number in numbers), b""
        case ReadRequest():
            return _encode_items(READ, body.items) if body.items else bytes((READ,)), b""
        case ReadReply():
            return bytes((READ, _counted(len(body.items)))), encode_data(body.items)
        case WriteRequest():
            if len(body.items) != len(body.data):
                raise S7Error("item-count", found=f"{len(body.data)} data", expected=f"{len(body.items)}")
            return _encode_items(WRITE, body.items), encode_data(body.data)
        case WriteReply():
            return bytes((WRITE, _counted(len(body.codes)))), bytes(body.codes)
        case Transfer():
            return bytes((body.function,)) + body.parameter, body.data
        case PlcStop():
            return bytes((STOP,)) + (b"" if ack else _STOP_FILL + _name(body.service)), b""
        case PlcControl():
            if ack:
                return bytes((CONTROL,)), b""
            argument = len(body.argument).to_bytes(2, "big") + body.argument
            return bytes((CONTROL,)) + _CONTROL_FILL + argument + _name(body.service), b""


def _name(service: str) -> bytes:
    if not service.isascii() or len(service) > 255:
        raise S7Error("service-name", found=repr(service), expected="ASCII of at most 255 bytes")
    return bytes((len(service),)) + service.encode("ascii")


def _encode_items(function: int, items: tuple[Item, ...]) -> bytes:
    return bytes((function, _counted(len(items)))) + b"".join(map(encode_item, items))
