"""A short run of the kept fuzzer; long ones are started by hand."""

from __future__ import annotations

from tests.fieldbus.fuzz_net import run


def test_mutated_input_gives_a_value_or_one_error_and_reaches_both() -> None:
    seen = run(4_000, 5)
    assert seen.total() == 4_000
    assert {"ptp: ptp-tlv", "ptp: TIME_STATUS_NP", "disciplines: netlink", "disciplines: whole"} <= set(seen)
    assert {"ethernet: none", "ethernet: 2 tags", "replay: cut", "replay: whole", "replay: capture-record"} <= set(seen)
