"""Integer graph → WebAssembly module: one function a node, integers only, equal graphs give equal bytes.

``sits_infer`` returns 0, or 1 when an input lies outside the box (the outputs are then untouched). Two variants compute
the same integers: ``relaxed=False`` uses simd128; ``relaxed=True`` also keeps a byte copy, moved channel by channel to
0 … 127, of every value whose proven bounds allow it, and multiplies it by ``i16x8.relaxed_dot_i8x16_i7x16_s``: sixteen
products an instruction. That instruction is the same function on every machine only for such operands.

Sources: WebAssembly Core Specification 2.0, chapter 5; relaxed SIMD proposal.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import assert_never

import numpy as np

from sitsedge.compiler import wasm_binary as wb
from sitsedge.compiler.backends.wasm.code import LANES, VECTOR, Code, Place
from sitsedge.compiler.backends.wasm.elementwise import emit_leaky, emit_product, emit_sum, emit_table
from sitsedge.compiler.backends.wasm.layout import Region, round_up
from sitsedge.compiler.backends.wasm.moves import (
    emit_arg_max,
    emit_concat,
    emit_max_pool,
    emit_moves,
    emit_select,
)
from sitsedge.compiler.backends.wasm.plan import Held, Plan, Unroll
from sitsedge.compiler.backends.wasm.weighted import emit_weighted
from sitsedge.compiler.errors import CompileError
from sitsedge.compiler.graph.integer_graph import IntegerGraph, Node
from sitsedge.compiler.graph.integer_nodes import ArgMax, Concat, Leaky, MaxPool, Product, Select, Sum, Table
from sitsedge.compiler.graph.integer_weighted import Conv, Dense
from sitsedge.compiler.graph.intervals import prove
from sitsedge.compiler.reference import INT32_MAX, INT32_MIN, Ints

ABI_VERSION = 1
STATUS_INPUT_RANGE = 1

WASM_BYTES_MAX = 16 << 20
"""The sandbox takes no larger module."""


def emit_wasm(graph: IntegerGraph, *, relaxed: bool = False, unroll: Unroll | None = None) -> bytes:
    """The module's bytes. Proves the graph first (``QuantiseError``); raises ``CompileError`` where it is too large."""
    return _emit(Plan(graph, prove(graph), relaxed, unroll or Unroll()))


@dataclass(frozen=True, slots=True)
class Variants:
    """Both modules of a graph, and the weighted nodes that the relaxed one computes with the relaxed dot product."""

    plain: bytes
    relaxed: bytes
    relaxed_nodes: tuple[str, ...]


def emit_variants(graph: IntegerGraph) -> Variants:
    """Both modules, equal where no node can use the relaxed product; raises what ``emit_wasm`` raises."""
    bounds = prove(graph)
    plain, relaxed = (Plan(graph, bounds, wanted, Unroll()) for wanted in (False, True))
    return Variants(_emit(plain), _emit(relaxed), tuple(relaxed.relaxed_nodes))


def _emit(plan: Plan) -> bytes:
    graph = plan.graph
    inputs = plan.memory.take(4 * round_up(graph.n_inputs, 2 * LANES))
    outputs = plan.memory.take(4 * round_up(graph.n_outputs, 2 * LANES))
    bodies = [_read_input(plan, inputs)]
    bodies += [body for node in graph.nodes if (body := _node(plan, node, outputs)) is not None]
    described = (
        ("sits_abi", ABI_VERSION),
        ("sits_input", inputs),
        ("sits_input_count", graph.n_inputs),
        ("sits_output", outputs),
        ("sits_output_count", graph.n_outputs),
    )
    # Function 0 is sits_infer, then the describing ones, then what sits_infer calls.
    first = 1 + len(described)
    functions = [_infer(range(first, first + len(bodies))), *(_constant(value) for _, value in described), *bodies]
    types = [b"\x60\x00" + bytes([1, wb.I32]), b"\x60\x00\x00"]
    kinds = [b"\x00"] * (first + 1) + [b"\x01"] * (len(bodies) - 1)
    exports = [wb.name("memory") + b"\x02\x00", wb.name("sits_infer") + b"\x00\x00"]
    exports += [wb.name(text) + b"\x00" + wb.unsigned(1 + i) for i, (text, _) in enumerate(described)]
    pages = wb.unsigned(plan.memory.pages)
    sections = [
        wb.section(1, wb.vector(types)),
        wb.section(3, wb.vector(kinds)),
        wb.section(5, wb.vector([b"\x01" + pages + pages])),
        wb.section(7, wb.vector(exports)),
        wb.section(10, wb.vector(functions)),
    ]
    if plan.memory.segments:
        sections.append(wb.section(11, wb.vector(_segment(*segment) for segment in plan.memory.segments)))
    module = wb.MAGIC + b"".join(sections)
    if len(module) > WASM_BYTES_MAX:
        raise CompileError(
            "wasm-size",
            found=f"a module of {len(module)} bytes",
            expected=f"at most {WASM_BYTES_MAX}",
            hint="use fewer weights, or pooling before reshapes and transposes",
        )
    return module


def _constant(value: int) -> bytes:
    """A function that returns ``value``."""
    code = Code()
    code.i32_const(value)
    return code.body()


def _segment(address: int, content: bytes) -> bytes:
    """An active data segment of memory 0."""
    return b"\x00\x41" + wb.signed(address) + b"\x0b" + wb.unsigned(len(content)) + content


