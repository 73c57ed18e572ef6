"""The loop's view of the gate: modes that overtake each other, checkpoints that must not."""

from __future__ import annotations

import pytest

from attest.command import Mode
from sitsedge.loop.gateview import WITNESS_NS, GateView


def test_a_mode_that_overtook_an_older_answer_stays() -> None:
    view = GateView()
    modes = []
    for mode, change in ((Mode.AUTO, 2), (Mode.ADVISORY, 1), (Mode.ADVISORY, 3), (Mode.ADVISORY, 3)):
        view.told(int(mode), change)
        modes.append(view.mode)
    assert modes == [Mode.AUTO, Mode.AUTO, Mode.ADVISORY, Mode.ADVISORY]


def test_another_gate_process_counts_anew() -> None:
    view = GateView()
    view.told(int(Mode.AUTO), 9)
    view.connected()
    view.told(int(Mode.SHADOW), 1)
    assert view.mode is Mode.SHADOW


def test_a_checkpoint_is_open_until_its_answer_or_as_long_as_an_answer_may_take(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [1]
    monkeypatch.setattr("sitsedge.loop.gateview.time.monotonic_ns", lambda: now[0])
    view = GateView()
    assert not view.checkpoint_open
    view.checkpoint_sent()
    assert view.checkpoint_open
    view.witnessed()
    assert not view.checkpoint_open
    view.checkpoint_sent()
    now[0] += WITNESS_NS - 1
    assert view.checkpoint_open
    now[0] += 1
    assert not view.checkpoint_open
