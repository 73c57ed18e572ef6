"""The request block of a PLC that is spoken to in its vendor's protocol: what it holds and why it cannot be torn.

::

    Request             written by the gate alone
      Slot[0], Slot[1]
        Number          32 bits   which write this slot belongs to
        Check           32 bits   Number with every bit turned over
        ValidMs         32 bits   how long the values are good, from the scan that takes them
        values                    REAL, LREAL, INT or DINT
      Sequence          32 bits   Number of the slot that counts; written alone, last
      AutoRequest                 AUTO wanted
    Applied             written by the PLC's program alone
      Sequence          32 bits   Number of the write whose values are applied
      AutoActive                  the block is in AUTO
      values

A write goes into the slot that ``Sequence`` does not name (the number's lowest bit is the slot, and numbers of writes
alternate), is acknowledged, and only then is ``Sequence`` written, in a request of its own. The program acts when

1. ``Sequence`` is another than the one it saw last,
2. ``Slot[Sequence AND 1]``, copied, has ``Number = Sequence`` and ``Check = NOT Sequence``, and
3. ``Sequence``, read again after the copy, is still the same.

Whatever bytes of whatever request a PLC has taken when its program looks: a slot that is being written is not the one
``Sequence`` names; a ``Sequence`` of which half the bytes are new names no slot with that Number; and a slot can only
be written again two writes later, after ``Sequence`` has changed, which rule 3 sees. ``Check`` keeps a block full of
zeros, after a download, from being a request. (Numbers are not a clock: a PLC compares them for equality only.)
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass

from sitsedge.config.gatefile import OutputLimit
from sitsedge.config.plc import INTEGER_BITS, PlcType
from sitsedge.gate.plc.port import PlcError

NUMBERS = 1 << 32
TOLERANCE_COUNTS = 0.25
"""How far the block's value may be from the command's, in counts of the module: read back it is still that count."""
VALID_MS_MAX = 0x7FFF_FFFF
"""A DINT holds it, and so does a TIME."""

_FLOATS = {"REAL": "<f", "LREAL": "<d"}

Raw = int | float


@dataclass(frozen=True, slots=True)
class Value:
    """One value of the block: names of its members (empty where devices are in a row), type, physical units a count.

    ``scale`` is None for REAL and LREAL; ``tolerance`` in physical units.
    """

    name: str
    node: str
    applied_node: str
    type: PlcType
    scale: float | None
    tolerance: float

    @classmethod
    def of(cls, output: OutputLimit, signal_scale: float) -> Value:
        """From the gate file; ``signal_scale``: physical units per count of the module's output."""
        assert output.plc_type is not None
        nodes = output.node or "", output.applied_node or ""
        return cls(output.name, *nodes, output.plc_type, output.plc_scale, signal_scale * TOLERANCE_COUNTS)

    def to_raw(self, value: float) -> Raw:
        """What the block will hold. Raises :class:`PlcError` ``plc-range``; NaN and the infinities are in no range."""
        if not math.isfinite(value):
            raise self._range(value, "a finite number")
        if self.scale is None:
            try:
                raw: Raw = struct.unpack(_FLOATS[self.type], struct.pack(_FLOATS[self.type], value))[0]
            except OverflowError:
                raise self._range(value, f"one that {self.type} holds") from None
        else:
            raw = round(value / self.scale)
            if not -(1 << INTEGER_BITS[self.type] - 1) <= raw < 1 << INTEGER_BITS[self.type] - 1:
                raise self._range(value, f"one that {self.type} holds at {self.scale:g} a count")
        if abs(self.to_physical(raw) - value) > self.tolerance:
            raise self._range(value, f"one that {self.type} holds within {self.tolerance:g}")
        return raw

    def to_physical(self, raw: Raw) -> float:
        """The physical value of what a block holds. Raises :class:`PlcError` ``plc-read`` for NaN and infinities."""
        if not math.isfinite(raw):
            raise PlcError("plc-read", found=f"{raw} for {self.name}", expected="a finite number")
        return float(raw) if self.scale is None else raw * self.scale

    def _range(self, value: float, expected: str) -> PlcError:
        return PlcError("plc-range", found=f"{value!r} for {self.name}", expected=expected)


@dataclass(frozen=True, slots=True)
class Slot:
    """One slot's content: unsigned 32-bit numbers, and raw values in output order."""

    number: int
    check: int
    valid_ms: int
    values: tuple[Raw, ...]

    @classmethod
    def of(cls, number: int, valid_ms: int, values: tuple[Raw, ...]) -> Slot:
        """A slot whose check is right."""
        return cls(number, number ^ (NUMBERS - 1), valid_ms, values)

    @classmethod
    def found(cls, head: Sequence[int], values: tuple[Raw, ...]) -> Slot:
        """A slot as a PLC holds it; ``head``: Number, Check, ValidMs."""
        number, check, valid_ms = head
        return cls(number, check, valid_ms, values)

    @property
    def index(self) -> int:
        """Which of the two slots it belongs into."""
        return self.number & 1


@dataclass(frozen=True, slots=True)
class Seen:
    """What one look at the block showed: what is applied, and ``Sequence`` and a slot of the request if asked for."""

    request: tuple[int, Slot] | None
    applied_number: int
    auto_active: bool
    values: tuple[Raw, ...]


def next_number(used: int, published: int) -> int:
    """Number of the next write: newer than both, and in the slot that ``published`` does not name.

    ``used``: the last number that this port wrote into a slot, whether or not it counted.
    """
    ahead = (used - published) % NUMBERS
    last = used if ahead < NUMBERS // 2 else published
    number = (last + 1) % NUMBERS
    return number if (number ^ published) & 1 else (number + 1) % NUMBERS
