"""Values of S7 data types between bytes (big-endian) and Python."""

from __future__ import annotations

import datetime as dt
import math
import struct
from dataclasses import dataclass
from enum import StrEnum

from fieldbus.s7 import times
from fieldbus.s7.errors import S7Error
from fieldbus.sample import TagValue

STRING_CHARACTERS_MAX = 254
WSTRING_CHARACTERS_MAX = 16_382


class DataType(StrEnum):
    """Elementary types as TIA Portal names them."""

    BOOL = "Bool"
    BYTE = "Byte"
    WORD = "Word"
    DWORD = "DWord"
    LWORD = "LWord"
    CHAR = "Char"
    WCHAR = "WChar"
    SINT = "SInt"
    USINT = "USInt"
    INT = "Int"
    UINT = "UInt"
    DINT = "DInt"
    UDINT = "UDInt"
    LINT = "LInt"
    ULINT = "ULInt"
    REAL = "Real"
    LREAL = "LReal"
    TIME = "Time"
    LTIME = "LTime"
    S5TIME = "S5Time"
    DATE = "Date"
    TIME_OF_DAY = "Time_Of_Day"
    LTIME_OF_DAY = "LTime_Of_Day"
    DATE_AND_TIME = "Date_And_Time"
    LDT = "LDT"
    DTL = "DTL"
    STRING = "String"
    WSTRING = "WString"


_STRUCTS = {
    DataType.BYTE: ">B",
    DataType.WORD: ">H",
    DataType.DWORD: ">I",
    DataType.LWORD: ">Q",
    DataType.SINT: ">b",
    DataType.USINT: ">B",
    DataType.INT: ">h",
    DataType.UINT: ">H",
    DataType.DINT: ">i",
    DataType.UDINT: ">I",
    DataType.LINT: ">q",
    DataType.ULINT: ">Q",
    DataType.REAL: ">f",
    DataType.LREAL: ">d",
    DataType.TIME: ">i",
    DataType.LTIME: ">q",
}
_SIZES = {
    DataType.BOOL: 1,
    DataType.CHAR: 1,
    DataType.WCHAR: 2,
    DataType.S5TIME: 2,
    DataType.DATE: 2,
    DataType.TIME_OF_DAY: 4,
    DataType.LTIME_OF_DAY: 8,
    DataType.DATE_AND_TIME: 8,
    DataType.LDT: 8,
    DataType.DTL: 12,
}
_FLOATS = (DataType.REAL, DataType.LREAL)
_FLOAT32_MAX = 3.4028234663852886e38


@dataclass(frozen=True, slots=True)
class TypeSpec:
    """A type, and for STRING and WSTRING how many characters it has room for."""

    type: DataType
    characters: int = 0

    @property
    def size(self) -> int:
        """Bytes in a block with standard access (a BOOL shares its byte with seven others)."""
        if self.type is DataType.STRING:
            return 2 + self.characters
        if self.type is DataType.WSTRING:
            return 4 + 2 * self.characters
        code = _STRUCTS.get(self.type)
        return struct.calcsize(code) if code is not None else _SIZES[self.type]


def decode_value(spec: TypeSpec, data: bytes, *, bit: int = 0, clock: dt.tzinfo = dt.UTC) -> TagValue:
    """The value of ``data``, which has exactly the type's size.

    Times of day, durations are integers (ms; ns for the long types), DATE is ISO text, DATE_AND_TIME, DTL and LDT
    are Unix ns with ``clock`` as the CPU's time zone. A REAL that is NaN or infinite is given as it is. Raises S7Error
    ``data-length``, ``string-length``, ``character`` and those of times.
    """
    if len(data) != spec.size:
        raise S7Error("data-length", found=f"{len(data)} bytes", expected=f"{spec.size} of {spec.type}")
    if spec.type is DataType.BOOL:
        return bool(data[0] >> bit & 1)
    code = _STRUCTS.get(spec.type)
    if code is not None:
        value: int | float = struct.unpack(code, data)[0]
        return value
    match spec.type:
        case DataType.CHAR:
            return _latin(data)
        case DataType.WCHAR:
            return _utf16(data)
        case DataType.STRING:
            return _string(data)
        case DataType.WSTRING:
            return _wide_string(data)
        case DataType.DATE:
            return times.date_text(data)
        case DataType.S5TIME:
            return times.s5time_ms(data)
        case DataType.TIME_OF_DAY:
            return times.time_of_day_ms(data)
        case DataType.LTIME_OF_DAY:
            return times.ltime_of_day_ns(data)
        case DataType.DATE_AND_TIME:
            return times.date_and_time(data, clock)
        case DataType.LDT:
            return times.ldt(data)
        case _:
            return times.dtl(data, clock)


