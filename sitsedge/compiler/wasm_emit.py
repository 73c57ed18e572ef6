"""Integer model → WebAssembly (guest ABI 1, wasm_modules/ABI.md): unrolled SIMD, integers only.

Activations lie in memory as int16. For every pair of inputs one 32-bit load fills all four lanes with the
pair, and ``i32x4.dot_i16x8_s`` with a constant adds both products for four neurons at once: eight
multiplications per instruction and no horizontal sums. Weights are constants in the code, so the module
has no data segment, and equal models give equal bytes.

``sits_infer`` returns 0, or 1 when an input lies outside the box (the outputs are then untouched).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sitsedge.compiler import wasm_binary as wb
from sitsedge.compiler.reference import INT32_MAX, INT32_MIN, IntegerLayer, IntegerModel, Ints

ABI_VERSION = 1
STATUS_INPUT_RANGE = 1
BASE_ADDRESS = 64
"""First byte used; address 0 stays free so that a zeroed pointer is never a valid buffer."""

PAGE = 65536
LANES = 4


@dataclass(frozen=True, slots=True)
class _Layout:
    """Byte addresses: inputs (int32), one int16 buffer per layer input, outputs (int32)."""

    inputs: int
    buffers: tuple[int, ...]
    outputs: int
    pages: int


def _padded(count: int, multiple: int) -> int:
    return -(-count // multiple) * multiple


def _layout(model: IntegerModel) -> _Layout:
    address = BASE_ADDRESS
    inputs = address
    address += 4 * _padded(model.n_inputs, LANES)
    buffers = []
    for layer in model.layers:
        buffers.append(address := _padded(address, 16))
        address += 2 * _padded(layer.weights.shape[1], 8)
    outputs = _padded(address, 16)
    end = outputs + 4 * _padded(model.n_outputs, LANES)
    return _Layout(inputs, tuple(buffers), outputs, _padded(end, PAGE) // PAGE)


def emit_wasm(model: IntegerModel) -> bytes:
    """The module's bytes; the same model always gives the same bytes."""
    layout = _layout(model)
    bodies = [_infer(model, layout)]
    last = len(model.layers) - 1
    for index, layer in enumerate(model.layers):
        target = layout.outputs if index == last else layout.buffers[index + 1]
        bodies.append(_layer(layer, layout.buffers[index], target, wide=index == last))
    described = (
        ("sits_abi", ABI_VERSION),
        ("sits_input", layout.inputs),
        ("sits_input_count", model.n_inputs),
        ("sits_output", layout.outputs),
        ("sits_output_count", model.n_outputs),
    )
    first = len(bodies)
    bodies += [_constant(value) for _, value in described]
    types = [b"\x60\x00" + bytes([1, wb.I32]), b"\x60\x00\x00"]
    kinds = [b"\x00"] + [b"\x01"] * len(model.layers) + [b"\x00"] * len(described)
    exports = [wb.name("memory") + b"\x02\x00", wb.name("sits_infer") + b"\x00\x00"]
    exports += [wb.name(text) + b"\x00" + wb.unsigned(first + i) for i, (text, _) in enumerate(described)]
    pages = wb.unsigned(layout.pages)
    return b"".join(
        (
            wb.MAGIC,
            wb.section(1, wb.vector(types)),
            wb.section(3, wb.vector(kinds)),
            wb.section(5, wb.vector([b"\x01" + pages + pages])),
            wb.section(7, wb.vector(exports)),
            wb.section(10, wb.vector(bodies)),
        )
    )


def _constant(value: int) -> bytes:
    """A function that returns ``value``."""
    code = wb.Code()
    code.i32_const(value)
    return code.body()


