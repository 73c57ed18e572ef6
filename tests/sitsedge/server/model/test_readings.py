"""The rules from a view to readings, alone: whatever a process says, a reading is a value that can be sent or none."""

from __future__ import annotations

from typing import Any

from asyncua import ua
from hypothesis import given, settings
from hypothesis import strategies as st

from sitsedge.server.model import (
    BridgeView,
    CommandView,
    GateView,
    LoopView,
    Percentiles,
    ProcessView,
    Reach,
    View,
    Word,
)
from sitsedge.server.model.nodes import date_time
from sitsedge.server.model.readings import GONE, GOOD, SILENT, readings

T = 1_796_004_284_806_440_615
SAID: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from([2**63, 2**64, 10**400]),
    st.floats(),
    st.text(st.characters()),
    st.sampled_from(["AUTO", "OFF", "swtpm", "ended", "\ud800"]),
    st.binary(max_size=8),
    st.lists(st.integers(), max_size=2),
    st.dictionaries(
        st.one_of(st.text(max_size=4), st.integers()), st.one_of(st.integers(), st.text(max_size=3)), max_size=3
    ),
)
PERCENTILES = st.builds(Percentiles, SAID, SAID, SAID, SAID)
WORDS = st.builds(Word, st.integers(min_value=0, max_value=T), st.sampled_from(Reach))
MEASURED = {"verify", "write", "frame_to_verdict", "prove", "end_to_end", "unattributed"}


def anything(kind: type) -> st.SearchStrategy[Any]:
    fields = {name: PERCENTILES if name in MEASURED else SAID for name in kind.__slots__ if name != "word"}
    return st.builds(kind, word=WORDS, **fields)


def all_of(view: View) -> list[Any]:
    return list(readings(view, outputs=("gap", "speed"), processes=("gate", "bridge")))


@settings(max_examples=30)
@given(gate=anything(GateView), loop=anything(LoopView), bridge=anything(BridgeView))
def test_whatever_is_said_each_reading_is_a_value_that_can_be_sent_or_none(gate: Any, loop: Any, bridge: Any) -> None:
    found = all_of(View(T, gate=gate, loop=loop, bridge=bridge))
    assert len({reading.path for reading in found}) == len(found)
    for reading in found:
        assert (reading.value is None) == ua.StatusCode(ua.UInt32(reading.status)).is_bad(), reading
        if isinstance(reading.value, str):
            reading.value.encode()
        if isinstance(reading.value, int):
            assert 0 <= reading.value < 2**64, reading
    if gate.word.reach is not Reach.FRESH:
        assert next(r for r in found if r.path == "Verified").value is False


def command(**change: Any) -> CommandView:
    given_values: dict[str, Any] = {
        "t_ns": T, "record": b"c", "epoch": 1, "sequence": 2, "t_source_ns": T, "t_decided_ns": T, "mode": "AUTO",
        "time_quality": "free", "proof_kind": 1, "proof": b"p", "outputs": (0.1, 0.2),
    }  # fmt: skip
    return CommandView(**(given_values | change))


def test_outputs_of_another_module_are_not_shown_under_these_names() -> None:
    found = {r.path: r for r in all_of(View(T, command=command(outputs=(0.1, 0.2, 0.3))))}
    assert found["LastCommand.Outputs.gap"].value is None
    assert found["LastCommand.Sequence"].value == 2


def test_what_was_not_written_or_read_back_has_no_value_and_no_time() -> None:
    found = {r.path: r for r in all_of(View(T, command=command(applied=(0.1, 0.2), t_written_ns=0, t_read_back_ns=0)))}
    assert found["LastCommand.Outputs.speed.Applied"].value == 0.2
    assert found["LastCommand.Outputs.speed.ReadBack"].value is None
    assert found["LastCommand.WrittenTime"].value is None
    assert found["LastCommand.ReadBackTime"].value is None


def test_a_record_of_the_past_stays_good_when_its_process_is_gone() -> None:
    gone = GateView(Word(T, Reach.GONE), mode="AUTO")
    view = View(T, gate=gone, command=command(), processes={"gate": ProcessView("dead", alive=False, t_ns=T)})
    found = {r.path: r.status for r in all_of(view)}
    assert found["LastCommand.Record"] == GOOD
    assert found["Processes.gate.State"] == GOOD
    assert found["Mode"] == GONE


def test_the_last_value_of_a_silent_process_has_the_time_it_was_said_at() -> None:
    found = {r.path: r for r in all_of(View(T, loop=LoopView(Word(T - 9, Reach.SILENT), cycles=5)))}
    assert (found["Counters.Cycles"].value, found["Counters.Cycles"].status) == (5, SILENT)
    assert found["Counters.Cycles"].t_ns == T - 9


def test_a_time_that_no_date_time_can_show_is_the_nearest_that_can() -> None:
    assert date_time(-(10**30)).year == 1970
    assert date_time(10**30).year == 9999
