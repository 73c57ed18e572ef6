"""The sums of one position: with all weights in the code, or with weights, offsets and constants in tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from sitsedge.compiler.backends.wasm.code import VECTOR, Code, Place
from sitsedge.compiler.backends.wasm.layout import BLOCK, Region, round_up
from sitsedge.compiler.backends.wasm.plan import Plan
from sitsedge.compiler.reference import Ints

UNITS_A_PASS = 4
"""Units of eight outputs whose sums are kept in registers: eight of the sixteen that x86 has."""

ROUNDS = (8, 4)
"""Words per round of a loop over a table: the longer round where it does not add many spare words."""


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


def constants_kernel(code: Code, work: Work) -> Callable[[Place, Place], None]:
    """The kernel of one position with all weights in the code."""
    sums = [code.v128_local() for _ in range(2 * min(UNITS_A_PASS, len(work.units)))]
    word = code.v128_local()

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

            for offset, terms in _by_offset(units):
                loaded = False
                for i, weights in terms:
                    _dot(
                        code,
                        total=partial(total, i),
                        word=partial(_word, code, word, None if loaded else source.moved(offset), len(terms) > 1),
                        weights=partial(_numbers, code, weights, work.lanes),
                        lanes=work.lanes,
                    )
                    code.local_set(sums[i])
                    loaded = True
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


def _by_offset(units: list[Unit]) -> list[tuple[int, list[tuple[int, Ints]]]]:
    """Every word some unit reads with a weight, with the sums it enters: (number of the sum, weights)."""
    found: dict[int, list[tuple[int, Ints]]] = {}
    for number, unit in enumerate(units):
        for term, half in np.argwhere(halves(unit)):
            weights = unit.weights[term, 4 * half : 4 * half + 4].reshape(-1)
            found.setdefault(int(unit.offsets[term]), []).append((2 * number + int(half), weights))
    return sorted(found.items())


def _word(code: Code, local: int, place: Place | None, kept: bool) -> None:
    """Push the word in all lanes: from memory (and keep it) the first time, else from its local."""
    if place is None:
        code.local_get(local)
        return
    code.load32_splat_at(place)
    if kept:
        code.local_tee(local)


def _numbers(code: Code, weights: Ints, lanes: int) -> None:
    numbers = (int(w) for w in weights)
    if lanes == 4:
        code.const_i8x16(numbers)
    else:
        code.const_i16x8(numbers)


def _dot(
    code: Code,
    *,
    total: Callable[[], None],
    word: Callable[[], None],
    weights: Callable[[], None],
    lanes: int,
) -> None:
    """Push total + word · weights for four outputs; the arguments push their operands."""
    if lanes == 4:
        # The second operand is the one that has to lie in 0 … 127.
        weights()
        word()
        total()
        code.relaxed_dot_add()
    else:
        total()
        word()
        weights()
        code.dot_i16x8_s()
        code.add()


def _finish_constant(code: Code, total: int, after: Requantise, first: int) -> None:
    at = slice(first, first + 4)
    shifts = after.shift[at]

    def mask(count: int) -> None:
        code.const_i32x4(0 if shift == count else -1 for shift in shifts)

    _finish(
        code,
        total,
        counts=sorted({int(shift) for shift in shifts}),
        mask=mask,
        low=(lambda: code.const_i32x4(after.low[at])) if after.clamps[0] else None,
        high=(lambda: code.const_i32x4(after.high[at])) if after.clamps[1] else None,
    )


def _finish(
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


@dataclass(frozen=True, slots=True)
class _Tables:
    """Addresses of the tables of one node, and how a pass of ``units`` units runs through them.

    ``step`` is the distance of the words where they lie one after another; then there is no table of offsets.
    """

    weights: int
    offsets: int
    constants: int
    units: int
    passes: int
    terms: int
    shared: bool
    step: int
    round: int
    rows: int
    shifts: list[int]


def _lay_tables(plan: Plan, work: Work) -> _Tables:
    terms = max(len(unit.offsets) for unit in work.units)
    even = all(np.array_equal(unit.offsets, work.units[0].offsets[0] + 4 * np.arange(terms)) for unit in work.units)
    longest, shortest = ROUNDS
    a_round = longest if terms % longest == 0 or terms >= 4 * longest else shortest
    # Spare words would lie outside the value, perhaps outside the memory; so only whole rounds go without a table.
    step = 4 if even and terms % a_round == 0 else 0
    terms = round_up(terms, a_round)
    weights = np.zeros((len(work.units), terms, BLOCK, work.lanes), "<i2" if work.lanes == 2 else "i1")
    offsets = np.zeros((len(work.units), terms), "<i4")
    for i, unit in enumerate(work.units):
        weights[i, : len(unit.offsets)] = unit.weights
        # Spare words have no weight; they read what the first word reads.
        offsets[i] = unit.offsets[0]
        offsets[i, : len(unit.offsets)] = unit.offsets
    shared = bool((offsets == offsets[0]).all())
    units = max(
        count for count in range(1, UNITS_A_PASS + 1) if len(work.units) % count == 0 and (shared or count == 1)
    )
    passes = len(work.units) // units
    by_pass = weights.reshape(passes, units, terms, BLOCK, work.lanes).transpose(0, 2, 1, 3, 4)
    after = work.after
    shifts = sorted({int(shift) for shift in after.shift})
    rows = [after.start, after.low, after.high, *(np.where(after.shift == shift, 0, -1) for shift in shifts[1:])]
    constants = np.stack([row.reshape(-1, BLOCK) for row in rows], axis=1).astype("<i4")
    return _Tables(
        weights=plan.memory.data(np.ascontiguousarray(by_pass)),
        offsets=int(offsets[0, 0]) if step else plan.memory.data(offsets[:1] if shared else offsets),
        constants=plan.memory.data(constants),
        units=units,
        passes=passes,
        terms=terms,
        shared=shared,
        step=step,
        round=a_round,
        rows=len(rows),
        shifts=shifts,
    )


def tables_kernel(plan: Plan, code: Code, work: Work) -> Callable[[Place, Place], None]:
    """The kernel of one position with weights, offsets and requantise constants in tables."""
    tables = _lay_tables(plan, work)
    sums, word = [code.v128_local() for _ in range(2 * tables.units)], code.v128_local()
    unit_bytes = 32 * tables.rows
    term_bytes = 2 * VECTOR * tables.units

    def finish(local: int, constant: Place) -> None:
        def row(number: int) -> None:
            code.load_at(constant.moved(32 * number))

        _finish(
            code,
            local,
            counts=tables.shifts,
            mask=lambda shift: row(3 + tables.shifts[1:].index(shift)),
            low=(lambda: row(1)) if work.after.clamps[0] else None,
            high=(lambda: row(2)) if work.after.clamps[1] else None,
        )

    def kernel(source: Place, target: Place) -> None:
        def words(offset: Place, weight: Place) -> None:
            for i in range(tables.round):
                if tables.step:
                    code.load32_splat_at(offset.moved(tables.step * i))
                else:
                    code.address(source)
                    code.i32_load(offset.moved(4 * i))
                    code.i32_add()
                    code.load32_splat_here()
                code.local_set(word)
                for number, local in enumerate(sums):
                    _dot(
                        code,
                        total=partial(code.local_get, local),
                        word=partial(code.local_get, word),
                        weights=partial(code.load_at, weight.moved(term_bytes * i + VECTOR * number)),
                        lanes=work.lanes,
                    )
                    code.local_set(local)

        def one_pass(constant: Place, offset: Place, weight: Place, written: Place) -> None:
            def half(number: int) -> Place:
                return constant.moved(unit_bytes * (number // 2) + VECTOR * (number % 2))

            for number, local in enumerate(sums):
                code.load_at(half(number))
                code.local_set(local)
            steps = ((offset, 4 * tables.round), (weight, term_bytes * tables.round))
            code.repeat(tables.terms // tables.round, steps, words, unrolled=False)
            for number, local in enumerate(sums):
                finish(local, half(number))
            for i in range(tables.units):
                place = written.moved(i * BLOCK * work.target.width)
                store(code, place, work.target.width, (sums[2 * i], sums[2 * i + 1]))

        first = source.moved(tables.offsets) if tables.step else Place(tables.offsets)
        steps = (
            (Place(tables.constants), unit_bytes * tables.units),
            (first, 0 if tables.shared else 4 * tables.terms),
            (Place(tables.weights), term_bytes * tables.terms),
            (target, BLOCK * work.target.width * tables.units),
        )
        code.repeat(tables.passes, steps, one_pass, unrolled=False)

    return kernel