def _infer(model: IntegerModel, layout: _Layout) -> bytes:
    """Function 0: check the box, narrow the inputs to int16, run the layers."""
    code = wb.Code()
    groups = _padded(model.n_inputs, LANES) // LANES
    held = [code.v128_local() for _ in range(groups)]
    low = _lanes(model.box_low, groups * LANES, INT32_MIN)
    high = _lanes(model.box_high, groups * LANES, INT32_MAX)
    for group, local in enumerate(held):
        at = slice(group * LANES, (group + 1) * LANES)
        code.load(layout.inputs + 16 * group)
        code.local_set(local)
        code.local_get(local)
        code.const_i32x4(low[at])
        code.lt_s()
        code.local_get(local)
        code.const_i32x4(high[at])
        code.gt_s()
        code.or_()
        if group:
            code.or_()
    code.any_true()
    code.return_if(STATUS_INPUT_RANGE)
    _store_narrow(code, held, layout.buffers[0])
    for index in range(len(model.layers)):
        code.call(index + 1)
    code.i32_const(0)
    return code.body()


def _lanes(values: Ints, width: int, fill: int) -> list[int]:
    return [*(int(v) for v in values), *([fill] * (width - values.size))]


def _store_narrow(code: wb.Code, held: list[int], address: int) -> None:
    """Store locals of four int32 each as consecutive int16; every value fits (proven, or box-checked)."""
    for first in range(0, len(held), 2):
        code.store_address()
        code.local_get(held[first])
        if first + 1 < len(held):
            code.local_get(held[first + 1])
        else:
            code.const_i32x4((0, 0, 0, 0))
        code.narrow_i32x4_s()
        code.store(address + 8 * first)


def _layer(layer: IntegerLayer, source: int, target: int, *, wide: bool) -> bytes:
    """One layer; ``wide`` stores int32 (outputs), otherwise int16 (the next layer's inputs)."""
    code = wb.Code()
    outputs, inputs = layer.weights.shape
    groups, pairs = _padded(outputs, LANES) // LANES, _padded(inputs, 2) // 2
    columns = np.zeros((groups * LANES, pairs * 2), np.int64)
    columns[:outputs, :inputs] = layer.columns()
    pair_locals = [code.v128_local() for _ in range(pairs)]
    result_locals = [code.v128_local() for _ in range(groups)]
    for pair, local in enumerate(pair_locals):
        code.load32_splat(source + 4 * pair)
        code.local_set(local)
    start = _lanes(layer.bias + layer.rounding, groups * LANES, 0)
    for group, result in enumerate(result_locals):
        at = slice(group * LANES, (group + 1) * LANES)
        code.const_i32x4(start[at])
        for pair, local in enumerate(pair_locals):
            weights = columns[at, 2 * pair : 2 * pair + 2].reshape(-1)
            if weights.any():
                code.local_get(local)
                code.const_i16x8(int(w) for w in weights)
                code.dot_i16x8_s()
                code.add()
        code.local_set(result)
        _shift(code, result, _lanes(layer.shift, groups * LANES, 0)[at])
        if layer.activation != "none":
            _clamp(code, layer, result, group)
    if wide:
        for group, result in enumerate(result_locals):
            code.store_address()
            code.local_get(result)
            code.store(target + 16 * group)
    else:
        _store_narrow(code, result_locals, target)
    return code.body()


def _shift(code: wb.Code, result: int, shifts: list[int]) -> None:
    """Shift each lane by its own count: one shift per distinct count, merged by masks."""
    distinct = sorted(set(shifts))
    if distinct == [0]:
        return
    code.local_get(result)
    code.shr_s(distinct[0])
    for count in distinct[1:]:
        code.local_get(result)
        code.shr_s(count)
        # bitselect takes the first operand where the mask is set.
        code.const_i32x4(0 if lane == count else -1 for lane in shifts)
        code.bitselect()
    code.local_set(result)


def _clamp(code: wb.Code, layer: IntegerLayer, result: int, group: int) -> None:
    width = _padded(layer.weights.shape[0], LANES)
    at = slice(group * LANES, (group + 1) * LANES)
    code.local_get(result)
    code.const_i32x4(_lanes(layer.low, width, 0)[at])
    code.max_s()
    if layer.activation == "clamp":
        code.const_i32x4(_lanes(layer.high, width, 0)[at])
        code.min_s()
    code.local_set(result)
