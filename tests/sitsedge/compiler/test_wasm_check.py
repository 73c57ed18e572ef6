"""The integer-only check: accepts what the emitter writes and refuses every float type and instruction."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
import wasmtime
from hypothesis import given, settings
from hypothesis import strategies as st

from sitsedge.compiler import wasm_binary as wb
from sitsedge.compiler.errors import CompileError
from sitsedge.compiler.wasm_check import require_integer_only
from tests.sitsedge.compiler.nets import emit_wasm, models, random_model

SAMPLE = Path(__file__).resolve().parents[3] / "wasm_modules" / "samples" / "first_difference.wat"


@settings(max_examples=30, deadline=None)
@given(models)
def test_emitted_modules_are_integer_only(model: object) -> None:
    assert require_integer_only(emit_wasm(model)) > 10  # type: ignore[arg-type]


def test_the_sample_is_integer_only() -> None:
    assert require_integer_only(bytes(wasmtime.wat2wasm(SAMPLE.read_text()))) > 20


FLOATS = {
    "parameter": "(func (param f32))",
    "result": "(func (result f64) unreachable)",
    "local": "(func (local f64))",
    "global": "(global f32 (f32.const 1))",
    "constant": "(func f32.const 1 drop)",
    "conversion": "(func i32.const 1 f64.convert_i32_s drop)",
    "truncation": "(func unreachable i32.trunc_f32_s drop)",
    "saturating-truncation": "(func unreachable i32.trunc_sat_f32_s drop)",
    "reinterpretation": "(func i32.const 1 f32.reinterpret_i32 drop)",
    "comparison": "(func unreachable f32.lt drop)",
    "arithmetic": "(func unreachable f64.add drop)",
    "load": "(memory 1) (func i32.const 0 f32.load drop)",
    "store": "(memory 1) (func unreachable f64.store)",
    "block-type": "(func (block (result f32) unreachable) drop)",
    "simd-arithmetic": "(func unreachable f32x4.add drop)",
    "simd-rounding": "(func unreachable f32x4.nearest drop)",
    "simd-rounding-64": "(func unreachable f64x2.trunc drop)",
    "simd-comparison": "(func unreachable f64x2.lt drop)",
    "simd-splat": "(func unreachable f32x4.splat drop)",
    "simd-lane": "(func unreachable f32x4.extract_lane 0 drop)",
    "simd-conversion": "(func unreachable f32x4.convert_i32x4_s drop)",
    "simd-demotion": "(func unreachable f32x4.demote_f64x2_zero drop)",
    "relaxed-multiply-add": "(func unreachable f32x4.relaxed_madd drop)",
}


@pytest.mark.parametrize("where", FLOATS)
def test_refuses_float(where: str) -> None:
    wasm = bytes(wasmtime.wat2wasm(f"(module {FLOATS[where]})"))
    with pytest.raises(CompileError) as refused:
        require_integer_only(wasm)
    assert refused.value.code == "wasm-float"


@pytest.mark.parametrize(
    "body",
    [
        "i32.const 1 i32.const 2 i32.mul drop",
        "i64.const -5 i64.const 3 i64.rem_s drop",
        "(block (result i32) i32.const 1) drop",
        "(loop (br_if 0 (i32.const 0)))",
        "i32.const 0 i32.const 0 i32.const 4 memory.fill",
        "v128.const i32x4 1 2 3 4 i32.const 2 i32x4.shr_s drop",
        "unreachable i8x16.shuffle 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 drop",
        "unreachable v128.load32_lane 1 drop",
        "unreachable i32x4.extract_lane 2 drop",
        "unreachable i32x4.relaxed_dot_i8x16_i7x16_add_s drop",
        "(block (block (br_table 0 1 (i32.const 0))))",
    ],
)
def test_accepts_integer_instructions(body: str) -> None:
    assert require_integer_only(bytes(wasmtime.wat2wasm(f"(module (memory 1) (func {body}))"))) > 0


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_damaged_modules_end_in_a_count_or_a_typed_refusal(data: st.DataObject) -> None:
    wasm = bytearray(emit_wasm(random_model(3)))
    for _ in range(data.draw(st.integers(1, 5))):
        wasm[data.draw(st.integers(8, len(wasm) - 1))] = data.draw(st.integers(0, 255))
    damaged = bytes(wasm[: data.draw(st.integers(8, len(wasm)))])
    with contextlib.suppress(CompileError):
        assert require_integer_only(damaged) >= 0


@given(st.integers(0, 2**40))
def test_unsigned_leb128_is_minimal_and_decodes(value: int) -> None:
    data = wb.unsigned(value)
    assert sum((byte & 0x7F) << 7 * i for i, byte in enumerate(data)) == value
    assert len(data) == max(1, -(-value.bit_length() // 7))


@given(st.integers(-(2**40), 2**40))
def test_signed_leb128_decodes(value: int) -> None:
    data = wb.signed(value)
    decoded = sum((byte & 0x7F) << 7 * i for i, byte in enumerate(data))
    if data[-1] & 0x40:
        decoded -= 1 << 7 * len(data)
    assert decoded == value
