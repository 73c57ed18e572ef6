"""What ``sitsctl status`` says of the clock."""

from __future__ import annotations

from typing import Any

import pytest

from sitsedge.cli.status import _clock_rows

HOLDOVER = {"kind": "ptp-sw", "hold": "holdover", "error_ns_max": 16_447, "reason": "ptp-port: LISTENING"}
FREE = {"kind": "free", "hold": "none", "error_ns_max": None, "reason": ""}


@pytest.mark.parametrize(
    ("loop", "rows"),
    [
        ({}, {}),
        ({"clock": FREE, "delta_e": {"p99_ns": None}, "w_sync_ns": None}, {"clock": "free"}),
        (
            {"clock": HOLDOVER, "delta_e": {"p99_ns": 278_065}, "w_sync_ns": 13_818},
            {
                "clock": "ptp-sw, holdover, within 16.4 µs, ptp-port: LISTENING",
                "Δe P99 (stamp to verdict)": "278 µs",
                "W_sync": "14 µs",
            },
        ),
    ],
)
def test_the_clock_is_shown_with_what_holds_it(loop: dict[str, Any], rows: dict[str, str]) -> None:
    assert dict(_clock_rows(loop)) == rows