def decode_text_start(spec: TypeSpec, data: bytes) -> str:
    """The text of a STRING or WSTRING of which only the first bytes were read: a CPU's PDU may hold no more.

    Raises S7Error ``string-length`` where the text goes on behind ``data``, and as ``decode_value``.
    """
    if spec.type is DataType.WSTRING:
        return _wide_string(data, spec.characters)
    return _string(data, spec.characters)


def _string(data: bytes, characters: int | None = None) -> str:
    expected = len(data) - 2 if characters is None else characters
    room, length = data[0], data[1]
    if room != expected or length > min(room, len(data) - 2):
        raise S7Error("string-length", found=f"{length} of {room}", expected=f"at most {len(data) - 2} of {expected}")
    return _latin(data[2 : 2 + length])


def _wide_string(data: bytes, characters: int | None = None) -> str:
    expected = (len(data) - 4) // 2 if characters is None else characters
    room, length = int.from_bytes(data[:2], "big"), int.from_bytes(data[2:4], "big")
    if room != expected or length > min(room, (len(data) - 4) // 2):
        raise S7Error("string-length", found=f"{length} of {room}", expected=f"at most {(len(data) - 4) // 2}")
    return _utf16(data[4 : 4 + 2 * length])


def _latin(data: bytes) -> str:
    """CPUs keep Windows code pages; above ASCII they differ by project, so such characters are refused."""
    if not data.isascii():
        raise S7Error("character", found=data.hex(), expected="ASCII; the code page of others is not known")
    return data.decode("ascii")


def _utf16(data: bytes) -> str:
    try:
        return data.decode("utf-16-be")
    except UnicodeDecodeError:
        raise S7Error("character", found=data.hex(), expected="UTF-16") from None


def encode_value(spec: TypeSpec, value: TagValue, *, clock: dt.tzinfo = dt.UTC) -> bytes:
    """Bytes of a value that is exactly of the type; BOOL is one byte 0 or 1.

    Raises S7Error ``value-type``, ``value-range`` (NaN and infinity too) or those of times.
    """
    kind = spec.type
    if kind is DataType.BOOL:
        if not isinstance(value, bool):
            raise _wrong(spec, value)
        return bytes((value,))
    if kind in (DataType.STRING, DataType.WSTRING, DataType.CHAR, DataType.WCHAR):
        return _encode_text(spec, value)
    if kind in _FLOATS:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise _wrong(spec, value)
        number = float(value)
        if not math.isfinite(number) or (kind is DataType.REAL and abs(number) > _FLOAT32_MAX):
            raise S7Error("value-range", found=repr(value), expected=f"a finite {kind}")
        return struct.pack(_STRUCTS[kind], number)
    if isinstance(value, bool) or not isinstance(value, int):
        raise _wrong(spec, value)
    return _encode_integer(spec, value, clock)


def _encode_integer(spec: TypeSpec, value: int, clock: dt.tzinfo) -> bytes:
    match spec.type:
        case DataType.S5TIME:
            return times.to_s5time(value)
        case DataType.DATE_AND_TIME:
            return times.to_date_and_time(value, clock)
        case DataType.DTL:
            return times.to_dtl(value, clock)
        case DataType.DATE:
            raise _wrong(spec, value)
    signed = _STRUCTS.get(spec.type, ">q" if spec.type is DataType.LDT else ">Q")[1].islower()
    limits = (-(1 << 8 * spec.size - 1), (1 << 8 * spec.size - 1) - 1) if signed else (0, (1 << 8 * spec.size) - 1)
    if not limits[0] <= value <= limits[1]:
        raise S7Error("value-range", found=str(value), expected=f"{limits[0]} … {limits[1]} for {spec.type}")
    return value.to_bytes(spec.size, "big", signed=signed)


def _encode_text(spec: TypeSpec, value: TagValue) -> bytes:
    wide = spec.type in (DataType.WSTRING, DataType.WCHAR)
    if not isinstance(value, str):
        raise _wrong(spec, value)
    if not wide and not value.isascii():
        raise S7Error("character", found=repr(value), expected="ASCII")
    try:
        raw = value.encode("utf-16-be" if wide else "ascii")
    except UnicodeEncodeError:
        raise S7Error("character", found=repr(value), expected="text without lone surrogates") from None
    unit = 2 if wide else 1
    if spec.type in (DataType.CHAR, DataType.WCHAR):
        if len(raw) != unit:
            raise S7Error("value-range", found=f"{len(value)} characters", expected="1")
        return raw
    if len(raw) > unit * spec.characters:
        raise S7Error("value-range", found=f"{len(raw) // unit} characters", expected=f"at most {spec.characters}")
    head = spec.characters.to_bytes(unit, "big") + (len(raw) // unit).to_bytes(unit, "big")
    return (head + raw).ljust(spec.size, b"\0")


def _wrong(spec: TypeSpec, value: object) -> S7Error:
    return S7Error("value-type", found=type(value).__name__, expected=str(spec.type))
