"""The sums of one position with weights, offsets and requantise constants in tables: one loop, whatever the size."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from sitsedge.compiler.backends.wasm.code import VECTOR, Code, Place
from sitsedge.compiler.backends.wasm.kernels import UNITS_A_PASS, WORDS_AT_ONCE, Dots, Words, Work, finish, store
from sitsedge.compiler.backends.wasm.layout import BLOCK, round_up
from sitsedge.compiler.backends.wasm.plan import Plan
from sitsedge.compiler.reference import Ints

ROUNDS = (32, 16, 8, 4)
"""Words per round of a loop over a table: the longest that adds no spare words, or few beside many."""

FEW_SPARE = 4
"""A round may add spare words where there are at least this many rounds of words."""

FOUR = 4
"""Words that one v128 load brings."""


@dataclass(frozen=True, slots=True)
class _Tables:
    """Addresses of the tables of one node, and how a pass of ``units`` units runs through them.

    Words are read in groups of ``group`` neighbours with an entry of the table of offsets each. Where all lie one after
    another (``even``) there is no such table and ``offsets`` is the first word's offset.
    """

    weights: int
    offsets: int
    constants: int
    units: int
    passes: int
    terms: int
    shared: bool
    even: bool
    group: int
    round: int
    rows: int
    shifts: list[int]

    @property
    def offset_step(self) -> int:
        """Bytes from one group's place, or entry, to the next one's."""
        return 4 * self.group if self.even else 4


def _round_of(terms: int) -> int:
    return next((length for length in ROUNDS if terms % length == 0 or terms >= FEW_SPARE * length), ROUNDS[-1])


def _in_fours(offsets: Ints) -> bool:
    """Whether the words come in groups of four neighbours."""
    if len(offsets) % FOUR:
        return False
    groups = offsets.reshape(-1, FOUR)
    return bool(np.array_equal(groups, groups[:, :1] + 4 * np.arange(FOUR)))


def _lay_tables(plan: Plan, work: Work) -> _Tables:
    words = max(len(unit.offsets) for unit in work.units)
    a_round = _round_of(words)
    # Spare words would lie outside the value, perhaps outside the memory; so only whole rounds go without a table.
    even = words % a_round == 0 and all(
        np.array_equal(unit.offsets, work.units[0].offsets[0] + 4 * np.arange(words)) for unit in work.units
    )
    group = FOUR if all(_in_fours(unit.offsets) for unit in work.units) else 1
    terms = round_up(words, a_round)
    weights = np.zeros((len(work.units), terms, BLOCK, work.lanes), "<i2" if work.lanes == 2 else "i1")
    offsets = np.zeros((len(work.units), terms // group), "<i4")
    for i, unit in enumerate(work.units):
        weights[i, : len(unit.offsets)] = unit.weights
        # Spare words have no weight; they read what the first ones read.
        offsets[i] = unit.offsets[0]
        offsets[i, : len(unit.offsets) // group] = unit.offsets[::group]
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
        offsets=int(offsets[0, 0]) if even else plan.memory.data(offsets[:1] if shared else offsets),
        constants=plan.memory.data(constants),
        units=units,
        passes=passes,
        terms=terms,
        shared=shared,
        even=even,
        group=group,
        round=a_round,
        rows=len(rows),
        shifts=shifts,
    )


def tables_kernel(plan: Plan, code: Code, work: Work) -> Callable[[Place, Place], None]:
    """The kernel of one position with weights, offsets and requantise constants in tables."""
    tables = _lay_tables(plan, work)
    sums = [code.v128_local() for _ in range(2 * tables.units)]
    a_round = _round(plan, code, work, tables, sums)
    unit_bytes = 32 * tables.rows

    def finished(local: int, constant: Place) -> None:
        def row(number: int) -> None:
            code.load_at(constant.moved(32 * number))

        finish(
            code,
            local,
            counts=tables.shifts,
            mask=lambda shift: row(3 + tables.shifts[1:].index(shift)),
            low=(lambda: row(1)) if work.after.clamps[0] else None,
            high=(lambda: row(2)) if work.after.clamps[1] else None,
        )

    def kernel(source: Place, target: Place) -> None:
        def one_pass(constant: Place, offset: Place, weight: Place, written: Place) -> None:
            def half(number: int) -> Place:
                return constant.moved(unit_bytes * (number // 2) + VECTOR * (number % 2))

            for number, local in enumerate(sums):
                code.load_at(half(number))
                code.local_set(local)
            groups = tables.round // tables.group
            steps = ((offset, tables.offset_step * groups), (weight, _term_bytes(tables) * tables.round))
            code.repeat(tables.terms // tables.round, steps, partial(a_round, source), unrolled=False)
            for number, local in enumerate(sums):
                finished(local, half(number))
            for i in range(tables.units):
                place = written.moved(i * BLOCK * work.target.width)
                store(code, place, work.target.width, (sums[2 * i], sums[2 * i + 1]))

        first = source.moved(tables.offsets) if tables.even else Place(tables.offsets)
        steps = (
            (Place(tables.constants), unit_bytes * tables.units),
            (first, 0 if tables.shared else 4 * tables.terms // tables.group),
            (Place(tables.weights), _term_bytes(tables) * tables.terms),
            (target, BLOCK * work.target.width * tables.units),
        )
        code.repeat(tables.passes, steps, one_pass, unrolled=False)

    return kernel


def _term_bytes(tables: _Tables) -> int:
    """Weights of one word for all sums of a pass."""
    return 2 * VECTOR * tables.units


def _round(
    plan: Plan, code: Code, work: Work, tables: _Tables, sums: list[int]
) -> Callable[[Place, Place, Place], None]:
    """The body of the loop over a table: ``tables.round`` words into all sums of a pass."""
    dots, words = Dots(plan, code, work.lanes), Words(code)
    loaded = [[code.v128_local() for _ in sums] for _ in range(WORDS_AT_ONCE)]

    def address(source: Place, entry: Place) -> None:
        """Push a word's address: ``entry`` itself, or ``source`` moved by what lies there."""
        if tables.even:
            code.address(entry)
            return
        code.address(source)
        code.i32_load(entry)
        code.i32_add()

    def a_round(source: Place, offset: Place, weight: Place) -> None:
        for first in range(0, tables.round, WORDS_AT_ONCE):
            entry = offset.moved(first // tables.group * tables.offset_step)
            if tables.group == FOUR and first % FOUR == 0:
                words.four(partial(address, source, entry))

            def settled(first: int = first, entry: Place = entry) -> None:
                for i, local in enumerate(words.locals):
                    at = weight.moved(_term_bytes(tables) * (first + i))
                    for number, numbers in enumerate(loaded[i]):
                        code.load_at(at.moved(VECTOR * number))
                        code.local_set(numbers)
                    if tables.group == FOUR:
                        words.lane(i, (first + i) % FOUR)
                    else:
                        words.single(i, partial(address, source, entry.moved(i * tables.offset_step)))
                    for total, numbers in zip(sums, loaded[i], strict=True):
                        dots.add(
                            total=partial(code.local_get, total),
                            weights=partial(code.local_get, numbers),
                            word=local,
                        )
                        code.local_set(total)

            code.settled(settled)

    return a_round
