"""Dense and Conv: sums of dot products for eight outputs at a time.

One 32-bit load fills all lanes with two int16 (or four int8) neighbours, and one dot product with weights adds their
products for four outputs at once: no horizontal sums. The offsets of the words one position reads are the same at every
position, so Dense is a Conv with one. Small nodes have their weights in the code, and run over the positions in a loop
where there are many; large ones read weights and offsets from tables.

Sums may leave int32 on the way when an input offset is folded into the start value: addition modulo 2^32 brings them
back, and the finished sum is proven inside.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sitsedge.compiler.backends.wasm.code import VECTOR, Code, Place
from sitsedge.compiler.backends.wasm.layout import BLOCK, Region, round_up
from sitsedge.compiler.backends.wasm.plan import Plan, fits_int8
from sitsedge.compiler.graph.integer_graph import Conv, Dense
from sitsedge.compiler.reference import Ints

UNITS_A_PASS = 4
"""Units of eight outputs whose sums are kept in registers: eight of the sixteen that x86 has."""

ROUNDS = (8, 4)
"""Words per round of a loop over a table: the longer round where it does not add many spare words."""


@dataclass(frozen=True, slots=True)
class _Unit:
    """Eight outputs: byte offsets (T,) of the words they read, weights (T, 8, lanes)."""

    offsets: Ints
    weights: Ints


@dataclass(frozen=True, slots=True)
class _Requantise:
    """Per output, padded to whole units; ``clamps`` says whether any sum can fall below low, rise above high."""

    start: Ints
    shift: Ints
    low: Ints
    high: Ints
    clamps: tuple[bool, bool]


@dataclass(frozen=True, slots=True)
class _Work:
    """One node ready to be emitted. ``lanes`` is 2 (int16) or 4 (int8); strides and pointers in bytes."""

    units: list[_Unit]
    after: _Requantise
    lanes: int
    source: int
    source_steps: tuple[int, int]
    counts: tuple[int, int]
    target: Region


def emit_weighted(plan: Plan, node: Dense | Conv, code: Code, target: Region) -> None:
    """Emit the node's instructions; its result goes to ``target``."""
    work = _work(plan, node, target)
    dots = sum(int(np.count_nonzero(_halves(unit))) for unit in work.units)
    positions = work.counts[0] * work.counts[1]
    room = plan.dots_left
    unrolled = positions == 1 or dots * positions <= min(plan.unroll.position_dots, room)
    if dots <= room:
        plan.dots_left -= dots * (positions if unrolled else 1)
        kernel = _constants(code, work)
    else:
        kernel = _tables(plan, code, work)
    _positions(code, work, kernel, unrolled=unrolled)


def _positions(code: Code, work: _Work, kernel: Callable[[Place, Place], None], *, unrolled: bool) -> None:
    target = work.target

    def row(source: Place, written: Place) -> None:
        steps = ((source, work.source_steps[1]), (written, target.pixel))
        code.repeat(work.counts[1], steps, kernel, unrolled=unrolled)

    steps = ((Place(work.source), work.source_steps[0]), (Place(target.base), target.row))
    code.repeat(work.counts[0], steps, row, unrolled=unrolled)


def _halves(unit: _Unit) -> Ints:
    """(T, 2): whether a word has a weight for the first, the second four outputs."""
    return np.asarray(unit.weights.reshape(len(unit.offsets), 2, -1).any(axis=2))


def _work(plan: Plan, node: Dense | Conv, target: Region) -> _Work:
    held = plan.held[node.source]
    packed = held.packed if held.packed is not None and fits_int8(node) else None
    lanes = 2 if packed is None else 4
    shrink = 1 if packed is None else 2

    def moved(address: Ints) -> Ints:
        """Where an address of the region is in what this node reads."""
        return address if packed is None else packed.start + (address - held.region.start) // 2

    if isinstance(node, Dense):
        units = _dense_units(node, moved(held.addresses), lanes)
        source, steps = 0, (0, 0)
    else:
        region = held.region
        row, pixel = region.row // shrink, region.pixel // shrink
        units = _conv_units(node, row, pixel, lanes)
        source = int(moved(np.int64(region.base))) - node.pads[0] * row - node.pads[1] * pixel  # type: ignore[arg-type]
        steps = (node.strides[0] * row, node.strides[1] * pixel)
    after = _requantise(plan, node, packed.offset if packed else 0)
    return _Work(units, after, lanes, source, steps, (target.height, target.across), target)


