"""Proves that a WebAssembly module contains no floating-point type or instruction.

Every instruction is decoded with its immediates (WebAssembly Core 2.0, chapter 5; relaxed SIMD); what is not on
the integer list is refused, so an unknown encoding cannot hide one. Integer arithmetic is the same on every
machine, which is what lets a result be recomputed by an auditor.
"""

from __future__ import annotations

from sitsedge.compiler.errors import CompileError

_VALUE_TYPES = {0x7F, 0x7E, 0x7B, 0x70}
"""i32, i64, v128, funcref."""

_PLAIN = {
    0x00, 0x01, 0x05, 0x0B, 0x0F, 0x1A, 0x1B,
    *range(0x45, 0x5B), *range(0x67, 0x8B), 0xA7, 0xAC, 0xAD, *range(0xC0, 0xC5),
}  # fmt: skip
_ONE_INDEX = {0x0C, 0x0D, 0x10, *range(0x20, 0x25)}
_MEMORY = {0x28, 0x29, *range(0x2C, 0x38), *range(0x3A, 0x3F)}
_BLOCKS = {0x02, 0x03, 0x04}
_BULK = {8: 2, 9: 1, 10: 2, 11: 1}
"""memory.init, data.drop, memory.copy, memory.fill → number of indices."""

_SIMD_MEMORY = {*range(0x0C), 0x5C, 0x5D}
_SIMD_LANE_MEMORY = set(range(0x54, 0x5C))
_SIMD_SIXTEEN_BYTES = {0x0C, 0x0D}
_SIMD_LANE = set(range(0x15, 0x1F))
_SIMD_FLOAT = {0x67, 0x68, 0x69, 0x6A, 0x74, 0x75, 0x7A, 0x94}
"""Rounding of f32x4 and f64x2, which lies between the integer instructions."""
_SIMD_PLAIN = {
    0x0E, *range(0x0F, 0x13), *range(0x23, 0x41), *range(0x4D, 0x54),
    *(set(range(0x60, 0xE0)) - _SIMD_FLOAT), 0x100, *range(0x109, 0x10D), 0x111, 0x112, 0x113,
}  # fmt: skip

BODY_LOCAL_GROUPS_MAX = 50_000


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def byte(self) -> int:
        if self.at >= len(self.data):
            raise _refuse("a truncated module")
        self.at += 1
        return self.data[self.at - 1]

    def number(self) -> int:
        """LEB128, at most ten bytes; the sign does not matter here."""
        value = 0
        for shift in range(0, 70, 7):
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise _refuse("a number of more than ten bytes")

    def take(self, count: int) -> bytes:
        if count > len(self.data) - self.at:
            raise _refuse("a truncated module")
        self.at += count
        return self.data[self.at - count : self.at]

    def value_type(self) -> None:
        kind = self.byte()
        if kind not in _VALUE_TYPES:
            raise _refuse(f"the value type {kind:#04x}")


def _refuse(found: str) -> CompileError:
    return CompileError(
        "wasm-float", found=found, expected="integer types and instructions only", hint="see wasm_modules/ABI.md"
    )


def require_integer_only(wasm: bytes) -> int:
    """Return the number of instructions; raises ``CompileError`` (``wasm-float``) at the first other one."""
    if wasm[:8] != b"\0asm\x01\x00\x00\x00":
        raise _refuse("bytes that are no WebAssembly 1 module")
    reader = _Reader(wasm)
    reader.at = 8
    instructions = 0
    while reader.at < len(wasm):
        number = reader.byte()
        body = _Reader(reader.take(reader.number()))
        if number == 1:
            _types(body)
        elif number == 6:
            instructions += _globals(body)
        elif number == 10:
            instructions += _functions(body)
    return instructions


def memory_pages(wasm: bytes) -> int:
    """Pages of 64 KiB that the module's own memory starts with; 0 without one. Raises ``CompileError`` when cut off."""
    reader = _Reader(wasm)
    reader.take(8)
    while reader.at < len(wasm):
        number = reader.byte()
        body = _Reader(reader.take(reader.number()))
        if number == 5 and body.number():
            body.number()  # whether there is a largest size
            return body.number()
    return 0


def _types(body: _Reader) -> None:
    for _ in range(body.number()):
        if body.byte() != 0x60:
            raise _refuse("a type that is no function")
        for _ in range(2):
            for _ in range(body.number()):
                body.value_type()


def _globals(body: _Reader) -> int:
    instructions = 0
    for _ in range(body.number()):
        body.value_type()
        body.byte()
        while True:
            instructions += 1
            if _instruction(body) == 0x0B:
                break
    return instructions


def _functions(body: _Reader) -> int:
    instructions = 0
    for _ in range(body.number()):
        code = _Reader(body.take(body.number()))
        groups = code.number()
        if groups > BODY_LOCAL_GROUPS_MAX:
            raise _refuse(f"{groups} groups of locals")
        for _ in range(groups):
            code.number()
            code.value_type()
        while code.at < len(code.data):
            _instruction(code)
            instructions += 1
    return instructions


def _instruction(code: _Reader) -> int:
    opcode = code.byte()
    if opcode in _PLAIN:
        pass
    elif opcode in _ONE_INDEX or opcode in (0x41, 0x42, 0x3F, 0x40):
        code.number()
    elif opcode in _MEMORY:
        code.number()
        code.number()
    elif opcode in _BLOCKS:
        _block_type(code)
    elif opcode == 0x0E:
        for _ in range(code.number() + 1):
            code.number()
    elif opcode == 0x11:
        code.number()
        code.number()
    elif opcode == 0xFC:
        sub = code.number()
        if sub not in _BULK:
            raise _refuse(f"the instruction 0xfc {sub:#x}")
        for _ in range(_BULK[sub]):
            code.number()
    elif opcode == 0xFD:
        _simd(code)
    else:
        raise _refuse(f"the instruction {opcode:#04x}")
    return opcode


def _block_type(code: _Reader) -> None:
    kind = code.data[code.at] if code.at < len(code.data) else 0
    if kind in (0x7D, 0x7C):
        raise _refuse(f"the block type {kind:#04x}")
    code.number()


def _simd(code: _Reader) -> None:
    sub = code.number()
    if sub in _SIMD_MEMORY or sub in _SIMD_LANE_MEMORY:
        code.number()
        code.number()
        if sub in _SIMD_LANE_MEMORY:
            code.byte()
    elif sub in _SIMD_SIXTEEN_BYTES:
        code.take(16)
    elif sub in _SIMD_LANE:
        code.byte()
    elif sub not in _SIMD_PLAIN:
        raise _refuse(f"the instruction 0xfd {sub:#x}")
