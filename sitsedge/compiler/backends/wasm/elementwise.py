"""Sum, Product, Leaky and Table: the same arithmetic on every element."""

from __future__ import annotations

from collections.abc import Callable

from sitsedge.compiler.backends.wasm.code import Code, Place
from sitsedge.compiler.backends.wasm.kernels import store
from sitsedge.compiler.backends.wasm.layout import NO_PADS, Region
from sitsedge.compiler.backends.wasm.plan import Plan
from sitsedge.compiler.graph.integer_nodes import Leaky, Product, Sum, Table
from sitsedge.compiler.reference import INT32_MAX, INT32_MIN


def _blocks(plan: Plan, code: Code, regions: list[Region], body: Callable[..., None]) -> None:
    """``body(*places)`` for every eight channels of every position of regions of one shape, whatever their borders."""
    first = regions[0]
    across = first.across * first.blocks
    steps = [16 if region.width == 2 else 32 for region in regions]
    unrolled = first.height * across <= plan.unroll.vectors
    if all(region.pads == NO_PADS for region in regions):
        places = tuple((Place(region.base), step) for region, step in zip(regions, steps, strict=True))
        code.repeat(first.height * across, places, body, unrolled=unrolled)
        return

    def row(*starts: Place) -> None:
        code.repeat(across, tuple(zip(starts, steps, strict=True)), body, unrolled=unrolled)

    code.repeat(
        first.height, tuple((Place(region.base), region.row) for region in regions), row, unrolled=unrolled
    )  # fmt: skip


def emit_sum(plan: Plan, node: Sum, code: Code, target: Region) -> None:
    """Σ x << up, rounded, shifted, clamped; eight elements a round."""
    halves = (code.v128_local(), code.v128_local())
    loaded = [code.v128_local() for _ in node.sources]

    def body(*places: Place) -> None:
        for local, place in zip(loaded, places, strict=False):
            code.load_at(place)
            code.local_set(local)
        for half, extend in zip(halves, (code.extend_low_i16x8_s, code.extend_high_i16x8_s), strict=True):
            code.const_i32x4([node.rounding] * 4)
            for local, up in zip(loaded, node.up_shifts, strict=True):
                code.local_get(local)
                extend()
                if up:
                    code.shl(up)
                code.add()
            _requantise(code, node)
            code.local_set(half)
        store(code, places[-1], target.width, halves)

    _blocks(plan, code, [*(plan.held[name].region for name in node.sources), target], body)


def _requantise(code: Code, node: Sum | Product) -> None:
    """Shift and clamp of the accumulator on the stack, which has the rounding constant in it."""
    if node.shift:
        code.shr_s(node.shift)
    if node.low > INT32_MIN:
        code.const_i32x4([node.low] * 4)
        code.max_s()
    if node.high < INT32_MAX:
        code.const_i32x4([node.high] * 4)
        code.min_s()


def emit_product(plan: Plan, node: Product, code: Code, target: Region) -> None:
    """a · b, rounded, shifted, clamped; eight elements a round."""
    a, b = (plan.held[name].region for name in node.sources)
    halves = (code.v128_local(), code.v128_local())

    def body(first: Place, second: Place, written: Place) -> None:
        for half, multiply in zip(halves, (code.extmul_low_i16x8_s, code.extmul_high_i16x8_s), strict=True):
            code.load_at(first)
            code.load_at(second)
            multiply()
            if node.rounding:
                code.const_i32x4([node.rounding] * 4)
                code.add()
            _requantise(code, node)
            code.local_set(half)
        store(code, written, target.width, halves)

    if (b.height, b.across) == (a.height, a.across):
        _blocks(plan, code, [a, b, target], body)
        return
    blocks, step = a.blocks, 16 * target.width // 2
    unrolled = a.height * a.across * blocks <= plan.unroll.vectors

    def position(first: Place, second: Place, written: Place) -> None:
        code.repeat(blocks, ((first, 16), (second, 16), (written, step)), body, unrolled=unrolled)

    def row(first: Place, written: Place) -> None:
        steps = ((first, a.pixel), (Place(b.base), 0), (written, target.pixel))
        code.repeat(a.across, steps, position, unrolled=unrolled)

    code.repeat(a.height, ((Place(a.base), a.row), (Place(target.base), target.row)), row, unrolled=unrolled)


def emit_leaky(plan: Plan, node: Leaky, code: Code, target: Region) -> None:
    """x ≥ 0 ? x : (x · m + 2^(s-1)) >> s; eight elements a round."""
    halves = (code.v128_local(), code.v128_local())

    def body(source: Place, written: Place) -> None:
        for half, extend in zip(halves, (code.extend_low_i16x8_s, code.extend_high_i16x8_s), strict=True):
            code.load_at(source)
            extend()
            code.local_set(half)
            code.local_get(half)
            code.const_i32x4([node.multiplier] * 4)
            code.mul()
            code.const_i32x4([node.rounding] * 4)
            code.add()
            code.shr_s(node.shift)
            code.local_get(half)
            # All ones where x is negative.
            code.local_get(half)
            code.shr_s(31)
            code.bitselect()
            code.local_set(half)
        store(code, written, target.width, halves)

    _blocks(plan, code, [plan.held[node.source].region, target], body)


def emit_table(plan: Plan, node: Table, code: Code, target: Region) -> None:
    """One load of an argument, one of its entry. Spare channels are left alone: their content is no argument."""
    source = plan.held[node.source].region
    table = plan.memory.data(node.values.astype("<i2"))
    count = source.channels * source.height * source.across
    unrolled = count <= plan.unroll.vectors

    def element(read: Place, written: Place) -> None:
        code.base(written)
        code.i32_load16_s(read)
        code.i32_const(1)
        code.i32_shl()
        code.i32_const(table - 2 * node.first)
        code.i32_add()
        code.i32_load16_s_here()
        code.i32_store16(written)

    def position(read: Place, written: Place) -> None:
        code.repeat(source.channels, ((read, 2), (written, 2)), element, unrolled=unrolled)

    def row(read: Place, written: Place) -> None:
        steps = ((read, source.pixel), (written, target.pixel))
        code.repeat(source.across, steps, position, unrolled=unrolled)

    code.repeat(
        source.height, ((Place(source.base), source.row), (Place(target.base), target.row)), row, unrolled=unrolled
    )  # fmt: skip
