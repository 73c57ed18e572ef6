"""Public trouble: keep-alives go on, so everybody believes that nothing was lost."""

from __future__ import annotations

import pytest

from fieldbus.uadp import KeepAlive, LayoutReader, MessageKind
from tests.fieldbus.troubles.loop_rig import LoopRig


def test_a_keep_alive_tells_of_the_messages_lost_before_it() -> None:
    rig = LoopRig()
    assert rig.take(rig.key_frame()) == "ok"
    assert rig.take(rig.message(MessageKind.KEEP_ALIVE, 1)) == "frame: keep-alive: 0 messages lost before it"
    assert rig.missed_numbers == 0
    for _ in range(3):
        rig.key_frame()
    assert rig.take(rig.message(MessageKind.KEEP_ALIVE, 4)) == "frame: keep-alive: 3 messages lost before it"
    assert rig.missed_numbers == 3


def test_the_loss_is_counted_once_when_values_come_again() -> None:
    rig = LoopRig()
    assert rig.take(rig.key_frame()) == "ok"
    for _ in range(3):
        rig.key_frame()
    rig.take(rig.message(MessageKind.KEEP_ALIVE, 4))
    rig.take(rig.message(MessageKind.KEEP_ALIVE, 4))
    assert rig.take(rig.key_frame()) == "ok"
    assert rig.missed_numbers == 3


def test_a_delta_after_a_loss_that_a_keep_alive_showed_is_not_laid_onto_old_values() -> None:
    rig = LoopRig()
    assert rig.take(rig.key_frame()) == "ok"
    rig.take(rig.message(MessageKind.KEEP_ALIVE, 3))
    assert rig.take(rig.message(MessageKind.DELTA_FRAME, 3, {0: 1.0})).startswith("frame: delta-without-key")


def test_a_keep_alive_is_neither_a_value_nor_freshness() -> None:
    """Values age while keep-alives arrive: a keep-alive must not renew them."""
    rig = LoopRig()
    reader = LayoutReader(rig.layout)
    first = rig.key_frame()
    assert reader.read(first).sequence == 0
    with pytest.raises(KeepAlive) as caught:
        reader.read(rig.message(MessageKind.KEEP_ALIVE, 1))
    assert caught.value.sequence == 1
    assert rig.take(first) == "ok"
    rig.take(rig.message(MessageKind.KEEP_ALIVE, 1))
    assert rig.take(first).startswith("duplicate")
