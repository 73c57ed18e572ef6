"""Integer graph → WebAssembly (guest ABI 1, wasm_modules/ABI.md); see ``module``."""

from sitsedge.compiler.backends.wasm.module import Variants, emit_variants, emit_wasm
from sitsedge.compiler.backends.wasm.plan import NO_UNROLL, Unroll

__all__ = ["NO_UNROLL", "Unroll", "Variants", "emit_variants", "emit_wasm"]
