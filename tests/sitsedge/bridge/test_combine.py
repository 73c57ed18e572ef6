"""Samples of several stations as one: never a value of another time, never an old one after its station went."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fieldbus.opcua import ReadResult
from sitsedge.bridge.combine import REPEATED, Combiner, StationSample
from sitsedge.bridge.sample import (
    BAD_GONE,
    BAD_NO_DATA,
    BAD_WAITING,
    FieldValue,
    LatestAssembler,
    SameTimestampAssembler,
    TriggerAssembler,
)

MS = 1_000_000
T0 = 1_800_000_000 * 10**9
SKEW, AGE = 100 * MS, 250 * MS
STATIONS = {"lead": ("a", "b"), "polled": ("c",), "held": ("d", "e")}
ORDER = ("d", "a", "c", "b", "e")


def combiner() -> Combiner:
    return Combiner(STATIONS, ORDER, trigger="lead", skew_ns_max=SKEW, age_ns_max=AGE)


def numbers(*values: float | None) -> tuple[FieldValue, ...]:
    return tuple(FieldValue(value, BAD_GONE if value is None else 0) for value in values)


said = st.tuples(
    st.sampled_from(("lead", "polled", "held")),
    st.integers(0, 300),  # how old it is, in ms
    st.one_of(st.none(), st.floats(-1e6, 1e6)),
    st.integers(0, 150),  # how much later than the one before it comes, in ms
)


@given(st.lists(said, max_size=40))
def test_a_field_is_what_its_station_last_said_at_the_samples_time_or_bad(
    script: list[tuple[str, int, float, int]],
) -> None:
    whole, now_ns = combiner(), T0
    latest: dict[str, tuple[int, float | None]] = {}
    for name, age_ms, value, later_ms in script:
        now_ns += later_ms * MS + 1
        t_ns = now_ns - age_ms * MS
        sample = StationSample(t_ns, numbers(*[value] * len(STATIONS[name])), held=name == "held")
        repeated = name == "lead" and latest.get("lead", (0, None))[0] == t_ns
        latest[name] = (t_ns, value)
        made = whole.take(name, sample, now_ns)
        assert (made is None) is (name != "lead" or repeated)
        if made is None:
            continue
        assert made.t_source_ns == t_ns
        fields = dict(zip(ORDER, made.fields, strict=True))
        for station, tags in STATIONS.items():
            moment, content = latest.get(station, (0, None))
            fits = station != "polled" or (abs(t_ns - moment) <= SKEW and now_ns - moment <= AGE)
            for tag in tags:
                assert fields[tag].value == (content if fits else None)
                assert (fields[tag].value is None) is (fields[tag].status != 0)


def test_a_station_not_heard_of_has_no_value_yet_and_a_late_one_none_of_that_time() -> None:
    whole = combiner()
    first = whole.take("lead", StationSample(T0, numbers(1.0, 2.0)), T0)
    assert first is not None
    assert [field.status for field in first.fields] == [BAD_WAITING, 0, BAD_WAITING, 0, BAD_WAITING]
    whole.take("polled", StationSample(T0, numbers(3.0)), T0)
    late = whole.take("lead", StationSample(T0 + SKEW + 1, numbers(1.0, 2.0)), T0 + SKEW + 1)
    assert late is not None
    assert late.fields[2] == FieldValue(None, BAD_NO_DATA)
    assert whole.unmatched == {"polled": 1}
    assert whole.take("lead", StationSample(T0 + SKEW + 1, numbers(1.0, 2.0)), T0 + SKEW + 2) is None
    assert whole.dropped == {REPEATED: 1}


def result(tag: str, t_ns: int | None, value: float | None, status: int = 0) -> ReadResult:
    return ReadResult(tag, value, status, t_ns, None)


def test_a_dead_node_holds_up_no_sample_of_the_others() -> None:
    lacking = {"b": BAD_GONE}
    same = SameTimestampAssembler(("a", "b"))
    same.lacking = lacking
    assert same.take([result("a", T0, 1.0)])[0].fields == numbers(1.0, None)
    trigger = TriggerAssembler(("a", "b"), trigger="a", skew_ns_max=None)
    trigger.take([result("b", T0, 2.0)])
    trigger.lacking = lacking
    assert trigger.take([result("a", T0 + 1, 1.0)])[0].fields == numbers(1.0, None), "not the old value either"


def test_held_values_stand_until_the_server_says_something_else() -> None:
    latest = LatestAssembler(("a", "b"))
    [first] = latest.take([result("a", T0, 1.0)])
    assert first.fields == (FieldValue(1.0, 0), FieldValue(None, BAD_WAITING))
    assert latest.take([]) == []
    [second] = latest.take([result("b", T0 - 5, 2.0)])
    assert (second.t_source_ns, second.fields) == (T0, numbers(1.0, 2.0))
    latest.lacking = {"a": BAD_GONE}
    assert latest.take([])[0].fields == numbers(None, 2.0)
    assert latest.take([]) == [], "said once"
    latest.lacking = {}
    latest.reset()
    assert {field.status for field in latest.take([result("b", None, 2.0)])[0].fields} == {BAD_WAITING}
    assert latest.dropped == {"no-source-timestamp": 1}
