"""Once a stop has begun, frames are read and forgotten."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from sitsedge.loop.app import Loop
from sitsedge.loop.tally import Tally


@pytest.mark.parametrize("ending", [False, True])
def test_a_frame_becomes_a_cycle_only_before_a_stop_begins(ending: bool) -> None:
    frame = SimpleNamespace(dropped_total=3)
    cycles: list[object] = []
    loop = object.__new__(Loop)  # the parts this needs; the whole process is tested with real ones
    loop._receiver = SimpleNamespace(drain_latest=lambda: (frame, 2))  # type: ignore[assignment]
    loop._tally = Tally("edge")
    loop._cycle = cycles.append  # type: ignore[assignment,method-assign]
    loop._ending = False
    if ending:
        loop._on_end(0, None)
    loop._frames()
    assert cycles == ([] if ending else [frame])
    assert loop._tally.kernel_dropped == 3
    assert loop._tally.refused.total() == 0
