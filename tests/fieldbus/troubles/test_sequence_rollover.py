"""Public trouble: a counter wraps (UInt16 of UADP, UInt32 of nonces and of OPC UA) and everything after it is "old"."""

from __future__ import annotations

import pytest

from fieldbus.uadp import (
    KeyRing,
    LayoutReader,
    LayoutWriter,
    MessageKind,
    SecureReader,
    SecureWriter,
    SecurityError,
    SecurityMode,
    SecurityPolicy,
    SequenceEvent,
    SequenceTracker,
)
from tests.fieldbus.troubles.loop_rig import ZEROS, LoopRig

T_NS = 1_795_996_800_000_000_000


def test_uint16_of_a_writer_rolls_over_in_the_loop_without_a_refused_cycle() -> None:
    rig = LoopRig(first_sequence=65_530)
    assert [rig.take(rig.key_frame()) for _ in range(12)] == ["ok"] * 12
    assert rig.writer.next_sequence == 6
    assert rig.missed_numbers == 0


def test_a_gap_over_the_rollover_is_counted_and_a_repeat_before_it_is_old() -> None:
    rig = LoopRig(first_sequence=65_534)
    before = rig.key_frame()
    assert rig.take(before) == "ok"
    for _ in range(3):  # 65,535, 0 and 1 never arrive
        rig.key_frame()
    assert rig.take(rig.key_frame()) == "ok"
    assert rig.missed_numbers == 3
    assert rig.take(before).startswith("out-of-order")


def test_many_rollovers_keep_the_extended_number_growing() -> None:
    tracker = SequenceTracker()
    extended = [tracker.update(number % 65_536).extended for number in range(0, 65_536 * 4, 16_000)]
    assert extended == sorted(set(extended))
    assert tracker.counts[SequenceEvent.GAP] == len(extended) - 1


def test_deltas_go_on_over_the_rollover() -> None:
    rig = LoopRig(first_sequence=65_535)
    assert rig.take(rig.key_frame()) == "ok"
    assert rig.take(rig.message(MessageKind.DELTA_FRAME, 0, {0: 1.0})) == "ok"
    assert rig.take(rig.message(MessageKind.DELTA_FRAME, 1, {1: 2.0})) == "ok"


def test_uint32_of_nonces_ends_with_the_key_and_never_wraps_under_it() -> None:
    """A wrapped nonce counter would repeat key stream: the writer stops and says so, a new key starts anew."""
    data = [bytes([token]) * SecurityPolicy.AES128_CTR.key_data_bytes for token in (1, 2)]

    def ring() -> KeyRing:
        made = KeyRing(SecurityPolicy.AES128_CTR)
        made.install(1, data)
        return made

    rig = LoopRig()
    sealer = SecureWriter(ring(), SecurityMode.SIGN_AND_ENCRYPT, 1)
    sealer._count = 2**32 - 3  # two messages are left under this key
    writer = LayoutWriter(rig.layout, security=sealer)
    reader = LayoutReader(rig.layout, security=SecureReader(ring(), SecurityMode.SIGN_AND_ENCRYPT))
    frames = [writer.write(t_source_ns=T_NS + n, values=ZEROS) for n in range(2)]
    assert [reader.read(frame).sequence for frame in frames] == [0, 1]
    with pytest.raises(SecurityError, match="key-exhausted"):
        writer.write(t_source_ns=T_NS, values=ZEROS)
    sealer.rotate(2)
    assert reader.read(writer.write(t_source_ns=T_NS + 2, values=ZEROS)).sequence == 2
