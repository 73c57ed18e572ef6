"""A short run of the kept fuzzer; it must reach both values and most of the decoder's refusals."""

from __future__ import annotations

from tests.fieldbus.fuzz_uadp import fuzz


def test_short_fuzz_run_finds_nothing_and_reaches_much() -> None:
    reached = fuzz(6_000, seed=1)
    assert reached["decoded"] > 500
    assert reached["sample"] > 100
    assert len(reached) > 25, sorted(reached)