def _infer(called: range) -> bytes:
    """Read the input, which may refuse it, and run the nodes."""
    code = Code()
    code.call(called[0])
    code.return_if(STATUS_INPUT_RANGE)
    for index in called[1:]:
        code.call(index)
    code.i32_const(0)
    return code.body()


def _read_input(plan: Plan, inputs: int) -> bytes:
    """Check the box, narrow to int16 and bring the input into the order of its region; returns 1 outside the box."""
    graph, code = plan.graph, Code()
    groups = round_up(graph.n_inputs, 2 * LANES) // LANES
    _check_box(plan, code, inputs)
    code.return_if(STATUS_INPUT_RANGE)
    held = plan.place(graph.input.name)
    flat = _is_flat(held)
    narrow = held.region.base if flat else plan.memory.region((graph.n_inputs,)).base

    def pair(read: Place, written: Place) -> None:
        code.base(written)
        code.load_at(read)
        code.load_at(read.moved(VECTOR))
        code.narrow_i32x4_s()
        code.store_at(written)

    code.repeat(
        groups // 2,
        ((Place(inputs), 2 * VECTOR), (Place(narrow), VECTOR)),
        pair,
        unrolled=groups <= plan.unroll.box,
    )
    if not flat:
        emit_moves(plan, code, narrow + 2 * np.arange(graph.n_inputs), held.addresses, widths=(2, 2))
    plan.pack(graph.input.name, code)
    code.i32_const(0)
    return code.body()


def _is_flat(held: Held) -> bool:
    """Whether the elements lie one after another in row-major order."""
    return bool(np.all(np.diff(held.addresses) == held.region.width))


def _check_box(plan: Plan, code: Code, inputs: int) -> None:
    """Push whether any input lies outside its bounds."""
    source = plan.graph.input
    groups = round_up(source.box_low.size, LANES) // LANES
    low = _lanes(source.box_low, groups * LANES, INT32_MIN)
    high = _lanes(source.box_high, groups * LANES, INT32_MAX)
    value = code.v128_local()

    def check(place: Place, push_low: Callable[[], None], push_high: Callable[[], None]) -> None:
        code.load_at(place)
        code.local_set(value)
        code.local_get(value)
        push_low()
        code.lt_s()
        code.local_get(value)
        push_high()
        code.gt_s()
        code.or_()

    if groups <= plan.unroll.box:
        for group in range(groups):
            at = slice(group * LANES, (group + 1) * LANES)
            check(
                Place(inputs + VECTOR * group),
                partial(code.const_i32x4, low[at]),
                partial(code.const_i32x4, high[at]),
            )
            if group:
                code.or_()
    else:
        outside = code.v128_local()
        tables = [Place(plan.memory.data(bounds.astype("<i4"))) for bounds in (low, high)]

        def group_of(place: Place, at_low: Place, at_high: Place) -> None:
            check(place, partial(code.load_at, at_low), partial(code.load_at, at_high))
            code.local_get(outside)
            code.or_()
            code.local_set(outside)

        steps = ((Place(inputs), VECTOR), (tables[0], VECTOR), (tables[1], VECTOR))
        code.repeat(groups, steps, group_of, unrolled=False)
        code.local_get(outside)
    code.any_true()


def _lanes(values: Ints, width: int, fill: int) -> Ints:
    return np.pad(values.reshape(-1), (0, width - values.size), constant_values=fill)


def _node(plan: Plan, node: Node, outputs: int) -> bytes | None:
    """The function of one node, or None where it needs none."""
    last = node.name == plan.graph.output
    code = Code()
    if isinstance(node, ArgMax):
        emit_arg_max(plan, node, code, outputs)
        return code.body()
    if plan.is_view(node):
        assert isinstance(node, Select)
        source = plan.held[node.source]
        plan.held[node.name] = Held(source.region, source.addresses[node.indices], source.packed)
        return None
    wide = last and isinstance(node, Dense | Conv | Sum | Product | Leaky)
    held = _output(plan, node, outputs) if wide else plan.place(node.name)
    _compute(plan, node, code, held.region)
    if last and held.region.start != outputs:
        where = outputs + 4 * np.arange(plan.graph.n_outputs)
        emit_moves(plan, code, held.addresses, where, widths=(held.region.width, 4))
    elif not last:
        plan.pack(node.name, code)
    return code.body()


def _output(plan: Plan, node: Node, outputs: int) -> Held:
    """An int32 region for the output: the output itself where the order of elements is the same."""
    shape = plan.graph.shapes[node.name]
    if len(shape) > 1:
        return plan.place(node.name, width=4)
    size = round_up(plan.graph.n_outputs, 2 * LANES) * 4
    region = Region(outputs, size, shape[0], 1, 1, 4, (0, 0, 0, 0))
    plan.held[node.name] = Held(region, region.addresses())
    return plan.held[node.name]


def _compute(plan: Plan, node: Node, code: Code, target: Region) -> None:
    match node:
        case Dense() | Conv():
            emit_weighted(plan, node, code, target)
        case Sum():
            emit_sum(plan, node, code, target)
        case Product():
            emit_product(plan, node, code, target)
        case MaxPool():
            emit_max_pool(plan, node, code, target)
        case Leaky():
            emit_leaky(plan, node, code, target)
        case Table():
            emit_table(plan, node, code, target)
        case Select():
            emit_select(plan, node, code)
        case Concat():
            emit_concat(plan, node, code)
        case ArgMax():
            raise AssertionError("an ArgMax has no region")
        case _:
            assert_never(node)
