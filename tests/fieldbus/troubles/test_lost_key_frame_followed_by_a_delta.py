"""Public trouble: the key frame is lost and the delta after it is laid onto values that are older still."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from fieldbus.uadp import DataSetSample, LayoutError, LayoutReader, MessageKind
from tests.fieldbus.troubles.loop_rig import FIELDS, LoopRig

DELTA = MessageKind.DELTA_FRAME


def test_the_loop_waits_for_the_next_key_frame() -> None:
    rig = LoopRig()
    assert rig.take(rig.key_frame((1.0,) * FIELDS)) == "ok"
    rig.key_frame((2.0,) * FIELDS)  # lost
    assert rig.take(rig.message(DELTA, 2, {0: 3.0})).startswith("frame: delta-without-key")
    assert rig.take(rig.message(DELTA, 3, {1: 3.0})).startswith("frame: delta-without-key")
    rig.writer._sequence = 4
    assert rig.take(rig.key_frame((4.0,) * FIELDS)) == "ok"
    assert rig.take(rig.message(DELTA, 5, {0: 5.0})) == "ok"


def test_a_delta_first_of_all_is_refused() -> None:
    rig = LoopRig()
    assert rig.take(rig.message(DELTA, 0, {0: 1.0})).startswith("frame: delta-without-key")


RIG = LoopRig()


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from(["key", "delta", "keep-alive"]), min_size=1, max_size=30), st.data())
def test_whatever_is_lost_a_sample_is_exactly_what_was_published_at_its_number(
    kinds: list[str], data: st.DataObject
) -> None:
    rig = RIG
    reader = LayoutReader(rig.layout)
    published: dict[int, tuple[float, ...]] = {}
    values = [0.0] * FIELDS
    sequence = 0
    for step, kind in enumerate(kinds):
        if kind == "keep-alive":
            frame = rig.message(MessageKind.KEEP_ALIVE, sequence)
        else:
            index = step % FIELDS
            values[index] = float(step + 1)
            rig.writer._sequence = sequence
            frame = (
                rig.key_frame(tuple(values)) if kind == "key" else rig.message(DELTA, sequence, {index: values[index]})
            )
            published[sequence] = tuple(values)
            sequence += 1
        found = read(reader, frame) if data.draw(st.booleans(), label=f"{kind} arrives") else None
        assert found is None or found.values == published[found.sequence]


def read(reader: LayoutReader, frame: bytes) -> DataSetSample | None:
    try:
        return reader.read(frame)
    except LayoutError:
        return None
