"""Shows, without running it, that the rows of a circuit admit one assignment per input: the one its program computes.

For every input inside the box and every ctx, each private wire and each output must be forced by the rows to the value
the circuit's operations give it, as an integer; then a proof of (x, y) says y = M(x) and nothing weaker. The argument
goes through the operations in order and asks each for the rows that force it:

* bits   k rows b·(1 - b) = 0, and either (v - Σ 2^i b_i)·1 = 0 with 0 <= v < 2^k, or with T = v - Σ 2^i b_i the row
         T·(2^k - T) = 0 and 0 <= v < 2^(k+1): T is 0 or 2^k, so the bits are those of v;
* mul    a·b = 2^shift·w. Exact for shift 0; for a = T of k = shift above, w is 0 or b; that is ReLU(b) where b is the
         sum of all bits of v, or v - 2^k, or v - 2^k + 1, for which w is 0 on either side of the change;
* out    (value - y)·1 = 0;
* x, ctx s·0 = 0, a row of its own, so that the signal has an IC point whatever the weights are.

A row with no such part is reported too. The ranges come from interval arithmetic over the box, exact on Σ 2^(i-s) b_i
of one value, on min(u, 0) = u - ReLU(u), on S + c·ReLU(u), which is the larger (c < 0: the smaller) of S and S + c·u,
and on sums of products of bits of one value, which are tabulated over all it can be. All numbers stay far below r/2, so
equality in the field is equality of integers. The analysis is sound and not complete: what it does not recognise it
calls "not shown".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from attest.proof.builder import Interval
from attest.proof.circuit import BitsOp, Circuit, LinearCombination, MulOp, OutOp
from attest.proof.errors import CircuitError
from attest.proof.signals import CTX_BYTES, VALUE_MAX, VALUE_MIN

MAGNITUDE_MAX: Final = 1 << 250
"""Below r/2 on both curves (r has 254 and 255 bits): two integers this small that are equal mod r are equal."""
FUNCTION_VALUES_MAX: Final = 1 << 12
"""Products of bits of one value are tabulated if the value has no more values than this: tables of 12 bits."""
FUNCTION_ENTRIES_MAX: Final = 1 << 22
"""All tables together, in entries: 2^10 of the largest, tens of megabytes. Further ones have the range of a product."""
FUNCTION_RANGES_MAX: Final = 1 << 14
"""Ranges of sums over tables that are remembered: equal tables of one layer, looked at once."""
SPLITS_MAX: Final = 128
"""Most ReLUs of one sum that are looked at by cases; a maximum of n values has n - 1. Keeps long sums fast."""
FINDINGS_MAX: Final = 16
"""One fault often hides many wires; more lines than this help nobody."""

_Terms = tuple[tuple[int, int], ...]
_Key = tuple[_Terms, _Terms, _Terms]
Asserted = tuple[_Terms, int]
"""Terms of a value v and k: rows assert 0 <= v < 2^k."""
_ZERO: Final[_Terms] = ()
_ONE: Final[_Terms] = ((0, 1),)


@dataclass(frozen=True, slots=True)
class Finding:
    """Something not shown. ``code``: ``wire-free``, ``output-free``, ``signal-unbound``, ``range``, ``row-unused``."""

    code: str
    where: str
    missing: str

    def __str__(self) -> str:
        return f"{self.code}: {self.where}: {self.missing}"


@dataclass(frozen=True, slots=True)
class Uniqueness:
    """What the analysis found; ``findings`` are in the order of the operations, at most :data:`FINDINGS_MAX`."""

    rows: int
    wires: int
    findings: tuple[Finding, ...]

    @property
    def shown(self) -> bool:
        """Whether every wire is forced, every public signal bound and every row accounted for."""
        return not self.findings


def analyse(circuit: Circuit, box: Sequence[Interval]) -> Uniqueness:
    """Analyses a decoded circuit over ``box``, one interval per input.

    Raises :class:`CircuitError` (``circuit-bounds``) if the box does not fit the circuit.
    """
    if len(box) != circuit.n_inputs or not all(side.lo >= VALUE_MIN and side.hi <= VALUE_MAX for side in box):
        raise CircuitError(
            "circuit-bounds", found=f"{len(box)} intervals", expected=f"{circuit.n_inputs} inside 64 bits"
        )
    return Analysis(circuit, box).run()


def require_unique(circuit: Circuit, box: Sequence[Interval]) -> Uniqueness:
    """Raises :class:`CircuitError` (``circuit-unique``) unless :func:`analyse` shows it."""
    result = analyse(circuit, box)
    if not result.shown:
        raise CircuitError(
            "circuit-unique",
            found="; ".join(map(str, result.findings)),
            expected="rows that force every wire and bind every public signal",
        )
    return result


@dataclass(frozen=True, slots=True)
class _Bits:
    """Bits ``first … first + k - 1`` that are forced: all of v where ``whole``, else those below 2^k."""

    first: int
    k: int
    value: Interval
    whole: bool

    def sum_from(self, shift: int) -> Interval:
        """Range of Σ_{i >= shift} 2^(i - shift) b_i = (v or v mod 2^k) >> shift."""
        if self.whole:
            return Interval(self.value.lo >> shift, self.value.hi >> shift)
        return Interval(0, (1 << (self.k - shift)) - 1)

    def weights_from(self, coefficients: Mapping[int, int]) -> tuple[int, int] | None:
        """(c, s) if the coefficients (by bit) are c·2^(i - s) for every i >= s and none below."""
        low = min(coefficients)
        if len(coefficients) != self.k - low:
            return None
        c = coefficients[low]
        return (c, low) if all(x == c << (i - low) for i, x in coefficients.items()) else None


@dataclass(frozen=True, slots=True)
class _Relu:
    """A product wire that is max(u, 0); ``low`` is the range of min(u, 0) = u - wire."""

    u: _Terms
    low: Interval


@dataclass(frozen=True, slots=True)
class _Function:
    """A wire that is ``table[v - lo]`` of the value v, in lo … hi, whose bits are ``group``."""

    group: _Bits
    table: tuple[int, ...]


class _Functions:
    """Tables of wires that are products of bits of one value, shared where values of one range are treated alike."""

    def __init__(self) -> None:
        self.of_wire: dict[int, _Function] = {}
        self._products: dict[tuple[object, ...], tuple[int, ...]] = {}
        self._ranges: dict[tuple[object, ...], Interval] = {}
        self._entries = 0

    def range_of(self, group: _Bits, coefficients: Mapping[int, int]) -> Interval:
        """Range of Σ c·w over every value of the group, for wires as :meth:`sums` takes them."""
        key = (group.value, group.k, self._relative(group, coefficients.items()))
        found = self._ranges.get(key)
        if found is None:
            sums = self.sums(group, coefficients)
            found = Interval(min(sums), max(sums))
            if len(self._ranges) < FUNCTION_RANGES_MAX:
                self._ranges[key] = found
        return found

    def product(self, group: _Bits, a: _Terms, b: _Terms) -> tuple[int, ...] | None:
        """Table of a·b, both over wires of ``group``; None where it would be too large."""
        size = _width(group.value) + 1
        if size > FUNCTION_VALUES_MAX:
            return None
        key = (group.value, group.k, self._relative(group, a), self._relative(group, b))
        if key not in self._products:
            if self._entries + size > FUNCTION_ENTRIES_MAX:
                return None
            self._entries += size
            factors = zip(self.sums(group, dict(a)), self.sums(group, dict(b)), strict=True)
            self._products[key] = tuple([x * y for x, y in factors])
        return self._products[key]

    def _relative(self, group: _Bits, terms: Iterable[tuple[int, int]]) -> tuple[object, ...]:
        """``terms`` as functions of the value: equal keys mean equal functions."""
        return tuple(
            [
                (id(self.of_wire[wire].table), c)
                if wire in self.of_wire
                else (wire - group.first if wire else -1, c, 0)
                for wire, c in terms
            ]
        )

    def sums(self, group: _Bits, coefficients: Mapping[int, int]) -> list[int]:
        """Σ c·w for every value of the group; the constant, bits and functions of the group occur, nothing else."""
        low, high = group.value.lo, group.value.hi
        sums = [coefficients.get(0, 0)] * (high - low + 1)
        for wire, c in coefficients.items():
            if wire in self.of_wire:
                sums = [total + c * value for total, value in zip(sums, self.of_wire[wire].table, strict=True)]
            elif wire:
                bit = wire - group.first
                sums = [total + c * ((v >> bit) & 1) for total, v in zip(sums, range(low, high + 1), strict=True)]
        return sums


class _Ranges:
    """Ranges of linear combinations over the wires forced so far."""

    def __init__(self) -> None:
        self.of_wire: dict[int, Interval] = {0: Interval(1, 1)}
        self.bits: dict[int, _Bits] = {}
        self.relus: dict[int, _Relu] = {}
        self.functions = _Functions()
        self._splits = 0

    def known(self, terms: _Terms) -> bool:
        return all(wire in self.of_wire for wire, _ in terms)

    def of(self, terms: _Terms) -> Interval:
        """Range of Σ c·w, with c·ReLU(u) read as c·u - c·min(u, 0) wherever that is narrower, and by cases of u."""
        sums, offset = dict(terms), Interval(0, 0)
        for wire in [w for w, _ in reversed(terms) if w in self.relus]:
            sums, offset = self._substituted(sums, offset, wire)
        self._splits = 0
        return _common(_plus(self._plain(sums), offset), self._by_cases(dict(terms)))

    def _by_cases(self, sums: dict[int, int]) -> Interval:
        """Range by S + c·ReLU(u) = max(S, S + c·u), min for c < 0, where S shares wires with u; last ReLU first."""
        total = Interval(0, 0)
        for wire in sorted([w for w in sums if w in self.relus], reverse=True):
            c = sums.get(wire, 0)
            if not c or self._splits >= SPLITS_MAX:
                continue
            u = self.relus[wire].u
            near = {w for term, _ in u if term for w in self._siblings(term) if sums.get(w, 0)}
            if not near:
                continue
            self._splits += 1
            without = {w: sums[w] for w in near}
            within = dict(without)
            for w, factor in u:
                within[w] = within.get(w, 0) + c * factor
            s, t = self._by_cases(without), self._by_cases({w: x for w, x in within.items() if x})
            pick = max if c > 0 else min
            total = _plus(total, Interval(pick(s.lo, t.lo), pick(s.hi, t.hi)))
            sums = {w: x for w, x in sums.items() if w != wire and w not in near}
        return _plus(total, self._plain(sums))

    def _siblings(self, wire: int) -> Sequence[int]:
        group = self.bits.get(wire)
        return range(group.first, group.first + group.k) if group else (wire,)

    def group_of(self, *parts: _Terms) -> _Bits | None:
        """The value whose bits, or products of them, all wires are; None where there is no such value."""
        found: _Bits | None = None
        for wire in [wire for terms in parts for wire, _ in terms if wire]:
            function = self.functions.of_wire.get(wire)
            group = function.group if function else self.bits.get(wire)
            if group is None or (found is not None and group is not found):
                return None
            found = group
        return found

    def _substituted(self, sums: dict[int, int], offset: Interval, wire: int) -> tuple[dict[int, int], Interval]:
        relu, factor = self.relus[wire], sums[wire]
        touched = {wire: factor}
        for w, _ in relu.u:
            for sibling in self._siblings(w):
                touched[sibling] = sums.get(sibling, 0)
        after = {**touched, wire: 0}
        for w, c in relu.u:
            after[w] = after.get(w, 0) + factor * c
        rest = _times(-factor, relu.low)
        before_range, after_range = self._plain(touched), _plus(self._plain(after), rest)
        if _width(after_range) >= _width(before_range):
            return sums, offset
        return {**sums, **after}, _plus(offset, rest)

    def _plain(self, sums: Mapping[int, int]) -> Interval:
        """Each wire, or each value's bits, by itself."""
        total, groups = Interval(0, 0), dict[int, dict[int, int]]()
        tabulated: dict[int, dict[int, int]] = {}
        for wire, c in sums.items():
            if c and (function := self.functions.of_wire.get(wire)) is not None:
                tabulated.setdefault(function.group.first, {})[wire] = c
            elif c and (group := self.bits.get(wire)) is not None:
                groups.setdefault(group.first, {})[wire - group.first] = c
            elif c:
                total = _plus(total, _times(c, self.of_wire[wire]))
        for first, functions in tabulated.items():
            if len(functions) == 1 and first not in groups:
                [(wire, c)] = functions.items()
                total = _plus(total, _times(c, self.of_wire[wire]))
                continue
            functions |= {first + bit: c for bit, c in groups.pop(first, {}).items()}
            total = _plus(total, self.functions.range_of(self.bits[first], functions))
        for first, coefficients in groups.items():
            pattern = self.bits[first].weights_from(coefficients)
            if pattern is not None:
                total = _plus(total, _times(pattern[0], self.bits[first].sum_from(pattern[1])))
            else:
                values = coefficients.values()
                total = _plus(total, Interval(sum(min(c, 0) for c in values), sum(max(c, 0) for c in values)))
        return total


