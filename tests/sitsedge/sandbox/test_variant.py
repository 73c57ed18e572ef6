"""Which of a bundle's two modules runs: the relaxed one only where the engine has the machine's own dot product."""

from __future__ import annotations

import platform
from dataclasses import dataclass

import pytest

from sitsedge.sandbox import Sandbox, has_native_relaxed_dot, variant_for
from tests.sitsedge.sandbox.test_sandbox import guest


@dataclass(frozen=True)
class Modules:
    wasm: bytes
    wasm_relaxed: bytes


def answering(value: int) -> bytes:
    """A guest whose output tells which module it is."""
    return guest(f"i32.const 72 i32.const {value} i32.store i32.const 0")


BOTH = Modules(answering(1), answering(2))


@pytest.mark.parametrize(
    ("machine", "engine", "variant", "answer"),
    [
        ("x86_64", "jit", "relaxed-simd", 2),
        ("x86_64", "pulley", "simd128", 1),
        ("aarch64", "jit", "simd128", 1),
        ("riscv64", "jit", "simd128", 1),
    ],
)
def test_the_relaxed_module_runs_only_where_its_instruction_is_the_machines_own(
    monkeypatch: pytest.MonkeyPatch, machine: str, engine: str, variant: str, answer: int
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: machine)
    assert has_native_relaxed_dot(engine) == (variant == "relaxed-simd")
    assert variant_for(BOTH, engine) == variant
    with Sandbox.of(BOTH, engine=engine) as sandbox:
        assert sandbox.variant == variant
        assert sandbox.infer([0]) == (answer,)


def test_equal_modules_are_the_plain_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    same = Modules(BOTH.wasm, BOTH.wasm)
    assert variant_for(same, "jit") == "simd128"
    with Sandbox.of(same) as sandbox:
        assert sandbox.variant == "simd128"
