"""Where values lie in the module's memory, and the constants that lie beside them.

A value has its channels last: all channels of one position, padded to a multiple of eight, then the next position.
Two (four) neighbouring channels are then one 32-bit word, which is what the dot products read. Around a value that a
padded Conv reads lies a border that nothing ever writes: memory begins as zeros, and zero is what such padding adds.
No two values share memory, so the border stays zero from call to call.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from sitsedge.compiler.errors import CompileError
from sitsedge.compiler.graph.integer_values import Pads, Shape, planes
from sitsedge.compiler.reference import Ints

BASE_ADDRESS = 64
"""First byte used; address 0 stays free so that a zeroed pointer is never a valid buffer."""

NEVER_ADDRESS = 0
"""Four zero bytes that nothing writes: the condition of branches that are never taken (``Code.settled``)."""

PAGE = 65536
MEMORY_BYTES_MAX = 1 << 30
"""The sandbox gives no guest more."""

BLOCK = 8
"""Channels are padded to this many: one v128 of int16."""

NO_PADS: Pads = (0, 0, 0, 0)


def round_up(count: int, multiple: int) -> int:
    """The next multiple."""
    return -(-count // multiple) * multiple


@dataclass(frozen=True, slots=True)
class Region:
    """Memory of one value with channels last; ``width`` bytes each. ``row`` and ``pixel`` are strides in bytes."""

    start: int
    size: int
    channels: int
    height: int
    across: int
    width: int
    pads: Pads

    @property
    def blocks(self) -> int:
        """Blocks of eight channels at each position."""
        return round_up(self.channels, BLOCK) // BLOCK

    @property
    def pixel(self) -> int:
        return self.blocks * BLOCK * self.width

    @property
    def row(self) -> int:
        return (self.pads[1] + self.across + self.pads[3]) * self.pixel

    @property
    def base(self) -> int:
        """Address of the first element, inside the border."""
        return self.start + self.pads[0] * self.row + self.pads[1] * self.pixel

    def addresses(self) -> Ints:
        """Address of every element in row-major order of (C, H, W)."""
        c, y, x = (np.arange(count, dtype=np.int64) for count in (self.channels, self.height, self.across))
        grid = c[:, None, None] * self.width + y[:, None] * self.row + x * self.pixel
        return (self.base + grid).reshape(-1)


def dimensions(shape: Shape) -> tuple[int, int, int]:
    """(C, H, W) of any value; a flat one has a single position."""
    return (shape[0], 1, 1) if len(shape) == 1 else planes("", shape)


def region_bytes(shape: Shape, *, width: int, pads: Pads) -> int:
    """Bytes of a region, border included."""
    channels, height, across = dimensions(shape)
    return (
        (pads[0] + height + pads[2]) * (pads[1] + across + pads[3]) * round_up(channels, BLOCK) * width
    )  # fmt: skip


@dataclass(slots=True)
class Memory:
    """Hands out addresses; holds the data segments."""

    end: int = BASE_ADDRESS
    segments: list[tuple[int, bytes]] = field(default_factory=list)
    _known: dict[bytes, int] = field(default_factory=dict)

    def take(self, size: int) -> int:
        """Address of ``size`` fresh zero bytes, a multiple of 32; raises ``CompileError`` beyond the limit."""
        start = round_up(self.end, 32)
        if start + size > MEMORY_BYTES_MAX:
            raise CompileError(
                "wasm-memory",
                found=f"a module of more than {start + size} bytes of memory",
                expected=f"at most {MEMORY_BYTES_MAX}",
                hint="use a smaller input, or pooling earlier in the network",
            )
        self.end = start + size
        return start

    def region(self, shape: Shape, *, width: int = 2, pads: Pads = NO_PADS) -> Region:
        """Memory for a value."""
        size = round_up(region_bytes(shape, width=width, pads=pads), 32)
        return Region(self.take(size), size, *dimensions(shape), width, pads)

    def data(self, values: np.ndarray) -> int:
        """Address of constants (their bytes, little-endian); equal ones are stored once."""
        content = values.tobytes()
        if content not in self._known:
            self._known[content] = self.take(len(content))
            self.segments.append((self._known[content], content))
        return self._known[content]

    @property
    def pages(self) -> int:
        return round_up(self.end, PAGE) // PAGE
