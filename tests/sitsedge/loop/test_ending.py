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
    loop._receiver = SimpleNamespace(drain_newest=lambda keep: ([frame], 2 * keep))  # type: ignore[assignment]
    loop._secured = None
    loop._tally = Tally("edge")
    loop._cycle = lambda one: not cycles.append(one)  # type: ignore[assignment,func-returns-value,method-assign]
    loop._ending = False
    if ending:
        loop._on_end(0, None)
    loop._frames()
    assert cycles == ([] if ending else [frame])
    assert loop._tally.kernel_dropped == 3
    assert loop._tally.refused.total() == 0


@pytest.mark.parametrize(("forged", "cycles", "superseded"), [(0, "c", 2), (1, "cb", 1), (3, "cba", 0)])
def test_forged_frames_do_not_displace_an_authentic_one_before_them(forged: int, cycles: str, superseded: int) -> None:
    seen: list[str] = []
    loop = object.__new__(Loop)
    loop._tally = Tally("device")

    def cycle(one: str) -> bool:
        seen.append(one)
        return len(seen) > forged

    loop._cycle = cycle  # type: ignore[assignment,method-assign]
    loop._newest_authentic(list("abc"))  # type: ignore[arg-type]
    assert ("".join(seen), loop._tally.superseded) == (cycles, superseded)
