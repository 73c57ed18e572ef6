"""The two data codes of SLMP: numbers as little-endian bytes, or as hexadecimal characters, high digit first."""

from __future__ import annotations

from enum import StrEnum

from fieldbus.cursor import Cursor
from fieldbus.slmp.errors import SlmpError

_DIGITS = frozenset(b"0123456789ABCDEF")


class DataCode(StrEnum):
    """How a connection speaks; set in the module's parameters, the same for both directions."""

    BINARY = "binary"
    ASCII = "ascii"


class Reader:
    """Bounded reading in either code. Raises SlmpError ``truncated``, ``not-hexadecimal``, ``bit-value``."""

    __slots__ = ("_ascii", "_cursor")

    def __init__(self, data: bytes, code: DataCode) -> None:
        self._cursor = Cursor(data, SlmpError, "little")
        self._ascii = code is DataCode.ASCII

    @property
    def left(self) -> int:
        return self._cursor.left

    def uint(self, size: int, what: str) -> int:
        """An unsigned number of ``size`` bytes (twice as many characters)."""
        if not self._ascii:
            return self._cursor.uint(size, what)
        return _hexadecimal(self._cursor.raw(2 * size, what), what)

    def raw(self, size: int, what: str) -> bytes:
        """Bytes that are characters or opaque in both codes."""
        return self._cursor.raw(size, what)

    def rest(self) -> bytes:
        return self._cursor.rest()

    def bits(self, count: int, what: str) -> tuple[bool, ...]:
        """Points: a nibble each in binary (the second of the last byte unused if ``count`` is odd), else a digit."""
        if self._ascii:
            digits = self._cursor.raw(count, what)
            if not set(digits) <= set(b"01"):
                raise SlmpError("bit-value", found=repr(digits), expected="0 or 1 per point")
            return tuple(digit == ord("1") for digit in digits)
        packed = self._cursor.raw((count + 1) // 2, what)
        nibbles = [nibble for byte in packed for nibble in (byte >> 4, byte & 15)]
        if any(nibble > 1 for nibble in nibbles) or (count % 2 and nibbles[-1]):
            raise SlmpError("bit-value", found=packed.hex(), expected="0 or 1 per point")
        return tuple(nibble == 1 for nibble in nibbles[:count])

    def words(self, count: int, what: str, *, size: int = 2) -> tuple[int, ...]:
        """``count`` numbers of ``size`` bytes; all of them are there before the first is read."""
        width = size * (2 if self._ascii else 1)
        if self.left < count * width:
            raise SlmpError("truncated", found=f"{self.left} bytes", expected=f"{count * width} for {what}")
        return tuple(self.uint(size, what) for _ in range(count))

    def done(self, what: str) -> None:
        self._cursor.done(what)


class Writer:
    """Builds data in either code. Raises SlmpError ``value-range``."""

    __slots__ = ("_ascii", "out")

    def __init__(self, code: DataCode) -> None:
        self.out = bytearray()
        self._ascii = code is DataCode.ASCII

    def uint(self, value: int, size: int) -> None:
        if not 0 <= value < 1 << 8 * size:
            raise SlmpError("value-range", found=str(value), expected=f"{size} bytes without sign")
        self.out += f"{value:0{2 * size}X}".encode("ascii") if self._ascii else value.to_bytes(size, "little")

    def raw(self, data: bytes) -> None:
        self.out += data

    def bits(self, values: tuple[bool, ...]) -> None:
        if self._ascii:
            self.out += b"".join(b"1" if value else b"0" for value in values)
            return
        padded = (*values, False) if len(values) % 2 else values
        self.out += bytes(padded[at] << 4 | padded[at + 1] for at in range(0, len(padded), 2))


def _hexadecimal(digits: bytes, what: str) -> int:
    if not _DIGITS.issuperset(digits):
        raise SlmpError("not-hexadecimal", found=repr(digits), expected=f"digits 0-9, A-F for {what}")
    return int(digits, 16)
