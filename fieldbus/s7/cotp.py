"""TPKT (RFC 1006) and the class 0 part of COTP (ISO 8073 / RFC 905) that S7 uses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from fieldbus.cursor import Cursor
from fieldbus.s7.errors import S7Error
from fieldbus.s7.limits import TELEGRAM_BYTES_MAX, TSAP_BYTES_MAX

TPKT_BYTES = 4
_TPKT_VERSION = 3
_CR, _CC, _DR, _DT = 0xE0, 0xD0, 0x80, 0xF0
_SIZE, _CALLING, _CALLED = 0xC0, 0xC1, 0xC2
_SIZE_EXPONENTS = range(7, 14)
_LAST = 0x80


@dataclass(frozen=True, slots=True)
class Connect:
    """Connection request, or with ``confirm`` the confirmation. ``parameters`` keeps the sender's order:
    code (0xC0 TPDU size, 0xC1 calling, 0xC2 called transport selector) and bytes."""

    confirm: bool
    target_ref: int
    source_ref: int
    parameters: tuple[tuple[int, bytes], ...]

    def selector(self, *, called: bool) -> bytes | None:
        """The called or calling transport selector (TSAP), if sent."""
        wanted = _CALLED if called else _CALLING
        return next((value for code, value in self.parameters if code == wanted), None)


@dataclass(frozen=True, slots=True)
class Disconnect:
    """Disconnect request with its reason."""

    target_ref: int
    source_ref: int
    reason: int


@dataclass(frozen=True, slots=True)
class Data:
    """A data TPDU; ``last`` is its end-of-message mark."""

    payload: bytes
    number: int = 0
    last: bool = True


Tpdu: TypeAlias = Connect | Disconnect | Data


def telegram_length(buffer: bytes) -> int | None:
    """Whole length of the telegram that ``buffer`` begins with, None if that needs more bytes.

    Raises S7Error ``tpkt-version``, ``tpkt-length``.
    """
    if buffer and buffer[0] != _TPKT_VERSION:
        raise S7Error("tpkt-version", found=str(buffer[0]), expected="TPKT version 3", offset=0)
    if len(buffer) < TPKT_BYTES:
        return None
    length = int.from_bytes(buffer[2:4], "big")
    if not TPKT_BYTES + 3 <= length <= TELEGRAM_BYTES_MAX:
        raise S7Error("tpkt-length", found=str(length), expected=f"7 … {TELEGRAM_BYTES_MAX}", offset=2)
    return length


def decode_tpdu(data: bytes) -> Tpdu:
    """The TPDU of one telegram. Raises S7Error: ``tpkt-…``, ``truncated``, ``cotp-…``."""
    length = telegram_length(data)
    if length != len(data):
        found = f"{len(data)} bytes"
        raise S7Error("tpkt-length", found=found, expected=f"{length or TPKT_BYTES}", offset=min(2, len(data)))
    if data[1]:
        raise S7Error("tpkt-reserved", found=str(data[1]), expected="0", offset=1)
    cursor = Cursor(data, S7Error, "big")
    cursor.raw(TPKT_BYTES, "TPKT header")
    header_length = cursor.u8("COTP length")
    header = Cursor(cursor.raw(header_length, "COTP header"), S7Error, "big")
    kind = header.u8("TPDU code")
    if kind == _DT:
        mark = header.u8("TPDU number")
        header.done("data TPDU header")
        return Data(cursor.rest(), mark & 0x7F, bool(mark & _LAST))
    cursor.done("TPDU")
    if kind in (_CR, _CC):
        target_ref, source_ref = header.u16("reference"), header.u16("reference")
        if options := header.u8("class"):
            raise S7Error("cotp-class", found=f"{options:#04x}", expected="class 0 without options", offset=10)
        return Connect(kind == _CC, target_ref, source_ref, _parameters(header))
    if kind == _DR:
        return Disconnect(header.u16("reference"), header.u16("reference"), header.u8("reason"))
    raise S7Error("cotp-type", found=f"{kind:#04x}", expected="CR, CC, DR or DT", offset=5)


def _parameters(header: Cursor) -> tuple[tuple[int, bytes], ...]:
    found: dict[int, bytes] = {}
    while header.left:
        code, size = header.u8("parameter code"), header.u8("parameter length")
        value = header.raw(size, "parameter")
        if code in found:
            raise S7Error("cotp-parameter", found=f"{code:#04x} twice", expected="each parameter once")
        if code not in (_SIZE, _CALLING, _CALLED):
            raise S7Error("cotp-parameter", found=f"{code:#04x}", expected="TPDU size or transport selectors")
        if code == _SIZE and (size != 1 or value[0] not in _SIZE_EXPONENTS):
            raise S7Error("cotp-parameter", found=f"TPDU size {value.hex()}", expected="07 … 0d")
        if size > TSAP_BYTES_MAX:
            raise S7Error("cotp-parameter", found=f"{size} bytes", expected=f"at most {TSAP_BYTES_MAX}")
        found[code] = value
    return tuple(found.items())


def encode_tpdu(tpdu: Tpdu) -> bytes:
    """The telegram of a TPDU. Raises S7Error ``tpkt-length`` where it does not fit."""
    if isinstance(tpdu, Data):
        header = bytes((_DT, tpdu.number & 0x7F | (_LAST if tpdu.last else 0)))
        payload = tpdu.payload
    elif isinstance(tpdu, Disconnect):
        header = bytes((_DR,)) + _references(tpdu.target_ref, tpdu.source_ref) + bytes((tpdu.reason,))
        payload = b""
    else:
        header = bytes((_CC if tpdu.confirm else _CR,)) + _references(tpdu.target_ref, tpdu.source_ref) + b"\0"
        header += b"".join(bytes((code, len(value))) + value for code, value in tpdu.parameters)
        payload = b""
    length = TPKT_BYTES + 1 + len(header) + len(payload)
    if length > TELEGRAM_BYTES_MAX or len(header) > 254:
        raise S7Error("tpkt-length", found=str(length), expected=f"at most {TELEGRAM_BYTES_MAX}")
    return bytes((_TPKT_VERSION, 0)) + length.to_bytes(2, "big") + bytes((len(header),)) + header + payload


def _references(target: int, source: int) -> bytes:
    return target.to_bytes(2, "big") + source.to_bytes(2, "big")
