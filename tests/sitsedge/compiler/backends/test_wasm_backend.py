"""The WebAssembly back end: both variants, unrolled and looped, equal the reference on every node."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import wasmtime
from hypothesis import given, settings
from hypothesis import strategies as st

from sitsedge.compiler.backends.wasm import NO_UNROLL, Unroll, emit_wasm
from sitsedge.compiler.backends.wasm.layout import MEMORY_BYTES_MAX, NEVER_ADDRESS, Memory
from sitsedge.compiler.errors import CompileError, QuantiseError
from sitsedge.compiler.graph.integer_graph import Input, IntegerGraph
from sitsedge.compiler.graph.integer_nodes import ArgMax, Concat, Leaky, MaxPool, Product, Select, Sum, Table
from sitsedge.compiler.graph.integer_weighted import Conv, Dense
from sitsedge.compiler.graph.reference import run
from sitsedge.compiler.wasm_check import require_integer_only
from sitsedge.sandbox import Sandbox, SandboxInputError, SandboxLimits
from sitsedge.sandbox.engine import make_engine
from tests.support.random_graphs import interesting_rows, random_graph

RELAXED_DOT = b"\xfd\x92\x02"
"""i16x8.relaxed_dot_i8x16_i7x16_s"""

WAYS = {
    "unrolled": None,
    "loops": NO_UNROLL,
    "loops-over-positions": Unroll(position_dots=0, vectors=0),
}


def outputs(wasm: bytes, rows: np.ndarray, *, native: bool = False) -> np.ndarray:
    with Sandbox(wasm, native_relaxed_dot=native) as sandbox:
        return np.array([sandbox.infer(row) for row in rows.tolist()])


def require_equal(graph: IntegerGraph, rows: np.ndarray, *, unroll: Unroll | None = None) -> None:
    wanted = run(graph, rows)
    for relaxed in (False, True):
        wasm = emit_wasm(graph, relaxed=relaxed, unroll=unroll)
        require_integer_only(wasm)
        assert np.array_equal(outputs(wasm, rows), wanted), f"relaxed={relaxed}"
        if RELAXED_DOT in wasm:
            # As this machine multiplies, and as the deterministic form does.
            assert np.array_equal(outputs(wasm, rows, native=True), wanted), "relaxed, native"


@pytest.mark.parametrize("way", WAYS)
@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_random_graphs_equal_the_reference(way: str, seed: int) -> None:
    graph = random_graph(seed)
    require_equal(graph, interesting_rows(graph, seed, count=8), unroll=WAYS[way])


@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), relaxed=st.booleans())
def test_equal_graphs_give_equal_bytes(seed: int, relaxed: bool) -> None:
    assert emit_wasm(random_graph(seed), relaxed=relaxed) == emit_wasm(random_graph(seed), relaxed=relaxed)


def images(high: int = 127, *, low: int = 0, shape: tuple[int, ...] = (3, 7, 6)) -> Input:
    return Input.make("x", shape, box_low=low, box_high=high)


def corners(graph: IntegerGraph, seed: int = 1, count: int = 12) -> np.ndarray:
    rng = np.random.default_rng(seed)
    low, high = graph.input.box_low.reshape(-1), graph.input.box_high.reshape(-1)
    edges = np.where(rng.integers(0, 2, (count, low.size)) == 1, high, low)
    return np.concatenate([low[None], high[None], edges, rng.integers(low, high + 1, (count, low.size))])


def network(source: Input) -> IntegerGraph:
    """Every node once, two padded convolutions of one value, more channels than one block."""
    rng = np.random.default_rng(5)
    nodes = (
        Conv.make(
            "c", "x", weights=rng.integers(-127, 128, (20, 3, 3, 3)), pads=(1, 1, 1, 1), shift=9, low=0, high=127,
            bias=rng.integers(-999, 999, 20),
        ),
        Conv.make("d", "c", weights=rng.integers(-90, 91, (20, 1, 3, 3)), pads=(1, 1, 1, 1), groups=20, shift=8),
        Conv.make(
            "g", "c", weights=rng.integers(-90, 91, (20, 5, 1, 3)), pads=(0, 2, 0, 2), dilations=(1, 2), groups=4,
            shift=rng.integers(6, 12, 20), low=-60, high=rng.integers(0, 90, 20),
        ),
        Sum.make("s", ("d", "g"), up_shifts=(0, 1), shift=1, low=-300, high=300),
        MaxPool.make("q", "c", kernel=(7, 6), strides=(1, 1)),
        Product.make("r", "s", "q", shift=7),
        Product.make("w", "r", "d", shift=9, low=-300, high=300),
        MaxPool.make("m", "w", kernel=(3, 3), strides=(2, 2), pads=(1, 1, 1, 1)),
        Leaky.make("l", "m", multiplier=3, shift=4),
        Table.make("t", "l", values=rng.integers(-99, 100, 601), first=-300),
        Concat.make("k", ("t", "l"), axis=0),
        Conv.make("p", "k", weights=rng.integers(-127, 128, (8, 40, 2, 2)), strides=(2, 1), shift=8),
        Select.make("f", "p", indices=np.arange(32), shape=(32,)),
        Dense.make("e", "f", weights=rng.integers(-20, 21, (11, 32)), shift=7),
        ArgMax("a", "e"),
    )  # fmt: skip
    return IntegerGraph.make(source, nodes)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("span", [(0, 127), (-60, 67), (-500, 500)])
def test_a_network_of_all_nodes_equals_the_reference(span: tuple[int, int], way: str) -> None:
    graph = network(images(span[1], low=span[0]))
    # Without the ArgMax every number shows.
    open_ended = IntegerGraph.make(graph.input, graph.nodes[:-1])
    require_equal(graph, corners(graph, count=4), unroll=WAYS[way])
    require_equal(open_ended, corners(graph, count=4), unroll=WAYS[way])


@pytest.mark.parametrize("last", ["c", "d", "s", "r", "w", "m", "l", "t", "k", "p", "f"])
def test_every_node_can_be_the_output(last: str) -> None:
    graph = network(images())
    position = [node.name for node in graph.nodes].index(last)
    kept = list(graph.nodes[: position + 1])
    # Values nothing reads are not allowed: drop what the shorter graph does not need.
    needed = {last}
    for node in reversed(kept):
        if node.name in needed:
            needed.update(node.sources)
    shorter = IntegerGraph.make(graph.input, tuple(node for node in kept if node.name in needed))
    require_equal(shorter, corners(shorter, count=3))


def dense(span: tuple[int, int], *, weight: int = 127, in_shift: int = 0) -> IntegerGraph:
    source = Input.make("x", (7,), box_low=span[0], box_high=span[1])
    weights = np.where(np.indices((9, 7)).sum(axis=0) % 2, weight, -weight)
    weights[0], weights[1] = weight, -weight
    return IntegerGraph.make(source, (Dense.make("y", "x", weights=weights, in_shift=in_shift, bias=5),))


@pytest.mark.parametrize("span", [(0, 127), (-1, 126), (-127, 0), (-32768, -32641), (32640, 32767), (40, 40)])
def test_the_relaxed_product_is_used_and_exact_where_the_bounds_span_seven_bits(span: tuple[int, int]) -> None:
    graph = dense(span)
    assert RELAXED_DOT in emit_wasm(graph, relaxed=True)
    assert RELAXED_DOT not in emit_wasm(graph)
    require_equal(graph, corners(graph))


@pytest.mark.parametrize("span", [(0, 128), (-1, 127), (-32768, 32767)])
def test_the_relaxed_product_is_not_used_for_wider_bounds(span: tuple[int, int]) -> None:
    graph = dense(span)
    assert RELAXED_DOT not in emit_wasm(graph, relaxed=True)
    require_equal(graph, corners(graph))


def test_the_relaxed_product_is_not_used_for_weights_above_int8() -> None:
    assert RELAXED_DOT in emit_wasm(dense((0, 127), weight=63, in_shift=1), relaxed=True)
    graph = dense((0, 127), weight=64, in_shift=1)
    assert RELAXED_DOT not in emit_wasm(graph, relaxed=True)
    require_equal(graph, corners(graph))


def test_padding_around_a_value_that_is_never_zero_is_zero() -> None:
    source = images(127, low=100, shape=(1, 4, 4))
    conv = Conv.make("c", "x", weights=np.ones((1, 1, 3, 3)), pads=(1, 1, 1, 1))
    graph = IntegerGraph.make(source, (conv,))
    # 0 … 127 with the border: no offset, and still seven bits.
    assert RELAXED_DOT in emit_wasm(graph, relaxed=True)
    require_equal(graph, corners(graph))
    # 1 … 128 without it, 0 … 128 with it.
    wider = IntegerGraph.make(images(128, low=1, shape=(1, 4, 4)), (conv,))
    assert RELAXED_DOT not in emit_wasm(wider, relaxed=True)
    require_equal(wider, corners(wider))


def test_a_select_with_repeats_and_one_over_another() -> None:
    source = images(900, low=-900, shape=(2, 3, 4))
    nodes = (
        Select.make("r", "x", indices=np.arange(24)[::-1], shape=(4, 6)),
        Select.make("q", "r", indices=[0, 5, 5, 7, 23], shape=(5,)),
        Select.make("o", "q", indices=[4, 2, 0], shape=(3,)),
        Dense.make("y", "o", weights=[[1, 2, 3], [-4, 5, 127]]),
    )
    graph = IntegerGraph.make(source, nodes)
    for unroll in WAYS.values():
        require_equal(graph, corners(graph), unroll=unroll)


def test_calls_do_not_depend_on_calls_before() -> None:
    graph = network(images())
    rows = corners(graph, count=5)
    with Sandbox(emit_wasm(graph)) as sandbox:
        forwards = [sandbox.infer(row) for row in rows.tolist()]
        assert [sandbox.infer(row) for row in rows[::-1].tolist()] == forwards[::-1]


@pytest.mark.parametrize("way", WAYS)
def test_an_input_outside_the_box_is_refused_and_leaves_the_outputs(way: str) -> None:
    graph = network(images(67, low=-60))
    with Sandbox(emit_wasm(graph, unroll=WAYS[way])) as sandbox:
        before = sandbox.infer([3] * graph.n_inputs)
        for position in (0, 5, graph.n_inputs - 1):
            for value in (-61, 68, 1 << 20, -(1 << 31)):
                row = [3] * graph.n_inputs
                row[position] = value
                with pytest.raises(SandboxInputError, match="status 1"):
                    sandbox.infer(row)
        assert sandbox.infer([3] * graph.n_inputs) == before


def test_large_nodes_read_tables_and_still_agree() -> None:
    rng = np.random.default_rng(3)
    source = Input.make("x", (256,), box_low=-2000, box_high=2000)
    first = Dense.make(
        "h", "x", weights=rng.integers(-127, 128, (300, 256)), shift=rng.integers(14, 17, 300), low=0, high=127
    )
    graph = IntegerGraph.make(source, (first, Dense.make("y", "h", weights=rng.integers(-127, 128, (10, 300)))))
    code = Unroll(dots=1 << 16)
    assert len(emit_wasm(graph)) < len(emit_wasm(graph, unroll=code))
    require_equal(graph, corners(graph, count=2))
    require_equal(graph, corners(graph, count=2), unroll=code)


def test_more_inputs_than_are_unrolled() -> None:
    source = Input.make("x", (1024,), box_low=-9, box_high=np.arange(1024))
    nodes = (
        Select.make("r", "x", indices=np.arange(1024), shape=(1, 1024)),
        MaxPool.make("m", "r", kernel=(1, 1000), strides=(1, 8)),
    )
    graph = IntegerGraph.make(source, nodes)
    require_equal(graph, corners(graph, count=3), unroll=Unroll(box=100, probes=0))


def test_too_much_memory() -> None:
    memory = Memory()
    memory.take(MEMORY_BYTES_MAX // 2)
    with pytest.raises(CompileError) as caught:
        memory.take(MEMORY_BYTES_MAX // 2)
    assert caught.value.code == "wasm-memory"


def test_too_large_a_module() -> None:
    # Only the size decides: a permutation of this many single elements is a table above the limit.
    order = np.random.default_rng(0).permutation(1 << 20)
    source = Input.make("x", (1 << 20,), box_low=0, box_high=1)
    graph = IntegerGraph.make(source, (Select.make("y", "x", indices=order, shape=(1 << 20,)),))
    with pytest.raises(CompileError) as caught:
        emit_wasm(graph)
    assert caught.value.code == "wasm-size"


def test_an_unproven_graph() -> None:
    source = Input.make("x", (400,), box_low=-32768, box_high=32767)
    graph = IntegerGraph.make(source, (Dense.make("y", "x", weights=np.full((1, 400), 127), in_shift=3),))
    with pytest.raises(QuantiseError) as caught:
        emit_wasm(graph)
    assert caught.value.code == "accumulator-width"


@pytest.mark.parametrize("relaxed", [False, True])
def test_the_word_that_settling_branches_on_stays_zero(relaxed: bool) -> None:
    """Its branches skip sums: whatever the module writes, it writes elsewhere."""
    graph = network(images())
    engine = make_engine("jit", SandboxLimits())
    store = wasmtime.Store(engine)
    store.set_fuel(1 << 40)
    store.set_epoch_deadline(1)
    exports = wasmtime.Instance(store, wasmtime.Module(engine, emit_wasm(graph, relaxed=relaxed)), []).exports(store)
    memory, infer, at = exports["memory"], exports["sits_infer"], exports["sits_input"]
    assert isinstance(memory, wasmtime.Memory)
    assert isinstance(infer, wasmtime.Func)
    assert isinstance(at, wasmtime.Func)
    for row in corners(graph, count=3):
        memory.write(store, row.astype("<i4").tobytes(), at(store))
        assert infer(store) == 0
        assert bytes(memory.read(store, NEVER_ADDRESS, NEVER_ADDRESS + 4)) == bytes(4)


def scattered(shape: tuple[int, ...], *, span: int = 127, border: bool = False) -> Input:
    """Every channel within ``span`` counts, each somewhere else (around 0 with ``border``)."""
    rng = np.random.default_rng(shape[0])
    low = -rng.integers(0, span + 1, shape[0]) if border else rng.integers(-20_000, 20_000, shape[0])
    ends = (np.broadcast_to(edge.reshape(-1, *(1,) * (len(shape) - 1)), shape) for edge in (low, low + span))
    box_low, box_high = ends
    return Input.make("x", shape, box_low=box_low, box_high=box_high)


def scattered_graphs() -> dict[str, tuple[IntegerGraph, bool]]:
    """Graphs over inputs whose channels lie apart, and whether the relaxed product can read them."""
    rng = np.random.default_rng(11)

    def weights(*shape: int) -> np.ndarray:
        return rng.integers(-127, 128, shape)

    flat, wide = scattered((37,)), scattered((37,), span=128)
    dense = Dense.make("d", "x", weights=weights(9, 37), shift=6)
    picked = Select.make("s", "x", indices=rng.permutation(37)[:20], shape=(20,))
    behind = Dense.make("d", "s", weights=weights(9, 20), shift=6)
    listed = Select.make("s", "x", indices=np.arange(32 * 12), shape=(32 * 12,))
    conv = Conv.make("c", "x", weights=weights(8, 16, 3, 3), pads=(1, 1, 1, 1), groups=2, shift=8)
    plain = replace(conv, pads=(0, 0, 0, 0))
    few = Conv.make("c", "x", weights=weights(8, 8, 2, 2), shift=8)
    return {
        "dense": (IntegerGraph.make(flat, (dense,)), True),
        "dense-span-128": (IntegerGraph.make(wide, (dense,)), False),
        "dense-behind-select": (IntegerGraph.make(flat, (picked, behind)), True),
        "dense-over-positions": (
            IntegerGraph.make(
                scattered((32, 3, 4)), (listed, Dense.make("d", "s", weights=weights(5, 32 * 12), shift=8))
            ),
            True,
        ),
        "conv": (IntegerGraph.make(scattered((32, 4, 5)), (plain,)), True),
        "conv-padded": (IntegerGraph.make(scattered((32, 4, 5), border=True), (conv,)), True),
        "conv-of-eight-channels": (IntegerGraph.make(scattered((8, 4, 5)), (few,)), False),
    }


@pytest.mark.parametrize("name", scattered_graphs())
@pytest.mark.parametrize("way", WAYS)
def test_channels_that_lie_apart_are_moved_each_by_its_own_offset(name: str, way: str) -> None:
    graph, fast = scattered_graphs()[name]
    require_equal(graph, corners(graph, count=6), unroll=WAYS[way])
    assert (RELAXED_DOT in emit_wasm(graph, relaxed=True)) == fast
