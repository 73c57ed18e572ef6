"""The kernel benchmark compares programs that compute the same integers."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np

from benchmarks import wasm_kernel


def test_every_program_equals_the_reference_before_it_is_timed(tmp_path: Path) -> None:
    graph = wasm_kernel.network((8, 12, 4), seed=3)
    row = np.random.default_rng(0).integers(0, 128, 8)
    # Both layouts and every type once; all of them would take compilers half a minute.
    forms = wasm_kernel.FORMS[::3]
    programs = wasm_kernel.c_kernels(graph, row, tmp_path, forms)
    here = {compiler for compiler in wasm_kernel.COMPILERS if shutil.which(compiler)}
    assert {name.split()[0] for name in programs} == here
    assert len(programs) == len(here) * len(forms)
    programs["simd128"] = wasm_kernel.wasm_kernel(graph, row, relaxed=False, native=False)
    programs["relaxed"] = wasm_kernel.wasm_kernel(graph, row, relaxed=True, native=True)
    times = wasm_kernel.medians(programs, 3)
    assert times.keys() == programs.keys()
    assert min(times.values()) > 0
