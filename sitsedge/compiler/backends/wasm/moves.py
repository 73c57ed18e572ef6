"""Moves of elements (Select, Concat, the input and the output), MaxPool and ArgMax."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np

from sitsedge.compiler.backends.wasm.code import VECTOR, Code, Place
from sitsedge.compiler.backends.wasm.layout import Region
from sitsedge.compiler.backends.wasm.plan import Plan
from sitsedge.compiler.graph.integer_nodes import ArgMax, Concat, MaxPool, Select
from sitsedge.compiler.graph.integer_values import elements
from sitsedge.compiler.reference import INT16_MIN, INT32_MIN, Ints

WINDOW_UNROLLED_MAX = 16
"""Elements of a window that stand in the code of a looped MaxPool."""


def emit_moves(plan: Plan, code: Code, source: Ints, target: Ints, *, widths: tuple[int, int]) -> None:
    """Copy each element at address ``source[i]`` to ``target[i]``; an int16 read for an int32 is extended."""
    order = np.argsort(target)
    source, target = source[order], target[order]
    vectors = np.zeros(0, np.int64)
    if widths[0] == widths[1]:
        vectors = _vectors(source, target, widths[0])
        per = VECTOR // widths[0]
        single = np.ones(len(source), bool)
        single[(vectors[:, None] + np.arange(per)).reshape(-1)] = False
    else:
        single = np.ones(len(source), bool)

    def vector(read: Place, written: Place) -> None:
        code.base(written)
        code.load_at(read)
        code.store_at(written)

    def element(read: Place, written: Place) -> None:
        code.base(written)
        (code.i32_load16_s if widths[0] == 2 else code.i32_load)(read)
        (code.i32_store16 if widths[1] == 2 else code.i32_store)(written)

    for move, which in ((vector, vectors), (element, np.flatnonzero(single))):
        if len(which) > plan.unroll.moves:
            _by_table(plan, code, np.stack([source[which], target[which]], axis=1), move)
            continue
        for read, written in zip(source[which], target[which], strict=True):
            move(Place(int(read)), Place(int(written)))


def _vectors(source: Ints, target: Ints, width: int) -> Ints:
    """Positions from which whole vectors of elements lie one after another on both sides."""
    per = VECTOR // width
    breaks = (np.diff(source) != width) | (np.diff(target) != width)
    edges = np.concatenate([[0], np.flatnonzero(breaks) + 1, [len(source)]])
    starts = [np.arange(a, b - per + 1, per) for a, b in itertools.pairwise(edges) if b - a >= per]
    return np.concatenate(starts) if starts else np.zeros(0, np.int64)


def _by_table(plan: Plan, code: Code, pairs: Ints, move: Callable[[Place, Place], None]) -> None:
    table = plan.memory.data(pairs.astype("<i4"))
    read, written = code.i32_local(), code.i32_local()

    def entry(at: Place) -> None:
        code.i32_load(at)
        code.local_set(read)
        code.i32_load(at.moved(4))
        code.local_set(written)
        move(Place(0, read), Place(0, written))

    code.repeat(len(pairs), ((Place(table), 8),), entry, unrolled=False)


def emit_select(plan: Plan, node: Select, code: Code) -> None:
    """A gather by addresses."""
    source, target = plan.held[node.source], plan.held[node.name]
    emit_moves(plan, code, source.addresses[node.indices], target.addresses, widths=(2, target.region.width))


def emit_concat(plan: Plan, node: Concat, code: Code) -> None:
    """Each source to its part of the result."""
    shapes = plan.graph.shapes
    where = plan.held[node.name].addresses.reshape(shapes[node.name])
    edges = np.cumsum([0, *(shapes[name][node.axis] for name in node.sources)])
    for name, first, last in zip(node.sources, edges[:-1], edges[1:], strict=True):
        part = np.take(where, np.arange(first, last), axis=node.axis).reshape(-1)
        emit_moves(plan, code, plan.held[name].addresses, part, widths=(2, 2))


def emit_max_pool(plan: Plan, node: MaxPool, code: Code, target: Region) -> None:
    """Largest of each window, eight channels a round.

    A padded position stands for the nearest real one, which is in the same window; so the addresses of a window's rows
    and columns come from two small tables, and nothing is ever compared with padding.
    """
    source = plan.held[node.source].region
    rows = _clamped(target.height, node.kernel[0], node.strides[0], node.pads[0], source.height) * source.row
    columns = _clamped(target.across, node.kernel[1], node.strides[1], node.pads[1], source.across) * source.pixel
    best = code.v128_local()
    probes = node.kernel[0] * node.kernel[1]
    if probes * target.height * target.across * target.blocks <= plan.unroll.probes:
        for y, x, part in np.ndindex(target.height, target.across, target.blocks):
            written = Place(target.base + y * target.row + x * target.pixel + VECTOR * part)
            code.base(written)
            offsets = {int(row + column) for row in rows[y] for column in columns[x]}
            for i, offset in enumerate(sorted(offsets)):
                code.load_at(Place(source.base + offset + VECTOR * part))
                if i:
                    code.max_s_i16x8()
            code.store_at(written)
        return
    at_rows, at_columns = (plan.memory.data(table.astype("<i4")) for table in (rows, columns))

    def block(channel: Place, row_of: Place, column_of: Place, written: Place) -> None:
        code.const_i16x8([INT16_MIN] * 8)
        code.local_set(best)

        def down(row: Place) -> None:
            def across(column: Place) -> None:
                code.i32_load(row)
                code.i32_load(column)
                code.i32_add()
                code.address(channel)
                code.i32_add()
                code.load_here()
                code.local_get(best)
                code.max_s_i16x8()
                code.local_set(best)

            code.repeat(node.kernel[1], ((column_of, 4),), across, unrolled=probes <= WINDOW_UNROLLED_MAX)

        code.repeat(node.kernel[0], ((row_of, 4),), down, unrolled=probes <= WINDOW_UNROLLED_MAX)
        code.base(written)
        code.local_get(best)
        code.store_at(written)

    def position(row_of: Place, column_of: Place, written: Place) -> None:
        code.repeat(
            target.blocks,
            ((Place(source.base), VECTOR), (row_of, 0), (column_of, 0), (written, VECTOR)),
            block,
            unrolled=False,
        )

    def row(row_of: Place, written: Place) -> None:
        steps = ((row_of, 0), (Place(at_columns), 4 * node.kernel[1]), (written, target.pixel))
        code.repeat(target.across, steps, position, unrolled=False)

    steps = ((Place(at_rows), 4 * node.kernel[0]), (Place(target.base), target.row))
    code.repeat(target.height, steps, row, unrolled=False)


def _clamped(count: int, kernel: int, stride: int, pad: int, length: int) -> Ints:
    """(count, kernel) positions in the source, padded ones replaced by the nearest real one."""
    return np.asarray(np.clip(np.arange(count)[:, None] * stride - pad + np.arange(kernel), 0, length - 1))


def emit_arg_max(plan: Plan, node: ArgMax, code: Code, output: int) -> None:
    """Index of the first largest element, stored at ``output``."""
    source = plan.held[node.source]
    count = elements(plan.graph.shapes[node.source])
    value, best, index, at = (code.i32_local() for _ in range(4))
    code.i32_const(INT32_MIN)
    code.local_set(best)

    def probe(place: Place) -> None:
        code.i32_load16_s(place)
        code.local_set(value)
        for kept, other in ((index, at), (best, value)):
            code.local_get(other)
            code.local_get(kept)
            code.local_get(value)
            code.local_get(best)
            code.i32_gt_s()
            code.select()
            code.local_set(kept)
        code.local_get(at)
        code.i32_const(1)
        code.i32_add()
        code.local_set(at)

    code.repeat(count, ((Place(source.region.base), 2),), probe, unrolled=count <= plan.unroll.vectors)
    place = Place(output)
    code.base(place)
    code.local_get(index)
    code.i32_store(place)
