"""Integer graph → WebAssembly (guest ABI 1, wasm_modules/ABI.md); see ``module``."""

from sitsedge.compiler.backends.wasm.module import emit_wasm
from sitsedge.compiler.backends.wasm.plan import NO_UNROLL, Unroll

__all__ = ["NO_UNROLL", "Unroll", "emit_wasm"]
