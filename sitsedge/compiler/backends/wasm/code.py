"""Function bodies with addresses that are constants or loop pointers, so that one kernel serves unrolled and looped.

Source: WebAssembly Core Specification 2.0, chapter 5; relaxed SIMD proposal for ``relaxed_dot``.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from sitsedge.compiler import wasm_binary as wb

LANES = 4
VECTOR = 16
"""Bytes of a v128."""


@dataclass(frozen=True, slots=True)
class Place:
    """A byte address: ``offset`` from 0, or from what an i32 local holds. ``offset`` is never negative."""

    offset: int
    local: int | None = None

    def moved(self, count: int) -> Place:
        """The place ``count`` bytes on."""
        return Place(self.offset + count, self.local)


class Code(wb.Code):
    """One function without parameters."""

    def __init__(self) -> None:
        super().__init__()
        self._kinds: list[int] = []
        self._never: int | None = None

    def v128_local(self) -> int:
        """Index of a new v128 local."""
        self._kinds.append(wb.V128)
        return len(self._kinds) - 1

    def i32_local(self) -> int:
        """Index of a new i32 local."""
        self._kinds.append(wb.I32)
        return len(self._kinds) - 1

    def _plain(self, opcode: int) -> None:
        self._bytes.append(opcode)

    def _access(self, opcode: int, place: Place, align_log2: int) -> None:
        self._bytes += bytes([opcode]) + self._memarg(place.offset, align_log2)

    def base(self, place: Place) -> None:
        """Push what a following access at ``place`` adds its offset to."""
        if place.local is None:
            self.i32_const(0)
        else:
            self.local_get(place.local)

    def address(self, place: Place) -> None:
        """Push the whole address."""
        if place.local is None:
            self.i32_const(place.offset)
            return
        self.local_get(place.local)
        if place.offset:
            self.i32_const(place.offset)
            self.i32_add()

    # Scalars.

    def local_tee(self, index: int) -> None:
        self._bytes += b"\x22" + wb.unsigned(index)

    def i32_load(self, place: Place) -> None:
        self.base(place)
        self._access(0x28, place, 2)

    def i32_load16_s(self, place: Place) -> None:
        self.base(place)
        self._access(0x2E, place, 1)

    def i32_load_here(self) -> None:
        """i32.load at the address on the stack."""
        self._access(0x28, Place(0), 2)

    def i32_load16_s_here(self) -> None:
        """i32.load16_s at the address on the stack."""
        self._access(0x2E, Place(0), 1)

    def i32_store(self, place: Place) -> None:
        """Stores the top; ``base(place)`` lies below."""
        self._access(0x36, place, 2)

    def i32_store16(self, place: Place) -> None:
        self._access(0x3B, place, 1)

    def i32_gt_s(self) -> None:
        self._plain(0x4A)

    def i32_add(self) -> None:
        self._plain(0x6A)

    def i32_shl(self) -> None:
        self._plain(0x74)

    def select(self) -> None:
        self._plain(0x1B)

    # Vectors.

    def load_at(self, place: Place) -> None:
        self.base(place)
        self._simd(0x00, self._memarg(place.offset, 4))

    def load_here(self) -> None:
        """v128.load at the address on the stack."""
        self._simd(0x00, self._memarg(0, 4))

    def load32_splat_at(self, place: Place) -> None:
        self.base(place)
        self._simd(0x09, self._memarg(place.offset, 2))

    def load32_splat_here(self) -> None:
        """v128.load32_splat at the address on the stack."""
        self._simd(0x09, self._memarg(0, 2))

    def store_at(self, place: Place) -> None:
        """Stores the top; ``base(place)`` lies below."""
        self._simd(0x0B, self._memarg(place.offset, 4))

    def const_i8x16(self, values: Iterable[int]) -> None:
        self._simd(0x0C, struct.pack("<16b", *values))

    def narrow_i16x8_u(self) -> None:
        self._simd(0x66)

    def splat_lane(self, local: int, lane: int) -> None:
        """Push 32-bit lane ``lane`` of a v128 local in all lanes (i8x16.shuffle, one instruction on every machine)."""
        self.local_get(local)
        self.local_get(local)
        self._simd(0x0D, bytes(range(4 * lane, 4 * lane + 4)) * LANES)

    def sub_i16x8(self) -> None:
        self._simd(0x91)

    def max_s_i16x8(self) -> None:
        self._simd(0x98)

    def extend_low_i16x8_s(self) -> None:
        self._simd(0xA7)

    def extend_high_i16x8_s(self) -> None:
        self._simd(0xA8)

    def extmul_low_i16x8_s(self) -> None:
        """i32x4.extmul_low_i16x8_s: the lower four products of two i16x8."""
        self._simd(0xBC)

    def extmul_high_i16x8_s(self) -> None:
        self._simd(0xBD)

    def shl(self, count: int) -> None:
        self.i32_const(count)
        self._simd(0xAB)

    def mul(self) -> None:
        self._simd(0xB5)

    def relaxed_dot(self) -> None:
        """i16x8.relaxed_dot_i8x16_i7x16_s: (int8 ×16, 0..127 ×16) → int16 ×8, sums of two products."""
        self._simd(0x112)

    # Control.

    def prepare_settled(self, zero: Place) -> None:
        """Load what ``settled`` branches on: a word that is 0. Once a function, outside loops."""
        self._never = self.i32_local()
        self.i32_load(zero)
        self.local_set(self._never)

    def settled(self, body: Callable[[], None]) -> None:
        """Emit ``body`` so that the locals it sets are computed where it stands.

        Cranelift leaves loads in their order but moves arithmetic down to where a result is needed: of many loads and
        products in one block all loads come first and wait on the stack. A local with two possible values behind a
        block is needed at its end, so the body stands in a block that a branch could skip. It is never taken.
        """
        assert self._never is not None, "prepare_settled comes first"
        self._bytes += bytes([0x02, wb.EMPTY_BLOCK])
        self.local_get(self._never)
        self._bytes += b"\x0d\x00"
        body()
        self._bytes += b"\x0b"

    def repeat(
        self, count: int, places: tuple[tuple[Place, int], ...], body: Callable[..., None], *, unrolled: bool
    ) -> None:
        """Emit ``body(*places)`` for ``count`` ≥ 1 rounds, each place moving by its stride after every round."""
        if unrolled or count == 1:
            for i in range(count):
                body(*(place.moved(i * stride) for place, stride in places))
            return
        pointers = []
        for place, _ in places:
            pointers.append(self.i32_local())
            self.address(place)
            self.local_set(pointers[-1])
        left = self.i32_local()
        self.i32_const(count)
        self.local_set(left)
        self._bytes += bytes([0x03, wb.EMPTY_BLOCK])
        body(*(Place(0, pointer) for pointer in pointers))
        for pointer, (_, stride) in zip(pointers, places, strict=True):
            if stride:
                self.local_get(pointer)
                self.i32_const(stride)
                self.i32_add()
                self.local_set(pointer)
        self.local_get(left)
        self.i32_const(-1)
        self.i32_add()
        self.local_tee(left)
        self._bytes += b"\x0d\x00\x0b"

    def body(self) -> bytes:
        """The function body with its size, ready for the code section."""
        groups: list[tuple[int, int]] = []
        for kind in self._kinds:
            if groups and groups[-1][1] == kind:
                groups[-1] = (groups[-1][0] + 1, kind)
            else:
                groups.append((1, kind))
        content = wb.vector(wb.unsigned(count) + bytes([kind]) for count, kind in groups) + bytes(self._bytes) + b"\x0b"
        return wb.unsigned(len(content)) + content
