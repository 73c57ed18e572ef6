"""Bounded reading of integers and bytes in one byte order: no read ever passes the end of its data."""

from __future__ import annotations

from typing import Literal

from fieldbus.errors import FieldbusError


class WireError(FieldbusError):
    """Bytes that break a rule of their protocol. ``offset`` is where, or ``None`` where no byte is to blame."""

    def __init__(self, code: str, *, found: str, expected: str, hint: str = "", offset: int | None = None) -> None:
        super().__init__(code, found=found, expected=expected, hint=hint)
        self.offset = offset

    def __str__(self) -> str:
        text = super().__str__()
        return text if self.offset is None else f"{text} at byte {self.offset}"


class Cursor:
    """A position in ``data``. Every read past the end raises ``error`` with the code ``truncated``."""

    __slots__ = ("data", "error", "order", "pos")

    def __init__(self, data: bytes, error: type[WireError], order: Literal["little", "big"]) -> None:
        self.data = data
        self.error = error
        self.order = order
        self.pos = 0

    @property
    def left(self) -> int:
        """Bytes not read yet."""
        return len(self.data) - self.pos

    def raw(self, size: int, what: str) -> bytes:
        start = self.pos
        if size > len(self.data) - start:
            raise self.error("truncated", found=f"{self.left} bytes", expected=f"{size} for {what}", offset=start)
        self.pos = start + size
        return self.data[start : self.pos]

    def uint(self, size: int, what: str) -> int:
        return int.from_bytes(self.raw(size, what), self.order)

    def sint(self, size: int, what: str) -> int:
        return int.from_bytes(self.raw(size, what), self.order, signed=True)

    def u8(self, what: str) -> int:
        return self.uint(1, what)

    def u16(self, what: str) -> int:
        return self.uint(2, what)

    def u32(self, what: str) -> int:
        return self.uint(4, what)

    def u64(self, what: str) -> int:
        return self.uint(8, what)

    def rest(self) -> bytes:
        """Everything that is left."""
        start, self.pos = self.pos, len(self.data)
        return self.data[start:]

    def done(self, what: str) -> None:
        """Raises ``trailing-bytes`` where anything is left."""
        if self.left:
            raise self.error(
                "trailing-bytes", found=f"{self.left} more", expected=f"the end of {what}", offset=self.pos
            )

    def expect(self, value: int, size: int, code: str, what: str) -> None:
        """The next ``size`` bytes are ``value``; raises ``code`` otherwise."""
        at = self.pos
        found = self.uint(size, what)
        if found != value:
            raise self.error(code, found=f"{found:#x}", expected=f"{value:#x} ({what})", offset=at)
