"""Bounded reading of little-endian primitives: no read ever passes the end of its slice."""

from __future__ import annotations

from struct import Struct
from uuid import UUID

from fieldbus.uadp.errors import UadpError

_U16 = Struct("<H")
_U32 = Struct("<I")
_U64 = Struct("<Q")
_I32 = Struct("<i")
_I64 = Struct("<q")
_GUID_BYTES = 16


class Cursor:
    """A position in ``data`` that may not pass ``end``. Every method raises UadpError ``truncated`` there."""

    __slots__ = ("data", "end", "pos")

    def __init__(self, data: bytes, pos: int, end: int) -> None:
        assert 0 <= pos <= end <= len(data)
        self.data = data
        self.pos = pos
        self.end = end

    def take(self, size: int, what: str) -> int:
        """Offset of the next ``size`` bytes, which are consumed."""
        start = self.pos
        if size > self.end - start:
            raise UadpError(
                "truncated",
                found=f"{self.end - start} bytes left",
                expected=f"{size} for {what}",
                offset=start,
            )
        self.pos = start + size
        return start

    def u8(self, what: str) -> int:
        return self.data[self.take(1, what)]

    def u16(self, what: str) -> int:
        value: int = _U16.unpack_from(self.data, self.take(2, what))[0]
        return value

    def u32(self, what: str) -> int:
        value: int = _U32.unpack_from(self.data, self.take(4, what))[0]
        return value

    def u64(self, what: str) -> int:
        value: int = _U64.unpack_from(self.data, self.take(8, what))[0]
        return value

    def i32(self, what: str) -> int:
        value: int = _I32.unpack_from(self.data, self.take(4, what))[0]
        return value

    def i64(self, what: str) -> int:
        value: int = _I64.unpack_from(self.data, self.take(8, what))[0]
        return value

    def raw(self, size: int, what: str) -> bytes:
        start = self.take(size, what)
        return self.data[start : start + size]

    def guid(self, what: str) -> UUID:
        return UUID(bytes_le=self.raw(_GUID_BYTES, what))

    def rest(self) -> bytes:
        value = self.data[self.pos : self.end]
        self.pos = self.end
        return value

    def byte_string(self, maximum: int, what: str) -> bytes | None:
        """Int32 length and bytes; -1 is null. Raises ``length-negative`` or ``too-long``."""
        at = self.pos
        length = self.i32(f"length of {what}")
        if length == -1:
            return None
        if length < 0:
            raise UadpError("length-negative", found=str(length), expected="-1 or more", offset=at)
        if length > maximum:
            raise UadpError("too-long", found=f"{length} bytes", expected=f"at most {maximum} for {what}", offset=at)
        return self.raw(length, what)

    def string(self, maximum: int, what: str) -> str | None:
        """UTF-8 String; raises ``string-not-utf8`` besides the errors of ``byte_string``."""
        at = self.pos
        data = self.byte_string(maximum, what)
        if data is None:
            return None
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise UadpError(
                "string-not-utf8", found=f"byte {data[error.start]:#04x}", expected="UTF-8", offset=at
            ) from error