class Analysis:
    """One run over one circuit; :func:`analyse` for those who only want its result.

    With ``asserting``, bits that are tied to a value need not fit by its range: they then assert 0 <= v < 2^k, as the
    rows of a sealed circuit do for box and relations. What is so asserted is in ``asserted``, (terms of v, k) each.
    """

    def __init__(self, circuit: Circuit, box: Sequence[Interval], *, asserting: bool = False) -> None:
        self.circuit = circuit
        self.asserting = asserting
        self.asserted: list[Asserted] = []
        self.ranges = _Ranges()
        self.ranges.of_wire |= {1 + i: side for i, side in enumerate(box)}
        self.ranges.of_wire[circuit.ctx_wire] = Interval(0, (1 << (8 * CTX_BYTES)) - 1)
        self.rows: dict[_Key, list[int]] = {}
        for index, row in enumerate(circuit.constraints):
            self.rows.setdefault((row.a.terms, row.b.terms, row.c.terms), []).append(index)
        self.tops: dict[_Terms, _Bits] = {}
        self.findings: list[Finding] = []

    def run(self) -> Uniqueness:
        for op in self.circuit.ops:
            match op:
                case BitsOp():
                    self._bits(op)
                case MulOp():
                    self._mul(op)
                case OutOp():
                    self._out(op)
        for signal in (*range(1, 1 + self.circuit.n_inputs), self.circuit.ctx_wire):
            if not self._take(((signal, 1),), _ZERO, _ZERO):
                self._report("signal-unbound", f"signal {signal - 1}", "a row s·0 = 0 of its own")
        for wire in range(self.circuit.n_wires):
            if wire not in self.ranges.of_wire:
                self._report("wire-free", f"wire {wire}", "an operation whose rows force it")
        for index in sorted(index for left in self.rows.values() for index in left):
            self._report("row-unused", f"row {index}", "a part in forcing a wire or binding a signal")
        return Uniqueness(len(self.circuit.constraints), self.circuit.n_wires, tuple(self.findings[:FINDINGS_MAX]))

    def _report(self, code: str, where: str, missing: str) -> None:
        self.findings.append(Finding(code, where, missing))

    def _take(self, a: _Terms, b: _Terms, c: _Terms) -> bool:
        """Whether the row a·b = c is there and has no other part yet."""
        found = self.rows.get((a, b, c))
        return bool(found and found.pop() >= 0)

    def _range(self, lc: LinearCombination, where: str) -> Interval | None:
        """Range of a combination of forced wires, ``None`` (reported) if it is not known or could wrap mod r."""
        if not self.ranges.known(lc.terms):
            self._report("wire-free", where, "wires of its operands that are forced")
            return None
        found = self.ranges.of(lc.terms)
        # Every partial sum in any order must stay integer as well, not only the narrower range found.
        weight = sum(abs(c) * max(abs(self.ranges.of_wire[w].lo), abs(self.ranges.of_wire[w].hi)) for w, c in lc.terms)
        if weight > MAGNITUDE_MAX:
            self._report("range", where, "operands far below the field's size")
            return None
        return found

    def _new(self, wires: Sequence[int], where: str) -> bool:
        if any(wire in self.ranges.of_wire for wire in wires):
            self._report("wire-free", where, "wires that no other operation writes")
            return False
        return True

    def _bits(self, op: BitsOp) -> None:
        where = f"bits at wires {op.first} to {op.first + op.k - 1}"
        wires = range(op.first, op.first + op.k)
        value = self._range(op.value, where)
        if value is None or not self._new(wires, where):
            return
        for wire in wires:
            if not self._take(((wire, 1),), ((0, 1), (wire, -1)), _ZERO):
                self._report("wire-free", f"wire {wire}", "its row b·(1 - b) = 0")
                return
        top = op.value - LinearCombination(tuple((wire, 1 << i) for i, wire in enumerate(wires)))
        whole = self._take(top.terms, _ONE, _ZERO)
        if not whole and not self._take(top.terms, ((1 << op.k) - top).terms, _ZERO):
            self._report("wire-free", where, "a row that ties the bits to their value")
            return
        limit = 1 << (op.k + (0 if whole else 1))
        if whole and self.asserting and value.lo < limit and value.hi >= 0:
            self.asserted.append((op.value.terms, op.k))
            value = Interval(max(value.lo, 0), min(value.hi, limit - 1))
        if value.lo < 0 or value.hi >= limit:
            self._report("range", where, f"a value in 0 … {limit - 1}, not {value.lo} … {value.hi}")
            return
        bits = _Bits(op.first, op.k, value, whole)
        self.ranges.of_wire |= dict.fromkeys(wires, Interval(0, 1))
        self.ranges.bits |= dict.fromkeys(wires, bits)
        if not whole:
            self.tops[top.terms] = bits

    def _mul(self, op: MulOp) -> None:
        where = f"wire {op.wire}"
        a, b = self._range(op.a, where), self._range(op.b, where)
        if a is None or b is None or not self._new((op.wire,), where):
            return
        if not self._take(op.a.terms, op.b.terms, ((op.wire, 1 << op.shift),)):
            self._report("wire-free", where, f"its row a·b = 2^{op.shift}·w")
            return
        top = self.tops.get(op.a.terms)
        if top is not None and top.k == op.shift:
            self.ranges.of_wire[op.wire] = self._selected(op, top, b)
        elif op.shift:
            self._report("range", where, "a product that 2^shift divides")
        else:
            corners = [x * y for x in (a.lo, a.hi) for y in (b.lo, b.hi)]
            if max(map(abs, corners)) > MAGNITUDE_MAX:
                self._report("range", where, "a product far below the field's size")
                return
            # A square is never negative, and the corner lo·hi is none of its values.
            square = op.a.terms == op.b.terms
            ends = (a.lo * a.lo, a.hi * a.hi, *((0,) if a.lo <= 0 <= a.hi else ())) if square else corners
            self.ranges.of_wire[op.wire] = Interval(min(ends), max(ends))
            self._tabulate(op)

    def _tabulate(self, op: MulOp) -> None:
        """A product of functions of one value is one, with the exact range of it."""
        group = self.ranges.group_of(op.a.terms, op.b.terms)
        table = self.ranges.functions.product(group, op.a.terms, op.b.terms) if group else None
        if group and table is not None:
            self.ranges.functions.of_wire[op.wire] = _Function(group, table)
            self.ranges.of_wire[op.wire] = Interval(min(table), max(table))

    def _selected(self, op: MulOp, top: _Bits, b: Interval) -> Interval:
        """Range of T·b / 2^k, T being 0 for v < 2^k and 2^k otherwise; b = bits of v from s makes it a ReLU."""
        bit = {wire - top.first: c for wire, c in op.b.terms}
        pattern = top.weights_from(bit) if bit and min(bit) >= 0 and max(bit) < top.k else None
        if pattern is None or pattern[0] != 1:
            # T = 2^k for v - 2^k >= 0. With b = v - 2^k, or one more, w = b for b >= 0, or b >= 1: max(b, 0).
            over = (self._value_of(op.a, top) - (1 << top.k) - op.b).constant_value
            if over in (0, -1):
                self.ranges.relus[op.wire] = _Relu(op.b.terms, Interval(min(b.lo, 0), min(b.hi, 0)))
                return Interval(max(b.lo, 0), max(b.hi, 0))
            return Interval(min(b.lo, 0), max(b.hi, 0))
        u = Interval(top.value.lo - (1 << top.k), top.value.hi - (1 << top.k))
        shift = pattern[1]
        if shift == 0:
            terms = self._value_of(op.a, top) - (1 << top.k)
            self.ranges.relus[op.wire] = _Relu(terms.terms, Interval(min(u.lo, 0), min(u.hi, 0)))
        return Interval(max(u.lo, 0) >> shift, max(u.hi, 0) >> shift)

    @staticmethod
    def _value_of(top: LinearCombination, bits: _Bits) -> LinearCombination:
        """v = T + Σ 2^i b_i."""
        return top + LinearCombination(tuple((wire, 1 << i) for i, wire in enumerate(_wires(bits))))

    def _out(self, op: OutOp) -> None:
        wire = 1 + self.circuit.n_inputs + op.index
        where = f"output {op.index}"
        value = self._range(op.value, where)
        if value is None or not self._new((wire,), where):
            return
        if not self._take((op.value - LinearCombination(((wire, 1),))).terms, _ONE, _ZERO):
            self._report("output-free", where, "its row (value - y)·1 = 0")
            return
        if value.lo < VALUE_MIN or value.hi > VALUE_MAX:
            self._report("range", where, "a value of 64 bits")
            return
        self.ranges.of_wire[wire] = value


def _wires(bits: _Bits) -> range:
    return range(bits.first, bits.first + bits.k)


def _plus(a: Interval, b: Interval) -> Interval:
    return Interval(a.lo + b.lo, a.hi + b.hi)


def _times(c: int, a: Interval) -> Interval:
    return Interval(c * a.lo, c * a.hi) if c >= 0 else Interval(c * a.hi, c * a.lo)


def _common(a: Interval, b: Interval) -> Interval:
    """Both hold, so their intersection does; the first where rows that contradict each other leave nothing."""
    low, high = max(a.lo, b.lo), min(a.hi, b.hi)
    return Interval(low, high) if low <= high else a


def _width(a: Interval) -> int:
    return a.hi - a.lo
