"""The sums of one position with all weights in the code, and what kernels with tables (``tables``) share with them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from sitsedge.compiler.backends.wasm.code import VECTOR, Code, Place
from sitsedge.compiler.backends.wasm.layout import BLOCK, NEVER_ADDRESS, Region
from sitsedge.compiler.backends.wasm.plan import Plan
from sitsedge.compiler.reference import Ints

UNITS_A_PASS = 2
"""Units of eight outputs whose sums are kept in registers: four of the sixteen that x86 has, with the eight vectors of
weights that two words need, the words, a product and the ones."""

WORDS_AT_ONCE = 2
"""Words whose products are settled together (``Code.settled``); more weights at once would not fit the registers."""


@dataclass(frozen=True, slots=True)
class Unit:
    """Eight outputs: byte offsets (T,) of the words they read, weights (T, 8, lanes)."""

    offsets: Ints
    weights: Ints


@dataclass(frozen=True, slots=True)
class Requantise:
    """Per output, padded to whole units; ``clamps`` says whether any sum can fall below low, rise above high."""

    start: Ints
    shift: Ints
    low: Ints
    high: Ints
    clamps: tuple[bool, bool]


@dataclass(frozen=True, slots=True)
class Work:
    """One node ready to be emitted. ``lanes`` is 2 (int16) or 4 (int8); strides and pointers in bytes."""

    units: list[Unit]
    after: Requantise
    lanes: int
    source: int
    source_steps: tuple[int, int]
    counts: tuple[int, int]
    target: Region


def halves(unit: Unit) -> Ints:
    """(T, 2): whether a word has a weight for the first, the second four outputs."""
    return np.asarray(unit.weights.reshape(len(unit.offsets), 2, -1).any(axis=2))


class Dots:
    """What one node multiplies with: the instructions of ``total + weights · word`` for four outputs.

    int8 products go through sums of two as int16 (``relaxed_dot``; exact, as 2 · 128 · 127 < 2^15) and a product with
    ones. The ones lie in a local, not in the code: as a constant every product would have a copy of its own.
    """

    def __init__(self, plan: Plan, code: Code, lanes: int) -> None:
        """Call outside loops: it emits what stays the same in all of them."""
        self._code = code
        self._lanes = lanes
        code.prepare_settled(Place(NEVER_ADDRESS))
        if lanes == 4:
            self._ones = code.v128_local()
            code.load_at(Place(plan.memory.data(np.ones(BLOCK, "<i2"))))
            code.local_set(self._ones)

    def add(self, *, total: Callable[[], None], weights: Callable[[], None], word: int) -> None:
        """Push the new sums; ``total`` and ``weights`` push theirs, local ``word`` has the word in all lanes."""
        code = self._code
        total()
        weights()
        # The second operand is the one that has to lie in 0 … 127.
        code.local_get(word)
        if self._lanes == 4:
            code.relaxed_dot()
            code.local_get(self._ones)
        code.dot_i16x8_s()
        code.add()


class Words:
    """Brings 32-bit words into all lanes of a local, four neighbours with one load."""

    def __init__(self, code: Code) -> None:
        self._code = code
        self._four = code.v128_local()
        self.locals = [code.v128_local() for _ in range(WORDS_AT_ONCE)]

    def four(self, address: Callable[[], None]) -> None:
        """Load four neighbouring words at the address that ``address`` pushes; outside what is settled."""
        address()
        self._code.load_here()
        self._code.local_set(self._four)

    def lane(self, word: int, lane: int) -> None:
        """Spread one of the four into ``locals[word]``."""
        self._code.splat_lane(self._four, lane)
        self._code.local_set(self.locals[word])

    def single(self, word: int, address: Callable[[], None]) -> None:
        """Load and spread one word."""
        address()
        self._code.load32_splat_here()
        self._code.local_set(self.locals[word])


def constants_kernel(plan: Plan, code: Code, work: Work) -> Callable[[Place, Place], None]:
    """The kernel of one position with all weights in the code."""
    sums = [code.v128_local() for _ in range(2 * min(UNITS_A_PASS, len(work.units)))]
    dots, words = Dots(plan, code, work.lanes), Words(code)

    def kernel(source: Place, target: Place) -> None:
        for first in range(0, len(work.units), UNITS_A_PASS):
            units = work.units[first : first + UNITS_A_PASS]
            used = sums[: 2 * len(units)]
            started: set[int] = set()

            def total(i: int, first: int = first, started: set[int] = started) -> None:
                """Push sum ``i``: its start value the first time."""
                if i in started:
                    code.local_get(sums[i])
                else:
                    started.add(i)
                    code.const_i32x4(work.after.start[8 * first + 4 * i :][:4])

            def add(word: int, terms: list[tuple[int, Ints]], total: Callable[[int], None] = total) -> None:
                for i, weights in terms:
                    numbers = partial(_numbers, code, weights, work.lanes)
                    dots.add(total=partial(total, i), weights=numbers, word=words.locals[word])
                    code.local_set(sums[i])

            _constant_words(code, words, source, _by_offset(units), add)
            for i, local in enumerate(used):
                if i not in started:
                    total(i)
                    code.local_set(local)
            for i, local in enumerate(used):
                _finish_constant(code, local, work.after, 8 * first + 4 * i)
            for i in range(len(units)):
                place = target.moved((first + i) * BLOCK * work.target.width)
                store(code, place, work.target.width, (sums[2 * i], sums[2 * i + 1]))

    return kernel


_Terms = list[tuple[int, "Ints"]]


def _constant_words(
    code: Code,
    words: Words,
    source: Place,
    found: list[tuple[int, _Terms]],
    add: Callable[[int, _Terms], None],
) -> None:
    """``add`` for every word, a few at once; four neighbours are loaded together."""
    at = 0
    while at < len(found):
        offsets = [offset for offset, _ in found[at : at + 4]]
        together = offsets == [offsets[0] + 4 * i for i in range(4)]
        count = 4 if together else 1
        if together:
            words.four(partial(code.address, source.moved(offsets[0])))
        for first in range(0, count, WORDS_AT_ONCE):

            def settled(first: int = first, at: int = at, count: int = count, together: bool = together) -> None:
                for i in range(first, min(first + WORDS_AT_ONCE, count)):
                    offset, terms = found[at + i]
                    if together:
                        words.lane(i - first, i)
                    else:
                        words.single(i - first, partial(code.address, source.moved(offset)))
                    add(i - first, terms)

            code.settled(settled)
        at += count


def _by_offset(units: list[Unit]) -> list[tuple[int, list[tuple[int, Ints]]]]:
    """Every word some unit reads with a weight, with the sums it enters: (number of the sum, weights)."""
    found: dict[int, list[tuple[int, Ints]]] = {}
    for number, unit in enumerate(units):
        for term, half in np.argwhere(halves(unit)):
            weights = unit.weights[term, 4 * half : 4 * half + 4].reshape(-1)
            found.setdefault(int(unit.offsets[term]), []).append((2 * number + int(half), weights))
    return sorted(found.items())


def _numbers(code: Code, weights: Ints, lanes: int) -> None:
    numbers = (int(w) for w in weights)
    if lanes == 4:
        code.const_i8x16(numbers)
    else:
        code.const_i16x8(numbers)


def _finish_constant(code: Code, total: int, after: Requantise, first: int) -> None:
    at = slice(first, first + 4)
    shifts = after.shift[at]

    def mask(count: int) -> None:
        code.const_i32x4(0 if shift == count else -1 for shift in shifts)

    finish(
        code,
        total,
        counts=sorted({int(shift) for shift in shifts}),
        mask=mask,
        low=(lambda: code.const_i32x4(after.low[at])) if after.clamps[0] else None,
        high=(lambda: code.const_i32x4(after.high[at])) if after.clamps[1] else None,
    )


def finish(
    code: Code,
    total: int,
    *,
    counts: list[int],
    mask: Callable[[int], None],
    low: Callable[[], None] | None,
    high: Callable[[], None] | None,
) -> None:
    """Shift each lane by its own count and clamp: one shift per distinct count, merged by masks."""
    if counts == [0] and low is None and high is None:
        return
    code.local_get(total)
    if counts != [0]:
        code.shr_s(counts[0])
    for count in counts[1:]:
        code.local_get(total)
        code.shr_s(count)
        # bitselect takes the first operand where the mask is set.
        mask(count)
        code.bitselect()
    if low is not None:
        low()
        code.max_s()
    if high is not None:
        high()
        code.min_s()
    code.local_set(total)


def store(code: Code, target: Place, width: int, halves: tuple[int, int]) -> None:
    """Store two locals of four int32 as eight int16 (every real lane fits, proven) or as they are."""
    if width == 2:
        code.base(target)
        code.local_get(halves[0])
        code.local_get(halves[1])
        code.narrow_i32x4_s()
        code.store_at(target)
        return
    for i, half in enumerate(halves):
        code.base(target)
        code.local_get(half)
        code.store_at(target.moved(VECTOR * i))