def _dense_units(node: Dense, addresses: Ints, lanes: int) -> list[_Unit]:
    words, which = np.unique(addresses // 4, return_inverse=True)
    outputs = round_up(node.channels, BLOCK)
    weights = np.zeros((outputs, len(words), lanes), np.int64)
    weights[: node.channels, which.reshape(-1), addresses % 4 * lanes // 4] = node.columns()
    by_unit = weights.reshape(-1, BLOCK, len(words), lanes).transpose(0, 2, 1, 3)
    return [_Unit(words * 4, unit) for unit in by_unit]


def _conv_units(node: Conv, row: int, pixel: int, lanes: int) -> list[_Unit]:
    """Words in the order of rows, columns, channels; a unit reads the channels of its own groups only."""
    columns = node.columns().transpose(0, 2, 3, 1)
    outputs, high, wide, inputs = columns.shape
    per_group = outputs // node.groups
    taps = np.arange(high)[:, None] * node.dilations[0] * row + np.arange(wide) * node.dilations[1] * pixel
    units = []
    for first in range(0, outputs, BLOCK):
        last = min(first + BLOCK, outputs)
        word = first // per_group * inputs // lanes
        end = -(-((last - 1) // per_group + 1) * inputs // lanes)
        weights = np.zeros((BLOCK, high, wide, (end - word) * lanes), np.int64)
        for output in range(first, last):
            at = output // per_group * inputs - word * lanes
            weights[output - first, :, :, at : at + inputs] = columns[output]
        offsets = taps[:, :, None] + 4 * np.arange(word, end)
        units.append(_Unit(offsets.reshape(-1), weights.reshape(BLOCK, -1, lanes).transpose(1, 0, 2)))
    return units


def _requantise(plan: Plan, node: Dense | Conv, offset: int) -> _Requantise:
    bound = plan.bounds[node.name].accumulator
    assert bound is not None, "intervals bound every sum"
    wide = (slice(None), *(None,) * (bound.acc_low.ndim - 1))
    low, high = (
        (acc + node.rounding[wide]) >> node.shift[wide] for acc in (bound.acc_low, bound.acc_high)
    )  # fmt: skip
    clamps = (bool(np.any(low < node.low[wide])), bool(np.any(high > node.high[wide])))
    start = node.bias + node.rounding + offset * node.columns().reshape(node.channels, -1).sum(axis=1)
    spare = round_up(node.channels, BLOCK) - node.channels

    def padded(values: Ints) -> Ints:
        return np.pad(values, (0, spare), mode="edge")

    wrapped = (start + (1 << 31)) % (1 << 32) - (1 << 31)
    return _Requantise(padded(wrapped), padded(node.shift), padded(node.low), padded(node.high), clamps)


def _constants(code: Code, work: _Work) -> Callable[[Place, Place], None]:
    """The kernel of one position with all weights in the code."""
    sums = [code.v128_local() for _ in range(2 * min(UNITS_A_PASS, len(work.units)))]
    word = code.v128_local()

    def kernel(source: Place, target: Place) -> None:
        for first in range(0, len(work.units), UNITS_A_PASS):
            units = work.units[first : first + UNITS_A_PASS]
            used = sums[: 2 * len(units)]
            for i, local in enumerate(used):
                code.const_i32x4(work.after.start[8 * first + 4 * i :][:4])
                code.local_set(local)
            for offset, terms in _by_offset(units):
                code.load32_splat_at(source.moved(offset))
                code.local_set(word)
                for i, weights in terms:
                    _dot_constant(code, sums[i], word, weights, work.lanes)
            for i, local in enumerate(used):
                _finish_constant(code, local, work.after, 8 * first + 4 * i)
            for i in range(len(units)):
                place = target.moved((first + i) * BLOCK * work.target.width)
                store(code, place, work.target.width, (sums[2 * i], sums[2 * i + 1]))

    return kernel


def _by_offset(units: list[_Unit]) -> list[tuple[int, list[tuple[int, Ints]]]]:
    """Every word some unit reads with a weight, with the sums it enters: (number of the sum, weights)."""
    found: dict[int, list[tuple[int, Ints]]] = {}
    for number, unit in enumerate(units):
        halves = _halves(unit)
        for term, half in np.argwhere(halves):
            weights = unit.weights[term, 4 * half : 4 * half + 4].reshape(-1)
            found.setdefault(int(unit.offsets[term]), []).append((2 * number + int(half), weights))
    return sorted(found.items())


def _dot_constant(code: Code, total: int, word: int, weights: Ints, lanes: int) -> None:
    numbers = (int(w) for w in weights)
    if lanes == 4:
        code.const_i8x16(numbers)
        code.local_get(word)
        code.local_get(total)
        code.relaxed_dot_add()
    else:
        code.local_get(total)
        code.local_get(word)
        code.const_i16x8(numbers)
        code.dot_i16x8_s()
        code.add()
    code.local_set(total)


def _finish_constant(code: Code, total: int, after: _Requantise, first: int) -> None:
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


def _lay_tables(plan: Plan, work: _Work) -> _Tables:
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


def _tables(plan: Plan, code: Code, work: _Work) -> Callable[[Place, Place], None]:
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
                    _dot_loaded(code, local, word, weight.moved(term_bytes * i + VECTOR * number), work.lanes)

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


def _dot_loaded(code: Code, total: int, word: int, weights: Place, lanes: int) -> None:
    if lanes == 4:
        code.load_at(weights)
        code.local_get(word)
        code.local_get(total)
        code.relaxed_dot_add()
    else:
        code.local_get(total)
        code.local_get(word)
        code.load_at(weights)
        code.dot_i16x8_s()
        code.add()
    code.local_set(total)
