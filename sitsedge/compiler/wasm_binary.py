"""Writes WebAssembly binary modules: LEB128 numbers, sections, and the few instructions the emitter uses.

Source: WebAssembly Core Specification 2.0, chapter 5 (binary format), vector instructions included. Only
integer instructions exist here, so a float opcode cannot be emitted by mistake.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

MAGIC = b"\0asm\x01\x00\x00\x00"
I32 = 0x7F
V128 = 0x7B
EMPTY_BLOCK = 0x40


def unsigned(value: int) -> bytes:
    """LEB128 of a non-negative number."""
    assert value >= 0, "LEB128 here is unsigned"
    out = bytearray()
    while True:
        low, value = value & 0x7F, value >> 7
        if not value:
            out.append(low)
            return bytes(out)
        out.append(low | 0x80)


def signed(value: int) -> bytes:
    """Signed LEB128."""
    out = bytearray()
    while True:
        low, value = value & 0x7F, value >> 7
        if (value == 0 and not low & 0x40) or (value == -1 and low & 0x40):
            out.append(low)
            return bytes(out)
        out.append(low | 0x80)


def vector(items: Iterable[bytes]) -> bytes:
    """A vec: count, then the items."""
    listed = list(items)
    return unsigned(len(listed)) + b"".join(listed)


def section(number: int, body: bytes) -> bytes:
    """One section."""
    return bytes([number]) + unsigned(len(body)) + body


def name(text: str) -> bytes:
    """A name: byte count and UTF-8."""
    data = text.encode()
    return unsigned(len(data)) + data


class Code:
    """Instructions of one function body; ``body()`` adds the local declarations and the end."""

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._v128_locals = 0

    def v128_local(self) -> int:
        """Index of a new local of type v128 (functions here have no parameters)."""
        self._v128_locals += 1
        return self._v128_locals - 1

    def _simd(self, opcode: int, immediate: bytes = b"") -> None:
        self._bytes += b"\xfd" + unsigned(opcode) + immediate

    @staticmethod
    def _memarg(offset: int, align_log2: int) -> bytes:
        return unsigned(align_log2) + unsigned(offset)

    def i32_const(self, value: int) -> None:
        self._bytes += b"\x41" + signed(value)

    def local_get(self, index: int) -> None:
        self._bytes += b"\x20" + unsigned(index)

    def local_set(self, index: int) -> None:
        self._bytes += b"\x21" + unsigned(index)

    def call(self, index: int) -> None:
        self._bytes += b"\x10" + unsigned(index)

    def return_if(self, value: int) -> None:
        """Pop a condition; return ``value`` when it is not zero."""
        self._bytes += bytes([0x04, EMPTY_BLOCK])
        self.i32_const(value)
        self._bytes += b"\x0f\x0b"

    def load(self, address: int) -> None:
        """v128.load; the address is constant and 16-aligned."""
        self.i32_const(0)
        self._simd(0x00, self._memarg(address, 4))

    def load32_splat(self, address: int) -> None:
        self.i32_const(0)
        self._simd(0x09, self._memarg(address, 2))

    def store(self, address: int) -> None:
        self._simd(0x0B, self._memarg(address, 4))

    def const_i32x4(self, values: Iterable[int]) -> None:
        self._simd(0x0C, struct.pack("<4i", *values))

    def const_i16x8(self, values: Iterable[int]) -> None:
        self._simd(0x0C, struct.pack("<8h", *values))

    def lt_s(self) -> None:
        self._simd(0x39)

    def gt_s(self) -> None:
        self._simd(0x3B)

    def or_(self) -> None:
        self._simd(0x50)

    def bitselect(self) -> None:
        self._simd(0x52)

    def any_true(self) -> None:
        self._simd(0x53)

    def narrow_i32x4_s(self) -> None:
        self._simd(0x85)

    def shr_s(self, count: int) -> None:
        self.i32_const(count)
        self._simd(0xAC)

    def add(self) -> None:
        self._simd(0xAE)

    def min_s(self) -> None:
        self._simd(0xB6)

    def max_s(self) -> None:
        self._simd(0xB8)

    def dot_i16x8_s(self) -> None:
        self._simd(0xBA)

    def body(self) -> bytes:
        """The function body with its size, ready for the code section."""
        groups = [unsigned(self._v128_locals) + bytes([V128])] if self._v128_locals else []
        content = vector(groups) + bytes(self._bytes) + b"\x0b"
        return unsigned(len(content)) + content
